package redact

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"
)

// starts marks the bytes at which patterns are checked. Few bytes of a text are marked.
var starts = [256]uint8{'=': 1, ':': 1, '-': 1, '@': 1, '%': 1, '<': 1, '\'': 1, '"': 1, 'b': 1, 'B': 1, 'w': 1, 'W': 1, 'k': 1, 'K': 1}

// find applies the patterns of the default policy.
func (f *finder) find() {
	s := f.s
	for i := 0; i < len(s); i++ {
		for i+8 <= len(s) {
			t := s[i : i+8]
			if starts[t[0]]|starts[t[1]]|starts[t[2]]|starts[t[3]]|starts[t[4]]|starts[t[5]]|starts[t[6]]|starts[t[7]] != 0 {
				break
			}
			i += 8
		}
		for i < len(s) && starts[s[i]] == 0 {
			i++
		}
		if i == len(s) {
			break
		}
		switch s[i] {
		case '=':
			f.assignment(i)
		case ':':
			f.colon(i)
		case '-':
			f.dashes(i)
		case '@':
			f.dataSource(i)
		case '%':
			f.encoded(i)
		case '<':
			f.tag(i)
		case '"', '\'':
			f.quoted(i)
		case 'w', 'W':
			if i > 0 && lower(s[i-1]) == 's' {
				f.argument(i)
			}
		case 'k', 'K':
			if i+2 < len(s) && lower(s[i+1]) == 'e' && (lower(s[i+2]) == 'y' || lower(s[i+2]) == 'n') {
				f.argument(i)
			}
		default:
			if i+6 < len(s) && (s[i+5] == ' ' || s[i+6] == ' ') {
				f.scheme(i)
			}
		}
		i = max(i, f.end-1)
	}
	if len(s) >= minRun {
		f.runs()
		f.base64()
	}
}

// maxName is the maximum length of the name of a secret, and of the search for a name before a value.
const maxName = 128

// isName reports whether c occurs in names.
func isName(c byte) bool { return isRun[c] || c == '[' || c == ']' }

// nameBefore returns the name that ends at i, and the offset at which the name begins.
func (f *finder) nameBefore(i int) (name string, from int) {
	for from = i; from > 0 && i-from < maxName && isName(f.s[from-1]); {
		from--
	}
	skip := 0
	name = f.s[from:i]
	if from > 0 && name != "" {
		switch before := f.s[from-1]; {
		case before == '\\' && name[0] == 'u' && len(name) > 4: // a JSON escape, such as \u0026
			skip = 5
		case before == '\\':
			skip = 1
		case before == '%' && len(name) > 2: // %26 or %2526, and so on
			for skip = 2; skip+2 < len(name) && name[skip-2:skip] == "25"; {
				skip += 2
			}
		}
	}
	return name[skip:], from + skip
}

