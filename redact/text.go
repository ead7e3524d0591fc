package redact

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"
)

// shortest is the size of the shortest text that can hold a secret and say so.
const shortest = 5

// minRun is the size of the shortest token that is recognized by its prefix.
const minRun = 20

// isRun reports for each byte whether it can be a part of a token.
var isRun = func() (table [256]bool) {
	for c := range table {
		table[c] = alphanumeric(byte(c)) || c == '_' || c == '-' || c == '.'
	}
	return table
}()

// An edit replaces a part of a text.
type edit struct {
	from, to int
	rule     int
	with     string // "": the replacement of the part
}

// A finder finds the secrets in a text.
type finder struct {
	r      *Redactor
	s      string
	edits  []edit
	braces bool // the text has one
	end    int  // of the last edit of a pattern; it looks no further before that, so that its time is linear
}

func (f *finder) add(from, to, rule int) {
	f.end = max(f.end, to)
	if from < to && !isMark(f.s[from:to]) && !strings.HasPrefix(f.s[from:], mark) {
		f.edits = append(f.edits, edit{from: from, to: to, rule: rule})
	}
}

// A class is a set of bytes that patterns need.
type class uint8

const (
	hasEquals class = 1 << iota
	hasColon
	hasAt
	hasDash
	hasBlank
	hasB
	hasBrace
)

var classes = [256]class{'=': hasEquals, ':': hasColon, '@': hasAt, '-': hasDash, ' ': hasBlank, 'b': hasB, 'B': hasB, '{': hasBrace}

// find applies the patterns of the default policy. Nearly all texts hold no secret, so it looks first
// for the bytes that each pattern needs.
func (f *finder) find() {
	s := f.s
	has := class(0)
	for i := range len(s) {
		has |= classes[s[i]]
	}
	f.braces = has&hasBrace != 0
	if has&hasEquals != 0 {
		f.each("=", f.assignment)
	}
	if has&hasColon != 0 {
		f.each(":", f.colon)
		if has&hasAt != 0 {
			f.dataSource("@tcp(")
			f.dataSource("@unix(")
		}
	}
	if len(s) < minAuth {
		return
	}
	if has&hasDash != 0 {
		f.each("--", f.dashes)
	}
	if has&(hasBlank|hasB) == hasBlank|hasB {
		f.each("earer ", f.bearer)
		f.each("asic ", f.basic)
	}
	if len(s) >= minRun {
		f.runs()
	}
}

// each calls found for each place of a text that a pattern needs.
func (f *finder) each(text string, found func(i int)) {
	f.end = 0
	for i := 0; ; i += len(text) {
		i = max(i, f.end)
		var n int
		if len(text) == 1 {
			n = strings.IndexByte(f.s[i:], text[0])
		} else {
			n = strings.Index(f.s[i:], text)
		}
		if n < 0 {
			return
		}
		i += n
		found(i)
	}
}

// minAuth is the size of the shortest text with a flag, a scheme or a PEM block and a secret.
const minAuth = 10

// runs looks for tokens in the parts of the text that have at least minRun bytes, all of which can be
// parts of a token. It looks at every minRun-th byte first.
func (f *finder) runs() {
	s := f.s
	for i := 0; i+minRun <= len(s); {
		j := i + minRun - 1
		for j >= i && isRun[s[j]] {
			j--
		}
		if j >= i {
			i = j + 1
			continue
		}
		end := i + minRun
		for end < len(s) && isRun[s[end]] {
			end++
		}
		f.tokens(i, end)
		i = end + 1
	}
}

// rules applies the rules of the policy. It returns false if one panicked.
func (f *finder) rules() (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	for i := range f.r.p.rules {
		rule := &f.r.p.rules[i]
		for _, m := range rule.Pattern.FindAllStringIndex(f.s, -1) {
			if rule.Check != nil && !rule.Check(f.s[m[0]:m[1]]) {
				continue
			}
			if rule.Whole {
				m = []int{0, len(f.s)}
			}
			f.add(m[0], m[1], numRules+i)
		}
	}
	return true
}

