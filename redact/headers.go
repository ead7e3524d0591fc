package redact

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// header finds the value of an HTTP header field. The colon is at i and a blank follows.
func (f *finder) header(i int) {
	s := f.s
	from := i
	for from > 0 && i-from < maxName && (alphanumeric(s[from-1]) || s[from-1] == '-') {
		from--
	}
	name, ends := s[from:i], "\r\n"
	switch {
	case name == "":
		return
	case from == 0 || s[from-1] == '\n' || from > 1 && (s[from-2:from] == "> " || s[from-2:from] == "< "):
	case s[from-1] == '\\' && name[0] == 'n': // \n in JSON
		name = name[1:]
	case s[from-1] == '"' || s[from-1] == '\'':
		ends = s[from-1 : from]
	default: // the field is not at the beginning of a line
		ends = ""
	}
	isAuth := strings.EqualFold(name, "authorization") || strings.EqualFold(name, "proxy-authorization")
	isCookie := strings.EqualFold(name, "cookie") || strings.EqualFold(name, "set-cookie")
	isOther := !isAuth && !isCookie && ends != "" && strings.IndexByte(name, '-') > 0 && f.secretName(name)
	from = i + 2
	if from >= len(s) || !isAuth && !isCookie && !isOther {
		return
	}
	if ends == "" {
		f.fieldInText(from, isAuth)
		return
	}
	end := len(s)
	if n := strings.IndexAny(s[i:], ends); n >= 0 {
		end = i + n
	}
	for _, escape := range [...]string{`\r`, `\n`, `\"`} {
		if n := strings.Index(s[i:end], escape); n >= 0 {
			end = i + n
		}
	}
	if from >= end {
		return
	}
	word, _, more := strings.Cut(s[from:end], " ")
	switch {
	case isAuth && (more != isScheme(word) || !more && len(word) < minRun/2):
	case isCookie && strings.IndexByte(s[from:end], '=') < 0:
	case isOther && more:
	default:
		f.add(from, end, ruleHeader)
	}
}

// fieldInText finds the value of Authorization or of a cookie that begins at from within a line. The value of
// Authorization is a scheme with credentials, or a long word. The value of a cookie consists of all pairs that are
// joined by semicolons.
func (f *finder) fieldInText(from int, isAuth bool) {
	s := f.s
	if !isAuth {
		if strings.IndexByte(s[from:valueEnd(s, from)], '=') > 0 {
			f.add(from, cookiesEnd(s, from), ruleHeader)
		}
		return
	}
	end := credentialsEnd(s, from)
	if end-from >= minRun/2 && strings.ContainsAny(s[from:end], "0123456789") {
		f.add(from, end, ruleHeader)
	}
}

// cookiesEnd returns where the cookies that begin at i end: before the first blank that does not follow a
// semicolon.
func cookiesEnd(s string, i int) int {
	for ; i < len(s); i++ {
		if strings.IndexByte(" \t\r\n\"'`)]}\\", s[i]) >= 0 && (s[i] != ' ' || s[i-1] != ';') {
			return i
		}
	}
	return i
}

// scheme finds a token after Bearer, and credentials after Basic, which are user:password in Base64 (RFC 7617).
// The letter B is at i.
func (f *finder) scheme(i int) {
	s := f.s
	i += len("Basic ")
	end := i
	if strings.EqualFold(s[i-len("Basic "):i], "basic ") {
		for end < len(s) && (alphanumeric(s[end]) || strings.IndexByte("+/=-_", s[end]) >= 0) {
			end++
		}
		text, err := base64.StdEncoding.DecodeString(s[i:end])
		if err == nil && len(text) > 2 && strings.IndexByte(string(text), ':') >= 0 && utf8.Valid(text) {
			f.add(i, end, ruleHeader)
		}
		return
	}
	if s[i] != ' ' || !strings.EqualFold(s[i-len("Bearer"):i], "bearer") {
		return
	}
	i++
	word := true // the token has only lower-case letters, as in "bearer authentication"
	for end = i; end < len(s) && (isRun[s[end]] || strings.IndexByte("~+/=", s[end]) >= 0); end++ {
		word = word && lowerLetter(s[end])
	}
	token := strings.TrimRight(s[i:end], ".")
	if len(token) >= minBearer && (!word || len(token) >= minRun) && strings.IndexByte(strings.TrimRight(token, "="), '=') < 0 {
		f.add(i, i+len(token), ruleBearer)
	}
}
