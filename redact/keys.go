package redact

import (
	"bytes"
	"strings"
)

// A wordClass is a set of the roles that a word can have in a key.
type wordClass uint16

const (
	wordSecret   wordClass = 1 << iota // the value is a secret, unless a wordHarmless follows
	wordKey                            // "key": the value is a secret if a wordBefore precedes it
	wordBefore                         // makes a following "key" a secret
	wordHarmless                       // names something about a secret, such as its owner
	wordAsks                           // makes the next secret harmless: the key asks for the secret, or says whether there is a secret
	wordPass                           // "pass": the value is a secret after a wordLogin, or if "pass" is alone between dots
	wordLogin
	wordPage // makes a following "token" harmless
	wordToken
	wordSense // gives a following wordPass or wordBearer another meaning
	wordBearer
	wordLast    // the value is a secret if no word follows
	wordSession // at the end of a parameter's name: a long value with a digit is a secret
)

// wordLists has the words of each role.
var wordLists = map[wordClass]string{ // #nosec G101 -- words, not secrets
	wordSecret: "token secret password passwords passwd passphrase passcode pwd secrets credential credentials creds cookie cookies sessionid " +
		"connectionstring apikey apikeys accesskey privatekey secretkey signingkey storepass keypass sshpass",
	wordToken: "token",
	wordKey:   "key keys",
	wordBefore: "secret api access private signing encryption decryption account shared preshared ssh pgp gpg master hmac aes auth " +
		"subscription",
	wordLast: "authorization jwt bearer dsn mnemonic otp totp psk pw",
	wordHarmless: "type kind name count counts usage limit budget length size url uri endpoint expiry expires expired expiration ttl age policy " +
		"strength version namespace changed reset required enabled present valid index bucket issuer provider manager store algorithm " +
		"consent domain file path dir rotation rotated hint error status id arn alg algo field label source format ref reference scheme result " +
		// properties of a secret
		"fingerprint thumbprint prefix suffix symbol state mode class category level score complexity encoding bits decimals position offset line " +
		"column start end span rank ids comment title description tag tags tier plan revision generation visibility visible standard method pattern regex " +
		"rule rules samesite less schema metadata public header last before after requirement requirements setting settings preference preferences notice prompt " +
		// purposes, places and owners of a secret
		"owner holder holders audience subject role realm group scope scopes region location host address chain network contract link engine backend " +
		"mount resource project replica environment env program mint ticker market permission permissions alias placeholder button form page screen dialog banner cache pool tree stream embedding " +
		// events and times of a secret
		"created updated revoked deleted refreshed issued used verified exists available configured missing set at by in out lifetime duration " +
		"interval timeout latency days hours minutes seconds ms attempts failures retries match mismatch validation validator encryption hashing " +
		"hasher helper reason event action rate supply balance price amount fee logprob logprobs logit bias probability " +
		"uuid guid labels names types versions cost quota grant accepted detected reuse resets same only flag flags secure sent delivered requested " +
		"granted denied allowed supported forced optional shown clicked opened rejected failed succeeded tries tried found parser " +
		"entropy perplexity log prob swap team organization organisation tenant customer vendor purpose platform curve date time timestamp quality generator " + //nolint:misspell // both spellings occur in keys
		"lifecycle masked remaining window accept reject priority severity threshold precision country locale language unit stats metric metrics counter sum " +
		"avg average mean median min max total percent percentage flow step stage phase channel",
	wordAsks:    "is has had was needs need requires require use uses can should must no without allow enable disable forgot lost show hide toggle",
	wordPass:    "pass",
	wordLogin:   "auth user db database smtp mysql postgres pg redis ftp login admin basic proxy mail email imap ldap become wallet ssh keystore truststore",
	wordBearer:  "bearer mnemonic",
	wordSession: "session sid auth jsessionid phpsessid sessid assertion verifier",
	wordSense:   "test tests qa unit smoke integration regression check checks lint render compiler build boarding standard torch flag opcode cpu instruction asm",
	wordPage: "page continuation pagination paging next prev previous resume sync skip scroll cursor marker delta checkpoint watch offset cancel cancellation " +
		"lexer parser logprobs syntax keyword lookahead unexpected fencing fence lock lease etag concurrency version idempotency ordering barrier " +
		"search history change after before list epoch generation snapshot transaction commit consistency causal sequence bookmark seek anchor retry " +
		"separator delimiter newline whitespace punctuation identifier operator literal lexical opening closing string comment " +
		"prefix suffix sentinel unknown padding padded masked predicted candidate reasoning thinking cached tool assistant word sub " +
		"eos bos pad unk sep cls mask stop start end vocab special image audio prompt completion output input draft sampled generated first " +
		"erc nft spl bep lp base quote native wrapped reward governance staking stake gas utility fungible liquidity collateral pool mint fee " +
		"sell buy from to underlying synthetic bridged stablecoin asset debt yield voting vote deposit swap design color theme css",
}