// replace returns the text with its edits. Where edits overlap, all that they cover is replaced by one.
func (f *finder) replace(key string) string {
	slices.SortStableFunc(f.edits, func(a, b edit) int { return a.from - b.from })
	out := make([]byte, 0, len(f.s))
	at := 0
	for i := 0; i < len(f.edits); {
		e := f.edits[i]
		for i++; i < len(f.edits) && f.edits[i].from < e.to; i++ {
			e.to = max(e.to, f.edits[i].to)
		}
		f.r.count(e.rule, key)
		out = append(out, f.s[at:e.from]...)
		if e.with == "" {
			e.with = f.r.replacement(f.s[e.from:e.to])
		}
		out = append(out, e.with...)
		at = e.to
	}
	return string(append(out, f.s[at:]...))
}

// maxName is how far before its value the name of a secret begins.
const maxName = 128

func isName(c byte) bool {
	return alphanumeric(c) || c == '_' || c == '-' || c == '.' || c == '[' || c == ']'
}

// nameBefore returns the name that ends before i, and where it begins.
func (f *finder) nameBefore(i int) (name string, from int) {
	from = i
	for from > 0 && i-from < maxName && isName(f.s[from-1]) {
		from--
	}
	name = f.s[from:i]
	if from > 0 && f.s[from-1] == '\\' && name != "" { // an escape of JSON, such as \n or \u0026
		if name[0] == 'u' && len(name) > 4 {
			return name[5:], from + 5
		}
		return name[1:], from + 1
	}
	return name, from
}

// secretName reports whether a value with that name is a secret.
func (f *finder) secretName(name string) bool {
	if !maybeSecret(name) || matchAny(f.r.p.allow, name) {
		return false
	}
	secret, _ := isSecret(name)
	return secret
}

// assignment finds the value of name=value. The equals sign is at i.
func (f *finder) assignment(i int) {
	if i > 0 && f.s[i-1] == ' ' {
		if strings.HasPrefix(f.s[i:], "= ") {
			f.setting(i-1, i+2, true)
		}
		return
	}
	name, from := f.nameBefore(i)
	if !f.secretName(name) {
		inURL := from > 0 && (f.s[from-1] == '?' || f.s[from-1] == '&') || from > 5 && f.s[from-6:from] == `\u0026`
		if !inURL || !isSecretParameter(name) || matchAny(f.r.p.allow, name) {
			return
		}
	}
	f.value(i + 1)
}

// minSetting is the least size of a value behind a blank. Words of sentences come there as well.
const minSetting = 8

// setting finds the value in name = value and name: "value". The name ends before end, the value begins at
// i. Such a value has a digit, since sentences have these forms as well.
func (f *finder) setting(end, i int, bare bool) {
	s := f.s
	quote, size := quoteAt(s, i)
	to := 0
	switch {
	case quote != "":
		to = closing(s, i+size, quote)
	case bare:
		to = valueEnd(s, i)
	}
	if to-i-size < minSetting || !strings.ContainsAny(s[i:to], "0123456789") {
		return
	}
	if name, _ := f.nameBefore(end); f.secretName(name) {
		f.value(i)
	}
}

// valueEnds are the bytes that end a value without quotes.
const valueEnds = " \t\r\n&;,\"'`<>\\|(){}[]"

// schemes are what comes before credentials, see RFC 9110, section 11.
var schemes = [...]string{"bearer", "basic", "digest", "token", "negotiate", "ntlm", "apikey", "oauth", "aws4-hmac-sha256", "hawk"}

func isScheme(word string) bool {
	return slices.ContainsFunc(schemes[:], func(s string) bool { return strings.EqualFold(s, word) })
}

// value adds the value that begins at i, if it is a secret.
func (f *finder) value(i int) {
	s := f.s
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
	end := valueEnd(s, i)
	if isScheme(s[i:end]) && end < len(s) && s[end] == ' ' {
		end = valueEnd(s, end+1)
	}
	if !isPlain(s[i:end]) {
		f.add(i, end, ruleParameter)
	}
}

func valueEnd(s string, i int) int {
	if n := strings.IndexAny(s[i:], valueEnds); n >= 0 {
		return i + n
	}
	return len(s)
}

