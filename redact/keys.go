package redact

import "strings"

// A wordClass is a set of the roles that a word can have in a key.
type wordClass uint16

const (
	wordSecret   wordClass = 1 << iota // the value is a secret, unless a wordHarmless follows
	wordKey                            // "key": the value is a secret if a wordBefore precedes it
	wordBefore                         // makes a following "key" a secret
	wordHarmless                       // names a harmless property of a secret
	wordPass                           // "pass": the value is a secret after a wordLogin, or if "pass" is alone between dots
	wordLogin
	wordPage // makes a following "token" harmless
	wordToken
	wordLast // the value is a secret if no word follows
)

// classOf returns the roles of a word in lower case.
func classOf(word []byte) wordClass {
	switch string(word) {
	case "token":
		return wordSecret | wordToken
	case "secret":
		return wordSecret | wordBefore
	case "authorization", "jwt", "bearer", "dsn", "mnemonic", "otp", "totp":
		return wordLast
	case "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secrets", "credential", "credentials", "creds",
		"cookie", "cookies", "sessionid", "connectionstring", "apikey", "apikeys", "apisecret", "apitoken", "accesskey", "accesstoken",
		"authtoken", "bearertoken", "clientsecret", "idtoken", "privatekey", "refreshtoken", "secretkey", "sessiontoken", "signingkey":
		return wordSecret
	case "key", "keys":
		return wordKey
	case "api", "access", "private", "signing", "encryption", "account", "shared", "ssh", "pgp", "gpg", "master", "hmac":
		return wordBefore
	case "auth":
		return wordBefore | wordLogin
	case "type", "kind", "name", "count", "counts", "usage", "limit", "budget", "length", "size", "url", "uri", "endpoint",
		"expiry", "expires", "expired", "expiration", "ttl", "age", "policy", "strength", "version", "namespace", "changed", "reset",
		"required", "enabled", "present", "valid", "index", "bucket", "issuer", "provider", "manager", "store", "algorithm",
		"consent", "domain", "file", "path", "dir", "rotation", "rotated", "hint", "error", "status", "id", "arn", "alg", "algo", "field", "label",
		"source", "format", "ref", "reference", "scheme", "result":
		return wordHarmless
	case "pass":
		return wordPass
	case "user", "db", "database", "smtp", "mysql", "postgres", "pg", "redis", "ftp", "login", "admin", "basic", "proxy":
		return wordLogin
	case "page", "continuation", "pagination", "next", "resume", "sync", "cancel", "cancellation", "lexer", "parser":
		return wordPage
	}
	for _, end := range [...]string{"password", "passwd"} { // as in PGPASSWORD
		if len(word) > len(end) && string(word[len(word)-len(end):]) == end {
			return wordSecret
		}
	}
	return 0
}

// pairs lists pairs of words that name a secret if no dot separates them, such as session id. It maps the
// second word to the possible first words.
var pairs = map[string]string{
	"id": " session ", "key": " deploy ", "string": " connection conn ", "auth": " basic ", "phrase": " seed recovery mnemonic ",
	"code": " mfa otp totp authorization recovery backup ",
}

// maxWord is the number of bytes of a word that are looked up.
const maxWord = 24

// A words splits a key into words. A word ends at every byte that is not a letter or digit, and where the case
// changes.
type words struct {
	key     string
	from, i int    // the beginning and the end of the current word in key
	before  string // the word before the current one, with the digits at its end; "" if a dot separates the two
	word    [maxWord]byte
}