// classes maps each word to its roles.
var classes = func() map[string]wordClass {
	m := make(map[string]wordClass)
	for class, list := range wordLists {
		for word := range strings.FieldsSeq(list) {
			m[word] |= class
		}
	}
	return m
}()

// classOf returns the roles of a word in lower case.
func classOf(word []byte) wordClass {
	c, known := classes[string(word)]
	if known {
		return c
	}
	for _, end := range [...]string{"password", "passwd", "secret", "token"} { // as in PGPASSWORD, but not in pagetoken
		if first, is := bytes.CutSuffix(word, []byte(end)); is && classOf(first)&wordPage == 0 {
			return wordSecret
		}
	}
	return 0
}

// pairs lists pairs of words that name a secret if no dot separates them, such as session id. It maps the
// second word to the possible first words.
var pairs = map[string]string{
	"id": " session ", "key": " deploy app application client license licence storage session functions ", "string": " connection conn ", "auth": " basic ", //nolint:misspell // both spellings occur in keys
	"phrase": " seed recovery mnemonic ", "code": " mfa otp totp authorization recovery backup ",
}

// maxWord is the maximum length of a word in bytes. Longer words are cut before they are looked up.
const maxWord = 24

// A words splits a key into words. A word ends at every byte that is not a letter or digit, and where the case
// changes.
type words struct {
	key     string
	from, i int    // the beginning and the end of the current word in key
	before  string // the word before the current word, with the digits at its end; "" if a dot separates the two words
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

// isSecret reports whether the words of a key say that its value is a secret. The result ends says whether the last
// words of key can affect the verdict for further words, if key is the beginning of a longer key.
func isSecret(key string) (secret, ends bool) {
	w := words{key: key}
	var last wordClass
	pending := false // the words so far name a secret
	atEnd := false   // the current word names a secret if the key ends with it
	asks := false    // the next secret is harmless
	for word := w.next(); word != nil; word = w.next() {
		if len(word) == 0 { // a number
			continue
		}
		c := classOf(word)
		if c&wordToken != 0 && last&wordPage != 0 || c&(wordPass|wordBearer) != 0 && last&wordSense != 0 {
			c = 0
		}
		harmless := c&wordHarmless != 0
		// The word id is harmless in key_id and in AWS's SecretId, but not in Vault's secret_id.
		if harmless && pending && string(word) == "id" {
			harmless = last&wordBefore == 0 || w.from > 0 && lowerLetter(key[w.from-1])
		}
		found := false
		switch {
		case w.before != "" && pairs[string(word)] != "" && strings.Contains(pairs[string(word)], " "+strings.ToLower(w.before)+" "):
			found = true
		case harmless:
			pending = false
		case c&wordSecret != 0:
			found = true
		case c&wordKey != 0:
			found = last&wordBefore != 0
		case c&wordPass != 0:
			found = w.alone() || last&wordLogin != 0
		}
		asks = asks && w.before != ""
		atEnd = c&wordLast != 0 && !asks
		pending = pending || found && !asks
		asks = asks && !found || c&wordAsks != 0
		last = c
	}
	return pending || atEnd, pending || last&(wordBefore|wordLogin|wordPage|wordSense) != 0
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

const dsn = 1<<('d'-'a') | 1<<('s'-'a') | 1<<('n'-'a') // in dsn, but also in many other keys

// roots are sets of letters. Each key that isSecret accepts has all letters of at least one root, except keys
// that end with dsn.
var roots = func() (list [18]uint32) {
	for i, root := range [...]string{"cder", "abre", "opt", "ceimno", "acdefmo", "aps", "eky", "ekont", "cerst", "pw", "ahinortuz", "ceiko", "jtw", "kps", "abchistu", "cginorst", "deinos", "abcdekopu"} {
		for _, c := range []byte(root) {
			list[i] |= letters[c]
		}
	}
	return list
}()

// maybeSecret is a quick check that rejects most keys for which isSecret is false.
func maybeSecret(key string) bool {
	has := uint32(0)
	for i := range len(key) {
		has |= letters[key[i]]
	}
	for _, root := range roots[:] {
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

// isSession reports whether the last word of a parameter's name is a wordSession.
func isSession(name string) bool {
	w := words{key: name}
	var last wordClass
	for word := w.next(); word != nil; word = w.next() {
		last = classOf(word)
	}
	return last&wordSession != 0
}

// isConnection reports whether name, which names a secret, names a connection string. A connection string often has
// no secret.
func isConnection(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "dsn") || strings.HasSuffix(name, "string") && strings.Contains(name, "conn")
}

// isSecretParameter reports whether name is a secret as the name of a URL parameter, but not as the name of an
// attribute. An example is the signature of a signed URL.
func isSecretParameter(name string) bool {
	var w [maxWord]byte
	if len(name) > maxWord {
		return false
	}
	for i := range len(name) {
		w[i] = lower(name[i])
	}
	switch string(w[:len(name)]) {
	case "sig", "signature", "x-amz-signature", "x-amz-credential", "x-goog-signature", "x-goog-credential", "pass", "auth", "samlresponse":
		return true
	}
	return false
}