// quoteAt returns the quote that begins at i, with the backslashes before it: a text in a JSON text has
// them.
func quoteAt(s string, i int) (quote string, size int) {
	j := i
	for j < len(s) && s[j] == '\\' {
		j++
	}
	if j < len(s) && (s[j] == '"' || s[j] == '\'' || s[j] == '`') {
		return s[i : j+1], j + 1 - i
	}
	return "", 0
}

// closing returns where the text that begins at i ends with the same quote.
func closing(s string, i int, quote string) int {
	if len(quote) > 1 {
		if n := strings.Index(s[i:], quote); n >= 0 {
			return i + n
		}
		return len(s)
	}
	for ; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote[0]:
			return i
		}
	}
	return len(s)
}

// isPlain reports whether a value is no secret, whatever its name: a number of few digits, or a word
// that says that there is none.
func isPlain(s string) bool {
	switch s {
	case "", "true", "false", "null", "nil", "none", "None", "yes", "no", "on", "off", "?":
		return true
	}
	for i := range len(s) {
		if !digit(s[i]) {
			return strings.Trim(s, "*") == "" || strings.HasPrefix(s, "$") && len(s) <= 3 // a parameter of SQL
		}
	}
	return len(s) < 4
}

// colon finds what a colon at i tells of: user information of a URL, the value of a key in JSON or in a
// printed struct, a header.
func (f *finder) colon(i int) {
	s := f.s
	if i == 0 || i+1 >= len(s) {
		return
	}
	switch before, after := s[i-1], s[i+1]; {
	case after == '/' || after == '\\':
		f.userInfo(i + 1)
	case before == '"' || before == '\'':
		f.member(i)
	case after == ' ':
		f.header(i)
		if f.end <= i && i+2 < len(s) {
			f.setting(i, i+2, false)
		}
	case f.braces && isName(before):
		name, from := f.nameBefore(i)
		if from > 0 && f.inBraces(from) && f.secretName(name) { // as %+v prints a struct
			f.value(i + 1)
		}
	}
}

// inBraces reports whether a brace opens not far before i.
func (f *finder) inBraces(i int) bool {
	before := f.s[max(0, i-2*maxName):i]
	return strings.LastIndexByte(before, '{') > strings.LastIndexByte(before, '}')
}

// maxAuthority is the size of the longest user information and host that are read.
const maxAuthority = 4 << 10

// userInfo finds the user information of a URL after the colon that i follows.
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
			return
		}
		if info := s[from : from+at]; !isUserName(info) {
			f.add(from, from+at, ruleUserInfo)
		}
		return
	}
}

// isUserName reports whether user information is the name of a user alone, such as git.
func isUserName(info string) bool {
	if len(info) >= minRun {
		return false
	}
	for i := range len(info) {
		if !lowerLetter(info[i]) && info[i] != '-' && info[i] != '_' && info[i] != '.' {
			return false
		}
	}
	return true
}

// dataSource finds user:password before an address in the style of Go's driver for MySQL.
func (f *finder) dataSource(address string) {
	at := strings.Index(f.s, address)
	if at < 0 {
		return
	}
	from := strings.LastIndexAny(f.s[:at], " \t\r\n\"'`=<>\\") + 1
	if strings.IndexByte(f.s[from:at], ':') > 0 {
		f.add(from, at, ruleUserInfo)
	}
}

// member finds the value of a member of a JSON object in a text. The colon is at i, a quote is before
// it.
func (f *finder) member(i int) {
	s := f.s
	end := i - 1
	for end > 0 && s[end-1] == '\\' {
		end--
	}
	name, from := f.nameBefore(end)
	if from == 0 || s[from-1] != s[i-1] || !f.secretName(name) {
		return
	}
	keyQuote := s[end:i]
	i++
	i += len(s[i:]) - len(strings.TrimLeft(s[i:], " \t"))
	switch quote, size := quoteAt(s, i); {
	case quote != "":
		if to := closing(s, i+size, quote); !isPlain(s[i+size : to]) {
			f.add(i+size, to, ruleKey)
		}
	case i < len(s) && (s[i] == '{' || s[i] == '['):
		to := min(closingBracket(s, i)+1, len(s))
		f.end = to
		f.edits = append(f.edits, edit{i, to, ruleKey, keyQuote + f.r.replacement(s[i:to]) + keyQuote})
	}
}

