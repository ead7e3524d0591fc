package redact

// A wordClass is a set of meanings that a word has in a key.
type wordClass uint8

const (
	wordSecret   wordClass = 1 << iota // the value is a secret, unless a harmless word follows
	wordKey                            // "key": the value is a secret after a wordBefore
	wordBefore                         // makes "key" a secret
	wordHarmless                       // says something about a secret: its value is none
	wordPass                           // "pass": the value is a secret if it is a whole part of the key, and after a wordLogin
	wordLogin
	wordPage // makes "token" harmless
	wordToken
)

// classOf returns the meanings of a word in lower case.
func classOf(word []byte) wordClass {
	switch string(word) {
	case "token":
		return wordSecret | wordToken
	case "secret":
		return wordSecret | wordBefore
	case "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secrets", "credential", "credentials", "creds",
		"authorization", "cookie", "cookies", "jwt", "apikey", "apikeys", "apisecret", "apitoken", "accesskey", "accesstoken",
		"authtoken", "bearertoken", "clientsecret", "idtoken", "privatekey", "refreshtoken", "secretkey", "sessiontoken", "signingkey":
		return wordSecret
	case "key", "keys":
		return wordKey
	case "api", "access", "private", "signing", "encryption", "account", "shared", "ssh", "pgp", "gpg", "master", "hmac", "deploy":
		return wordBefore
	case "auth":
		return wordBefore | wordLogin
	case "type", "kind", "name", "count", "counts", "usage", "limit", "budget", "length", "size", "url", "uri", "endpoint",
		"expiry", "expires", "expired", "expiration", "ttl", "age", "policy", "strength", "version", "namespace", "changed", "reset",
		"required", "enabled", "present", "valid", "index", "bucket", "issuer", "provider", "manager", "store", "algorithm",
		"consent", "domain", "file", "path", "dir", "rotation", "rotated", "hint", "error", "status", "id":
		return wordHarmless
	case "pass":
		return wordPass
	case "user", "db", "database", "smtp", "mysql", "postgres", "pg", "redis", "ftp", "login", "admin", "basic", "proxy":
		return wordLogin
	case "page", "continuation", "pagination", "next", "resume", "sync", "cancel", "cancellation":
		return wordPage
	}
	for _, end := range [...]string{"password", "passwd"} { // as in PGPASSWORD
		if len(word) > len(end) && string(word[len(word)-len(end):]) == end {
			return wordSecret
		}
	}
	return 0
}

// maxWord is the size of the longest word that is looked up.
const maxWord = 24

// A words splits a key into words: at all that is no letter or digit, and where the case changes.
type words struct {
	key     string
	from, i int // where the word begins and ends
	word    [maxWord]byte
}

// next returns the next word in lower case without digits at its end, nil at the end of the key.
// A word that is too long is cut.
func (w *words) next() []byte {
	for w.i < len(w.key) && !alphanumeric(w.key[w.i]) {
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

// alone reports whether the word is a whole part of the key between dots.
func (w *words) alone() bool {
	return (w.from == 0 || w.key[w.from-1] == '.') && (w.i == len(w.key) || w.key[w.i] == '.')
}

func upper(c byte) bool        { return 'A' <= c && c <= 'Z' }
func lowerLetter(c byte) bool  { return 'a' <= c && c <= 'z' }
func digit(c byte) bool        { return '0' <= c && c <= '9' }
func alphanumeric(c byte) bool { return upper(c) || lowerLetter(c) || digit(c) }

// isSecret reports whether the words of a key say that its value is a secret. ends says that the
// words at the end decide, because more of the key may follow.
func isSecret(key string) (secret, ends bool) {
	w := words{key: key}
	var last wordClass
	pending := false // the last words name a secret
	for word := w.next(); word != nil; word = w.next() {
		c := classOf(word)
		if pending {
			harmless := c&wordHarmless != 0
			if harmless && string(word) == "id" { // the id of a key is none, Vault's secret_id is one
				harmless = last&(wordKey|wordToken) != 0
			}
			if !harmless {
				return true, false
			}
		}
		switch {
		case c&wordToken != 0:
			pending = last&wordPage == 0
		case c&wordSecret != 0:
			pending = true
		case c&wordKey != 0:
			pending = last&wordBefore != 0
		case c&wordPass != 0:
			pending = w.alone() || last&wordLogin != 0
		default:
			pending = false
		}
		last = c
	}
	return pending, pending || last&(wordBefore|wordLogin|wordPage) != 0
}

// letters are the bytes of which the words of a secret have some: one of the first five, or c and d.
var letters = [256]uint8{
	'j': 1, 'k': 1, 's': 1, 'w': 1, 'z': 1, 'c': 2, 'd': 4, 'J': 1, 'K': 1, 'S': 1, 'W': 1, 'Z': 1, 'C': 2, 'D': 4,
}

// maybeSecret reports whether isSecret may be true for a key. It is quick.
func maybeSecret(key string) bool {
	has := uint8(0)
	for i := range len(key) {
		has |= letters[key[i]]
	}
	return has&1 != 0 || has == 2|4
}

// isSecretParameter reports whether a parameter of a URL with that name is a secret. Signatures of
// signed URLs are secrets there, but not as attributes.
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