// next returns the next word in lower case without the digits at its end. It returns nil at the end of the key.
// A word that is too long is cut.
func (w *words) next() []byte {
	w.before = w.key[w.from:w.i]
	for w.i < len(w.key) && !alphanumeric(w.key[w.i]) {
		if w.key[w.i] == '.' {
			w.before = ""
		}
		w.i++
	}
	n := 0
	for w.from = w.i; w.i < len(w.key) && alphanumeric(w.key[w.i]); w.i++ {
		c := w.key[w.i]
		if w.i > w.from && upper(c) && (!upper(w.key[w.i-1]) || w.i+1 < len(w.key) && lowerLetter(w.key[w.i+1])) {
			break
		}
		if n < maxWord {
			w.word[n] = lower(c)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	end := n
	for end > 0 && digit(w.word[end-1]) {
		end--
	}
	return w.word[:end]
}

// alone reports whether the word is a whole part of the key, delimited by dots or the ends of the key.
func (w *words) alone() bool {
	return (w.from == 0 || w.key[w.from-1] == '.') && (w.i == len(w.key) || w.key[w.i] == '.')
}

func upper(c byte) bool        { return 'A' <= c && c <= 'Z' }
func lowerLetter(c byte) bool  { return 'a' <= c && c <= 'z' }
func digit(c byte) bool        { return '0' <= c && c <= '9' }
func alphanumeric(c byte) bool { return upper(c) || lowerLetter(c) || digit(c) }

// isSecret reports whether the words of a key say that its value is a secret. The result ends is for a key that
// is the beginning of a longer key: it says whether the last words of key can affect the verdict for the words
// after it.
func isSecret(key string) (secret, ends bool) {
	w := words{key: key}
	var last wordClass
	pending := false // the words so far name a secret
	atEnd := false   // the current word names a secret if the key ends with it
	for word := w.next(); word != nil; word = w.next() {
		if len(word) == 0 { // a number
			continue
		}
		c := classOf(word)
		atEnd = c&wordLast != 0
		harmless := c&wordHarmless != 0
		// The word id is harmless in key_id and in AWS's SecretId, but not in Vault's secret_id.
		if harmless && pending && string(word) == "id" {
			harmless = last&(wordKey|wordToken) != 0 || w.from > 0 && lowerLetter(key[w.from-1])
		}
		switch {
		case w.before != "" && pairs[string(word)] != "" && strings.Contains(pairs[string(word)], " "+strings.ToLower(w.before)+" "):
			pending = true
		case harmless:
			pending = false
		case c&wordToken != 0:
			pending = pending || last&wordPage == 0
		case c&wordSecret != 0:
			pending = true
		case c&wordKey != 0:
			pending = pending || last&wordBefore != 0
		case c&wordPass != 0:
			pending = pending || w.alone() || last&wordLogin != 0
		}
		last = c
	}
	return pending || atEnd, pending || last&(wordBefore|wordLogin|wordPage) != 0
}

// letters maps each letter to a bit, ignoring case.
var letters = func() (table [256]uint32) {
	for c := range table {
		if l := lower(byte(c)); lowerLetter(l) {
			table[c] = 1 << (l - 'a')
		}
	}
	return table
}()

const (
	rare        = 1<<('j'-'a') | 1<<('k'-'a') | 1<<('s'-'a') | 1<<('w'-'a') | 1<<('z'-'a')
	dsn         = 1<<('d'-'a') | 1<<('s'-'a') | 1<<('n'-'a') // in dsn, but also in many other keys
	withoutRare = 5                                          // number of roots without a rare letter, which are the first ones
)

// roots are sets of letters. Each key that isSecret accepts has all letters of at least one root, except keys
// that end with dsn.
var roots = func() (list [17]uint32) {
	for i, root := range [...]string{"cder", "abre", "opt", "ceimno", "acdefmo", "aps", "eky", "ekont", "cerst", "dpw", "ahinortuz", "ceiko", "jtw", "abchistu", "cginorst", "deinos", "abcdekopu"} {
		for _, c := range []byte(root) {
			list[i] |= letters[c]
		}
	}
	return list
}()

// maybeName is a quick check that rejects most keys for which isSecret is false. The parameter has is the set
// of the letters of key.
func maybeName(has uint32, key string) bool {
	list := roots[:]
	if has&rare == 0 {
		list = roots[:withoutRare]
	}
	for _, root := range list {
		if has&root == root {
			return true
		}
	}
	if has&dsn != dsn {
		return false
	}
	key = strings.TrimRight(key, "0123456789_-.")
	return len(key) > 2 && strings.EqualFold(key[len(key)-2:], "sn")
}

// maybeSecret is a quick check that rejects most keys for which isSecret is false; see maybeName.
func maybeSecret(key string) bool {
	has := uint32(0)
	for i := range len(key) {
		has |= letters[key[i]]
	}
	return maybeName(has, key)
}

// isSecretParameter reports whether the URL parameter called name is a secret, although an attribute called
// name is not. Examples are the signatures of signed URLs.
func isSecretParameter(name string) bool {
	var w [maxWord]byte
	if len(name) > maxWord {
		return false
	}
	for i := range len(name) {
		w[i] = lower(name[i])
	}
	switch string(w[:len(name)]) {
	case "sig", "signature", "x-amz-signature", "x-amz-credential", "x-goog-signature", "x-goog-credential", "pass", "auth":
		return true
	}
	return false
}