// closingBracket returns where the bracket that opens at i closes.
func closingBracket(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i
			}
		case '"':
			i = closing(s, i+1, `"`)
		}
	}
	return len(s)
}

// header finds the value of a header field of HTTP at the beginning of a line or behind a quote. The
// colon is at i, a blank follows.
func (f *finder) header(i int) {
	s := f.s
	from := i
	for from > 0 && i-from < maxName && (alphanumeric(s[from-1]) || s[from-1] == '-') {
		from--
	}
	name := s[from:i]
	quote := byte(0)
	switch {
	case name == "":
		return
	case from == 0 || s[from-1] == '\n' || from > 1 && (s[from-2:from] == "> " || s[from-2:from] == "< "):
	case s[from-1] == '\\' && name[0] == 'n': // \n in JSON
		name = name[1:]
	case s[from-1] == '"' || s[from-1] == '\'':
		quote = s[from-1]
	default:
		return
	}
	end := len(s)
	ends := "\r\n"
	if quote != 0 {
		ends = string(quote)
	}
	if n := strings.IndexAny(s[i:], ends); n >= 0 {
		end = i + n
	}
	for _, escape := range [...]string{`\r`, `\n`, `\"`} {
		if n := strings.Index(s[i:end], escape); n >= 0 {
			end = i + n
		}
	}
	from = i + 2
	if from >= end {
		return
	}
	value := s[from:end]
	word, _, more := strings.Cut(value, " ")
	switch {
	case strings.EqualFold(name, "authorization") || strings.EqualFold(name, "proxy-authorization"):
		if more != isScheme(word) || !more && len(word) < minRun/2 {
			return
		}
	case strings.EqualFold(name, "cookie") || strings.EqualFold(name, "set-cookie"):
		if strings.IndexByte(value, '=') < 0 {
			return
		}
	case strings.IndexByte(name, '-') > 0 && f.secretName(name) && !more:
	default:
		return
	}
	f.add(from, end, ruleHeader)
}

// dashes finds the argument of a flag such as --password, or a private key. Two dashes are at i.
func (f *finder) dashes(i int) {
	s := f.s
	if strings.HasPrefix(s[i:], pemBegin) {
		f.privateKey(i)
		return
	}
	from := i + len("--")
	end := from
	for end < len(s) && end-from < maxName && isName(s[end]) {
		end++
	}
	if end == len(s) || s[end] != ' ' || !f.secretName(s[from:end]) {
		return
	}
	if end+1 < len(s) && s[end+1] != '-' {
		f.value(end + 1)
	}
}

// minBearer is the size of the shortest token after Bearer.
const minBearer = 8

// bearer finds a token after Bearer, of which all but the first letter is at i.
func (f *finder) bearer(i int) {
	if i == 0 || lower(f.s[i-1]) != 'b' {
		return
	}
	i += len("earer ")
	end := i
	word := true // of small letters alone, as in "bearer authentication"
	for end < len(f.s) && (isRun[f.s[end]] || strings.IndexByte("~+/=", f.s[end]) >= 0) {
		word = word && lowerLetter(f.s[end])
		end++
	}
	for end > i && f.s[end-1] == '.' {
		end--
	}
	if token := f.s[i:end]; len(token) >= minBearer && (!word || len(token) >= minRun) && !strings.HasPrefix(token, "realm=") {
		f.add(i, end, ruleBearer)
	}
}

// basic finds credentials after Basic, of which all but the first letter is at i: user:password in
// Base64, see RFC 7617.
func (f *finder) basic(i int) {
	if i == 0 || lower(f.s[i-1]) != 'b' {
		return
	}
	i += len("asic ")
	end := i
	for end < len(f.s) && (alphanumeric(f.s[end]) || strings.IndexByte("+/=-_", f.s[end]) >= 0) {
		end++
	}
	text, err := base64.StdEncoding.DecodeString(f.s[i:end])
	if err == nil && len(text) > 2 && strings.IndexByte(string(text), ':') >= 0 && utf8.Valid(text) {
		f.add(i, end, ruleHeader)
	}
}

const (
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END "
)

// privateKey finds a private key in PEM, see RFC 7468. A key that is cut off goes to the end of the
// text.
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