// quotedBefore is like nameBefore, but the name may be in quotes. It also returns the closing quote with the
// backslashes before it, or "" if there is none.
func (f *finder) quotedBefore(i int) (name string, from int, quote string) {
	if i > 1 && f.s[i-1] == ']' && isQuote(f.s[i-2]) { // as in env["name"]
		i--
	}
	end := i
	if end > 0 && isQuote(f.s[end-1]) {
		end = len(strings.TrimRight(f.s[:end-1], `\`))
		quote = f.s[end:i]
	}
	name, from = f.nameBefore(end)
	if quote != "" && (from == 0 || f.s[from-1] != f.s[i-1]) {
		name = ""
	}
	return name, from, quote
}

func isQuote(c byte) bool { return c == '"' || c == '\'' }

// secretName reports whether a value called name is a secret. The secrets of a connection string have names of
// their own.
func (f *finder) secretName(name string) bool {
	if !maybeSecret(name) || matchAny(f.r.p.allow, name) {
		return false
	}
	secret, _ := isSecret(name)
	return secret && !isConnection(name)
}

// secretPair reports whether name is the word "value" in a pair such as name: password, value: x. The word
// begins at offset from.
func (f *finder) secretPair(name string, from int) bool {
	if !strings.EqualFold(name, "value") {
		return false
	}
	const blank = " \t\r\n"
	before := strings.TrimRight(f.s[max(0, from-maxName):from], blank+`"',;\`)
	i := len(before)
	for i > 0 && isName(before[i-1]) {
		i--
	}
	if !f.secretName(before[i:]) {
		return false
	}
	rest := strings.ToLower(strings.TrimRight(before[:i], blank+`"'\:=`))
	return len(rest) < i && (strings.HasSuffix(rest, "name") || strings.HasSuffix(rest, "key"))
}

// assignment finds the value in name=value, name := value and name => value. The equals sign is at i.
func (f *finder) assignment(i int) {
	s := f.s
	end, from := i, i+1
	switch {
	case from < len(s) && s[from] == '>':
		from++
	case end > 0 && s[end-1] == ':':
		end--
	}
	if end == 0 {
		return
	}
	value := from + blanks(s[from:])
	if isBlank(s[end-1]) {
		if value > from {
			f.setting(len(strings.TrimRight(s[:end], blank)), value, false)
		}
		return
	}
	name, at, _ := f.quotedBefore(end)
	if !f.secretName(name) && !f.secretPair(name, at) && !f.session(name, at, from) {
		if !f.inURL(at) || !isSecretParameter(name) || matchAny(f.r.p.allow, name) {
			return
		}
	}
	if from < len(s) && s[from] == ' ' && from > i+1 {
		from++
	}
	f.value(from)
}

// argument finds the value in name value, as in the file .netrc or after ENV in a Dockerfile. Byte i is the w of
// password, or the k of token or key.
func (f *finder) argument(i int) {
	s := f.s
	end := i + 1
	for end < len(s) && end < i+maxName && isName(s[end]) {
		end++
	}
	if end == len(s) || !isBlank(s[end]) || !f.isLongAt(end+1) {
		return
	}
	if name, _ := f.nameBefore(end); f.secretName(name) && !strings.EqualFold(name, "token") { // "invalid token x" is often from a parser
		f.value(end + 1)
	}
}

// inURL reports whether the name that begins at i is the name of a URL's parameter.
func (f *finder) inURL(i int) bool {
	return i > 0 && (f.s[i-1] == '?' || f.s[i-1] == '&') || i > 5 && f.s[i-6:i] == `\u0026`
}

// session reports whether name=value is a session, or the code that OAuth passes to a callback beside the
// parameter state. The name begins at offset from, the value at i.
func (f *finder) session(name string, from, i int) bool {
	if !f.isLongAt(i) {
		return false
	}
	if strings.EqualFold(name, "code") {
		beside := f.s[max(0, from-maxQuery):min(len(f.s), i+maxQuery)]
		return f.inURL(from) && (strings.Contains(beside, "&state=") || strings.Contains(beside, "?state="))
	}
	return isSession(name) && !matchAny(f.r.p.allow, name)
}

// maxQuery is the maximum distance of the parameters code and state.
const maxQuery = 512

// isLongAt is isLong for the beginning of an unquoted value at i.
func (f *finder) isLongAt(i int) bool {
	s := f.s[i:min(len(f.s), i+maxName)]
	return isLong(s[:valueEnd(s, 0)])
}

// isLong reports whether a value is too long to be a word, and has a digit.
func isLong(s string) bool { return len(s) >= minSetting && strings.ContainsAny(s, "0123456789") }

// encoded finds the value in name%3Dvalue, which occurs in a URL inside another URL, and in name%253Dvalue.
func (f *finder) encoded(i int) {
	hex, from := escaped(f.s, i)
	if hex != "3D" && hex != "3d" {
		return
	}
	name, _ := f.nameBefore(i)
	if !f.secretName(name) && (!isSecretParameter(name) || matchAny(f.r.p.allow, name)) {
		return
	}
	end := from
	for ; end < len(f.s) && strings.IndexByte(valueEnds, f.s[end]) < 0; end++ {
		if hex, _ := escaped(f.s, end); hex == "26" || hex == "23" {
			break
		}
	}
	if !isPlain(f.s[from:end]) {
		f.add(from, end, ruleParameter)
	}
}

// escaped returns the two digits of the character that is escaped at i, once or several times, as in %26 and
// %2526, and the offset after it.
func escaped(s string, i int) (hex string, end int) {
	if s[i] != '%' {
		return "", i
	}
	for i++; strings.HasPrefix(s[i:], "25"); {
		i += len("25")
	}
	end = min(i+2, len(s))
	return s[i:end], end
}

// maxElement is the maximum size of an XML element.
const maxElement = 1 << 10

// minSetting is the minimum size of a value after a blank. Shorter values are often words of a sentence.
const minSetting = 8

// setting finds the value in name = value, name: value and name: "value". The name ends at end, the value begins at
// i. Sentences can have the same form, so the value must contain a digit. After a colon, a value without quotes must
// also be at the end of a line, a list or an object.
func (f *finder) setting(end, i int, colon bool) {
	s := f.s
	name, from, _ := f.quotedBefore(end)
	isPair := f.secretPair(name, from)
	if !isPair && !maybeSecret(name) {
		return
	}
	quote, size := quoteAt(s, i)
	isList := quote == "" && i < len(s) && s[i] == '['
	var to int
	switch {
	case quote != "":
		to = closing(s, i+size, quote)
	case isList:
		to = closingBracket(s[:min(len(s), i+maxList)], i)
		isList = strings.IndexByte(s[i:to], ',') >= 0 || strings.IndexByte(s[i:to], ' ') < 0
	default:
		to = valueEnd(s, i)
	}
	if quote == "" && !isList {
		if rest := s[to+blanks(s[to:]):]; colon && rest != "" && strings.IndexByte("#\r\n,;}])\"'`\\", rest[0]) < 0 {
			return
		}
		low := max(0, from-maxName)
		if from > 1 && s[from-1] == ' ' && alphanumeric(s[from-2]) { // two words, as in "api key: x" and "page token: x"
			name = s[low+strings.LastIndexByte(s[low:from-1], ' ')+1 : end]
		}
	}
	if isLong(s[min(i+size, to):to]) && (isPair || f.secretName(name)) {
		f.value(i)
	}
}

// maxList is the maximum size of a list in brackets.
const maxList = 256

// schemes are the names of authentication schemes, which precede credentials: see RFC 9110, section 11.
var schemes = [...]string{"bearer", "basic", "digest", "token", "negotiate", "ntlm", "apikey", "oauth", "aws4-hmac-sha256", "hawk"}

func isScheme(word string) bool {
	return slices.ContainsFunc(schemes[:], func(s string) bool { return strings.EqualFold(s, word) })
}

// listOfGo is the beginning of a list of texts in the notation of %#v.
const listOfGo = "[]string{"

// value adds an edit for the value that begins at i, if the value is a secret.
func (f *finder) value(i int) {
	s := f.s
	if strings.HasPrefix(s[i:], listOfGo) {
		i += len(listOfGo)
	}
	quote, size := quoteAt(s, i)
	if quote != "" {
		i += size
		end := closing(s, i, quote)
		if !isPlain(s[i:end]) {
			f.add(i, end, ruleParameter)
		}
		return
	}
	if i >= len(s) || s[i] == '=' || s[i] == '>' || s[i] == '~' { // a comparison
		return
	}
	if s[i] == '[' && !strings.HasPrefix(s[i:], mark) { // the notation of %v for the values of a header
		if to := closingBracket(s, i); !isPlain(s[i+1 : to]) {
			f.add(i+1, to, ruleParameter)
		}
		return
	}
	if end := credentialsEnd(s, i); !isPlain(s[i:end]) {
		f.add(i, end, ruleParameter)
	}
}

// colon finds a secret after the colon at i: the user information of a URL, the value of a key in JSON or in a
// printed map or struct, the value of a header field, or the value in a line of YAML.
func (f *finder) colon(i int) {
	s := f.s
	if i == 0 || i+1 >= len(s) {
		return
	}
	end := i
	for end > 0 && (isBlank(s[end-1]) || s[end-1] == '\n' || s[end-1] == '\r') {
		end--
	}
	if end == 0 || end < i && !isQuote(s[end-1]) && s[i-1] != ' ' {
		return
	}
	switch before, after := s[end-1], s[i+1]; {
	case isQuote(before):
		f.member(end, i)
	case after == '/':
		f.userInfo(i + 1)
	case isBlank(after) || after == '\n' || after == '\r' || after == '\\':
		if after == '\\' {
			f.userInfo(i + 1)
		}
		if name, _ := f.nameBefore(end); !maybeSecret(name) && !strings.EqualFold(name, "value") {
			return
		}
		if after == ' ' && end == i {
			f.header(i)
		}
		if f.end <= i {
			f.yaml(end, i+1)
		}
	case (isName(before) || before == '*') && end == i:
		f.joined(i)
	}
}

// joined finds the value in name:value, in the notation of %v for a map or of %+v for a struct, or in a list of
// name:value. The colon is at i.
func (f *finder) joined(i int) {
	s := f.s
	name, from := f.nameBefore(i)
	if digit(s[i+1]) || s[i+1] == '*' {
		f.passFile(i)
	}
	if b := strings.LastIndexByte(name, '['); b >= 0 {
		name = name[b+1:]
		from += b + 1
	}
	if !f.secretName(name) {
		return
	}
	if from > 0 && f.within(from) {
		f.value(i + 1)
		return
	}
	before := strings.TrimRight(s[max(0, from-maxName):from], blank)
	isFirst := before == "" || before[len(before)-1] == '\n'
	isNext := len(before) < from && from > 0 && s[from-1] == ' ' && strings.LastIndexAny(before, ":=") > strings.LastIndexByte(before, ' ')
	if (isFirst || isNext || name == "pass") && f.isLongAt(i+1) {
		f.value(i + 1)
	}
}

// within reports whether i is inside braces or brackets that open shortly before i.
func (f *finder) within(i int) bool {
	before := f.s[max(0, i-2*maxName):i]
	return strings.Count(before, "{") > strings.Count(before, "}") || strings.Count(before, "[") > strings.Count(before, "]")
}

// maxAuthority is the maximum size of the user information and host of a URL.
const maxAuthority = 4 << 10

// userInfo finds the user information of a URL. The colon is just before i.
func (f *finder) userInfo(i int) {
	s := f.s
	for _, slashes := range [...]string{"//", `\/\/`} {
		if !strings.HasPrefix(s[i:], slashes) {
			continue
		}
		from := i + len(slashes)
		end := min(len(s), from+maxAuthority)
		if n := strings.IndexAny(s[from:end], "/?# \t\r\n\"'`<>\\"); n >= 0 {
			end = from + n
		}
		at := strings.LastIndexByte(s[from:end], '@')
		if at < 0 {
			f.webhook(from)
			return
		}
		if info := s[from : from+at]; !isUserName(info) {
			f.add(from, from+at, ruleUserInfo)
		}
		return
	}
}

// webhooks are the beginnings of webhook URLs, each with "hook" or "/bot". Anyone who knows the rest of such a URL
// can send messages.
var webhooks = [...]string{
	"hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/", "discord.com/api/webhooks/", "discord.com/api/v10/webhooks/", "discordapp.com/api/webhooks/",
	"webhook.office.com/webhookb2/", "hooks.zapier.com/hooks/catch/", "api.telegram.org/bot",
}

// maxHook is the maximum size of the beginning of a webhook.
const maxHook = 64

// webhook finds the secret path of a webhook. The host begins at i.
func (f *finder) webhook(i int) {
	begin := f.s[i:min(len(f.s), i+maxHook)]
	if !strings.Contains(begin, "hook") && !strings.Contains(begin, "/bot") {
		return
	}
	for _, hook := range webhooks {
		if at := strings.Index(begin, hook); at >= 0 {
			from := i + at + len(hook)
			f.add(from, valueEnd(f.s, from), ruleToken)
		}
	}
}

// isUserName reports whether user information is only the name of a user, such as git.
func isUserName(info string) bool {
	return len(info) < minRun && strings.Trim(info, "-_.abcdefghijklmnopqrstuvwxyz") == ""
}

// dataSource finds user:password before an address, in the style of Go's driver for MySQL. The address begins
// with the @ at i.
func (f *finder) dataSource(i int) {
	for _, address := range [...]string{"@tcp(", "@unix(", "@(", "@/"} {
		if !strings.HasPrefix(f.s[i:], address) {
			continue
		}
		from := max(0, i-maxName)
		from += strings.LastIndexAny(f.s[from:i], " \t\r\n\"'`=<>\\") + 1
		if info := f.s[from:i]; strings.IndexByte(info, ':') > 0 && !strings.Contains(info, "://") {
			f.add(from, i, ruleUserInfo)
		}
	}
}

// member finds the value of a member of a JSON object in a text. The name of the member, with its closing
// quote, ends at end. The colon is at i.
func (f *finder) member(end, i int) {
	s := f.s
	name, from, keyQuote := f.quotedBefore(end)
	isAuth := name == "auth"
	if !isAuth && !f.secretName(name) && !f.secretPair(name, from) {
		return
	}
	i = skipBlank(s, i+1)
	if strings.HasPrefix(s[i:], listOfGo) {
		i += len(listOfGo)
	}
	switch quote, size := quoteAt(s, i); {
	case quote != "":
		to := closing(s, i+size, quote)
		if text := s[i+size : to]; isAuth && isLong(text) || !isAuth && !isPlain(text) {
			f.add(i+size, to, ruleKey)
		}
	case isAuth:
	case i < len(s) && (s[i] == '{' || s[i] == '['):
		to := min(closingBracket(s, i)+1, len(s))
		f.end = to
		f.edits = append(f.edits, edit{i, to, ruleKey, keyQuote + f.r.replacement(s[i:to]) + keyQuote})
	case s[i-1] == ' ' && strings.Trim(s[i:valueEnd(s, i)], "-.0123456789") != "": // a line of YAML
		f.setting(end, i, true)
	}
}

// quoted finds the value in SQL's PASSWORD 'value', PASSWORD('value'), SET PASSWORD FOR user = 'value',
// IDENTIFIED BY 'value' and IDENTIFIED WITH plugin BY 'value'. A quote is at i.
func (f *finder) quoted(i int) {
	s := f.s
	for i > 0 && s[i-1] == '\\' {
		i--
	}
	comma := i - 1
	if comma > 0 && s[comma] == ' ' {
		comma--
	}
	if comma > 0 && s[comma] == ',' && isQuote(s[comma-1]) {
		f.pair(comma, i)
		return
	}
	if i < len("PASSWORD ") || s[i-1] != ' ' && s[i-1] != '(' {
		return
	}
	before := s[max(0, i-1-maxName) : i-1]
	is := false
	switch lower(before[len(before)-1]) {
	case 'd':
		is = strings.EqualFold(before[len(before)-len("PASSWORD"):], "PASSWORD")
	case 'o':
		is = strings.HasSuffix(before, "PASSWORD TO")
	case 'y':
		is = strings.EqualFold(before[len(before)-len(" BY"):], " BY") && (strings.Contains(before, "DENTIFIED ") || strings.Contains(before, "dentified "))
	case '=':
		is = strings.Contains(before, "PASSWORD FOR ")
	}
	if is {
		f.value(i)
	}
}

// pair finds the value in "name", "value". The comma is at comma, and the value at i.
func (f *finder) pair(comma, i int) {
	name, _, _ := f.quotedBefore(comma)
	quote, size := quoteAt(f.s, i)
	if quote != "" && f.secretName(name) && isLong(f.s[i+size:closing(f.s, i+size, quote)]) {
		f.value(i)
	}
}

// base64 finds a secret in a text that is entirely Base64, such as the bytes of a record's body.
func (f *finder) base64() {
	s := f.s
	var first [3]byte
	if n := strings.IndexByte(s, '='); len(s)%4 != 0 || s[0] < 'A' || n >= 0 && n < len(s)-2 || strings.IndexByte(s, ' ') >= 0 {
		return
	}
	if _, err := base64.StdEncoding.Decode(first[:], []byte(s[:4])); err != nil || !printable(first[:]) {
		return
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || !printable(b) {
		return
	}
	if t := string(b); f.r.silent.Text(t) != t {
		f.add(0, len(s), ruleParameter)
	}
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(b)
}

// minBearer is the minimum size of a token after Bearer.
const minBearer = 8

const (
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END "
)

// privateKey finds a private key in PEM (RFC 7468). If its last line is missing, the rest of the text counts as
// the key.
func (f *finder) privateKey(i int) {
	s := f.s
	label := s[i+len(pemBegin):]
	label = label[:min(len(label), maxName)]
	n := strings.Index(label, "-----")
	if n < 0 {
		n = len(label)
	}
	if !strings.Contains(label[:n], "PRIVATE KEY") {
		return
	}
	end := len(s)
	if to := strings.Index(s[i:], pemEnd); to >= 0 {
		if n := strings.Index(s[i+to+len(pemEnd):], "-----"); n >= 0 {
			end = i + to + len(pemEnd) + n + len("-----")
		}
	}
	f.add(i, end, rulePrivateKey)
}

// passFile finds the password in a line of a file .pgpass, host:port:database:user:password. The first colon is at i.
func (f *finder) passFile(i int) {
	s := f.s
	port := i + 1
	for port < len(s) && (digit(s[port]) || s[port] == '*') {
		port++
	}
	if isPort := port-i > len("999") || s[i+1] == '*'; !isPort || port+1 >= len(s) || s[port] != ':' || isBlank(s[port+1]) {
		return
	}
	host := s[max(0, i-maxName):i]
	line := s[port+1 : min(len(s), port+maxList)]
	line = line[:lineEnd(line, 0, false)]
	database, rest, _ := strings.Cut(line, ":")
	user, password, _ := strings.Cut(rest, ":")
	isLine := !strings.ContainsAny(line, blank) && !strings.ContainsAny(host[strings.LastIndexByte(host, '\n')+1:], ":"+blank)
	if isLine && isLong(password) && database != "" && user != "" {
		f.add(port+1+len(line)-len(password), port+1+len(line), ruleParameter)
	}
}
