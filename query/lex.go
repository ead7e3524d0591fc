package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokenEnd      tokenKind = iota
	tokenWord               // a name, with dots and a colon
	tokenString             // "…" or `…`
	tokenRegex              // /…/
	tokenNumber             // 12, 1.5
	tokenDuration           // 1h30m
	tokenMark               // an operator or a bracket
)

// A token is a part of a query.
type token struct {
	kind  tokenKind
	text  string // for a string or regex, the text between the quotes
	pos   int
	end   int
	value Value // for a number or duration
	space bool  // a blank precedes the token
	// parts are the parts of a word, which dots separate. A part may be quoted in the query; parts has it without
	// the quotes.
	parts []string
}

// is reports whether the token is the given mark.
func (t *token) is(mark string) bool { return t.kind == tokenMark && t.text == mark }

// isQuoted reports whether the token is a quoted text in the query.
func (t *token) isQuoted(query string) bool {
	return t.kind == tokenString && strings.IndexByte("\"`", query[t.pos]) >= 0
}

// maxQuery is the maximum size of a query in bytes.
const maxQuery = 64 << 10

// A lexer cuts a query into tokens.
type lexer struct {
	s      string
	pos    int
	braces int // the number of open braces
	tokens []token

	parens  int  // the number of open parentheses
	inStage bool // the lexer is after a |, where unquoted text is not free text
	stageAt int  // the number of open parentheses at the last |
}

func (l *lexer) fail(pos int, hint, text string, args ...any) *Error {
	return &Error{Query: l.s, Pos: pos, Text: fmt.Sprintf(text, args...), Hint: hint}
}

// marks are the operators and brackets, the longer ones first.
var marks = []string{
	"!>>", "!<<", "&>>", "&<<", "!=", "!~", "!>", "!<", "&>", "&<", "&~", "=~", ">=", "<=", ">>", "<<", "&&", "||", "==",
	"=", ">", "<", "~", "!", "+", "-", "*", "/", "%", "^", "(", ")", "{", "}", ",", "|",
}

func lex(s string) ([]token, error) {
	l := &lexer{s: s}
	if err := l.all(); err != nil {
		return nil, err
	}
	return l.tokens, nil
}

// all reads all tokens.
func (l *lexer) all() error {
	if len(l.s) > maxQuery {
		return l.fail(maxQuery, "", "the query is longer than %d bytes", maxQuery)
	}
	for {
		before := l.pos
		if err := l.skipSpace(); err != nil {
			return err
		}
		space := l.pos > before || l.pos == 0
		if l.pos >= len(l.s) {
			l.tokens = append(l.tokens, token{kind: tokenEnd, pos: len(l.s), end: len(l.s), space: space})
			return nil
		}
		t, err := l.next(space)
		if err != nil {
			return err
		}
		t.space, t.end = space, l.pos
		l.tokens = append(l.tokens, t)
	}
}

// skipSpace passes over blanks and comments.
func (l *lexer) skipSpace() error {
	for l.pos < len(l.s) {
		rest := l.s[l.pos:]
		r, n := utf8.DecodeRuneInString(rest)
		switch {
		case unicode.IsSpace(r):
			l.pos += n
		case strings.HasPrefix(rest, "//"):
			line, _, _ := strings.Cut(rest, "\n")
			l.pos += len(line)
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return l.fail(l.pos, "", "the comment has no closing */").trying(l.s + " */")
			}
			l.pos += end + 4
		default:
			return nil
		}
	}
	return nil
}

// next reads the token at pos.
func (l *lexer) next(space bool) (token, error) {
	at := l.pos
	rest := l.s[at:]
	r, _ := utf8.DecodeRuneInString(rest)
	if n := l.textLength(space); n > 0 {
		l.pos += n
		return token{kind: tokenString, text: rest[:n], pos: at}, nil
	}
	switch {
	case r == '"' || r == '`':
		s, n, err := l.quoted(at)
		l.pos += n
		return token{kind: tokenString, text: s, pos: at}, err
	case r == '\'':
		err := l.fail(at, `write "…"`, "a text needs double quotes")
		if text, behind, ok := strings.Cut(rest[1:], "'"); ok {
			_ = err.trying(l.s[:at] + quote(text) + behind)
		}
		return token{}, err
	case r == '/' && l.pathCanBegin(space):
		return l.path(), nil
	case r == '/' && l.regexCanBegin(space):
		return l.regex()
	case r >= '0' && r <= '9', r == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		return l.number()
	case r == '.' || isWordRune(r) && r != '-':
		return l.word()
	}
	for _, m := range marks {
		if strings.HasPrefix(rest, m) {
			l.pos += len(m)
			switch m {
			case "{":
				l.braces++
			case "}":
				l.braces--
			case "(":
				l.parens++
			case ")":
				l.parens--
				l.inStage = l.inStage && l.parens >= l.stageAt
			case "|":
				l.inStage, l.stageAt = true, l.parens
			}
			return token{kind: tokenMark, text: m, pos: at}, nil
		}
	}
	return token{}, l.fail(at, "", "unexpected %q", r)
}

// textLength returns the length of the free text without quotes at l.pos, such as 127.0.0.1, price: or a->b. It
// returns 0 if the characters at l.pos are part of the query language. Free text without quotes occurs in filters
// without braces. Blanks delimit it. Such text contains characters that are not part of the language, and no
// comparison.
func (l *lexer) textLength(space bool) int {
	if !space && !l.isBehind("(", "!") && !l.isBehind(comparisons...) || l.braces > 0 || l.inStage {
		return 0
	}
	rest := l.s[l.pos:]
	if strings.IndexByte("\"`/(){}|!=<>~,&'*+%^", rest[0]) >= 0 {
		return 0
	}
	depth := l.parens
	end := strings.IndexFunc(rest, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return unicode.IsSpace(r) || r == '|' || r == '"' || r == '`' || r == '{' || r == '}' || r == ')' && depth < l.parens && l.parens > 0
	})
	if end < 0 {
		end = len(rest)
	}
	if isText(rest[:end], l.parens > 0) {
		return end
	}
	return 0
}

// isBehind reports whether the last token is one of the given marks.
func (l *lexer) isBehind(marks ...string) bool {
	n := len(l.tokens)
	return n > 0 && l.tokens[n-1].kind == tokenMark && slices.Contains(marks, l.tokens[n-1].text)
}

// isText reports whether the text s, which has no blanks, is free text and not part of the query language.
func isText(s string, inParens bool) bool {
	last, slash := s[len(s)-1], strings.IndexByte(s, '/')
	foreign := func(r rune) bool { // a symbol that the language does not use, such as → or €
		return r > unicode.MaxLatin1 && !unicode.In(r, unicode.L, unicode.N, unicode.M) || r > unicode.MaxASCII && r <= unicode.MaxLatin1 && !unicode.IsLetter(r)
	}
	switch {
	case strings.ContainsFunc(s, foreign):
		return true
	case len(s) < 2:
		return strings.Contains(";?[]\\:", s)
	case strings.Contains(s, "://"), strings.Contains(s, "->"):
		return true
	case strings.ContainsAny(s, "=<>~()"):
		return false
	case strings.ContainsAny(s, ";?[]\\'"), strings.IndexByte(":!%&", last) >= 0, !inParens && strings.Contains(s, ","):
		return true
	case strings.HasPrefix(s, "./"), strings.HasPrefix(s, ".."), strings.HasPrefix(s, "--"):
		return true
	case s[0] >= '0' && s[0] <= '9':
		if !strings.ContainsAny(s, ".:-_") || strings.ContainsAny(s, "*^+%,") {
			return false
		}
		_, err := strconv.ParseFloat(s, 64)
		_, err2 := parseDuration(s)
		return err != nil && err2 != nil
	case slash > 0 && s[0] != '.':
		parts := strings.Split(s[:slash], ".")
		_, isField := fieldNamed(&token{text: s[:slash], parts: parts}, true)
		return !isField
	}
	return false
}

// pathCanBegin reports whether the slash at l.pos begins a text such as /cart. Free text must be allowed here, a
// blank or a comparison must precede the slash, a letter must follow it, and no later slash may end a regular
// expression. A slash that means division has a blank after it or no blank before it.
func (l *lexer) pathCanBegin(space bool) bool {
	r, _ := utf8.DecodeRuneInString(l.s[l.pos+1:])
	return (space || l.isBehind(comparisons...)) && l.braces == 0 && !l.inStage && (r == '_' || unicode.IsLetter(r)) && !l.regexEnds()
}

// regexEnds reports whether the next slash can end a regular expression that begins at l.pos.
func (l *lexer) regexEnds() bool {
	for i := l.pos + 1; i < len(l.s); i++ {
		switch l.s[i] {
		case '\\':
			i++
		case '/':
			return l.s[i-1] != ' ' && (i+1 == len(l.s) || strings.IndexByte(" \t\n)|&", l.s[i+1]) >= 0)
		}
	}
	return false
}

// path reads a text that begins with a slash, such as /cart.
func (l *lexer) path() token {
	at, query := l.pos, false
	l.pos++
	for l.pos < len(l.s) {
		r, n := utf8.DecodeRuneInString(l.s[l.pos:])
		query = query || r == '?'
		if query && !unicode.IsSpace(r) && !strings.ContainsRune("()|\"`", r) {
			l.pos += n
			continue
		}
		if !isWordRune(r) && r != '.' && (r != '/' || strings.HasPrefix(l.s[l.pos:], "//") || strings.HasPrefix(l.s[l.pos:], "/*")) {
			break
		}
		l.pos += n
	}
	return token{kind: tokenString, text: l.s[at:l.pos], pos: at}
}

// regexCanBegin reports whether the slash at l.pos begins a regular expression and does not mean division: a term
// can begin here, and no blank follows the slash.
func (l *lexer) regexCanBegin(space bool) bool {
	if !space || l.pos+1 >= len(l.s) || l.s[l.pos+1] == ' ' {
		return false
	}
	if len(l.tokens) == 0 {
		return true
	}
	t := &l.tokens[len(l.tokens)-1]
	// After a value or a closing parenthesis, the slash means division, unless another slash follows later.
	return t.kind == tokenMark && t.text != ")" || strings.IndexByte(l.s[l.pos+1:], '/') >= 0
}

func (l *lexer) regex() (token, error) {
	at := l.pos
	var b strings.Builder
	for i := at + 1; i < len(l.s); i++ {
		switch c := l.s[i]; {
		case c == '\\' && i+1 < len(l.s) && l.s[i+1] == '/':
			b.WriteByte('/')
			i++
		case c == '\\' && i+1 < len(l.s):
			b.WriteString(l.s[i : i+2])
			i++
		case c == '/':
			l.pos = i + 1
			return token{kind: tokenRegex, text: b.String(), pos: at}, nil
		default:
			b.WriteByte(c)
		}
	}
	return token{}, l.fail(at, "write /…/", "the regular expression has no closing slash").trying(l.s + "/")
}

// quoted reads the quoted text at offset at. It returns the text and its length in the query,
// including the quotes.
func (l *lexer) quoted(at int) (string, int, error) {
	q := l.s[at]
	var b strings.Builder
	for i := at + 1; i < len(l.s); i++ {
		switch c := l.s[i]; {
		case c == q:
			return b.String(), i + 1 - at, nil
		case c == '\\' && q == '"' && i+1 < len(l.s):
			i++
			switch e := l.s[i]; e {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case '"', '\\', '`', '\'':
				b.WriteByte(e)
			case 'x', 'u':
				text, n := unescaped(l.s[i:])
				b.WriteString(text)
				i += n - 1
			default: // keep other escapes, such as escapes of a regular expression
				b.WriteByte('\\')
				b.WriteByte(e)
			}
		default:
			b.WriteByte(c)
		}
	}
	closed := l.s + string(q)
	if at == len(l.s)-1 && at > 0 { // the query ends with the quote: propose to remove it
		closed = l.s[:at]
	}
	return "", 0, l.fail(at, "", "the text has no closing quote").trying(closed)
}

// unescaped reads an escape such as xff or u202e, without its backslash. Queries use these escapes for bytes and
// characters that cannot be typed or displayed. unescaped returns other escapes, such as x41 of a regular expression,
// with the backslash.
func unescaped(s string) (text string, n int) {
	n = 3
	if s[0] == 'u' {
		n = 5
	}
	c, err := strconv.ParseUint(s[1:min(n, len(s))], 16, 16)
	switch {
	case err != nil || len(s) < n || c >= ' ' && c < 0x7f:
		return `\` + s[:1], 1
	case s[0] == 'x':
		return string([]byte{byte(c)}), n
	}
	return string(rune(c)), n
}

// isWordRune reports whether r can occur in a name.
func isWordRune(r rune) bool {
	return r == '_' || r == '-' || r == '$' || r == '@' || r == '#' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// word reads a name. It consists of parts, plain or in quotes, with dots between them. A part can contain a
// colon.
func (l *lexer) word() (token, error) {
	t := token{kind: tokenWord, pos: l.pos}
	var part strings.Builder
	for l.pos < len(l.s) {
		r, n := utf8.DecodeRuneInString(l.s[l.pos:])
		switch {
		case r == '.':
			t.parts = append(t.parts, part.String())
			part.Reset()
		case r == '"' && l.pos > t.pos && l.s[l.pos-1] == '.':
			s, n, err := l.quoted(l.pos)
			if err != nil {
				return t, err
			}
			part.WriteString(s)
			l.pos += n
			continue
		case r == ':' && l.pos+1 < len(l.s) && isWordRune(rune(l.s[l.pos+1])):
			part.WriteByte(':')
		case isWordRune(r):
			part.WriteRune(r)
		default:
			goto end
		}
		l.pos += n
	}
end:
	t.parts = append(t.parts, part.String())
	t.text = l.s[t.pos:l.pos]
	return t, nil
}

// number reads a number or a duration.
func (l *lexer) number() (token, error) {
	at := l.pos
	end := at
	for end < len(l.s) && (l.s[end] >= '0' && l.s[end] <= '9' || l.s[end] == '.' || l.s[end] == '_') {
		end++
	}
	digits := l.s[at:end]
	unit := end
	for unit < len(l.s) {
		r, n := utf8.DecodeRuneInString(l.s[unit:])
		if !isWordRune(r) && r != '.' || r == '-' {
			break
		}
		unit += n
	}
	if unit > end {
		text := l.s[at:unit]
		l.pos = unit
		if d, err := parseDuration(text); err == nil {
			return token{kind: tokenDuration, text: text, pos: at, value: durationValue(int64(d))}, nil
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil { // a number such as 1e6
			return token{kind: tokenNumber, text: text, pos: at, value: floatValue(f)}, nil
		}
		// A word that begins with a digit, such as an id.
		return token{kind: tokenWord, text: text, parts: []string{text}, pos: at}, nil
	}
	l.pos = end
	t := token{kind: tokenNumber, text: digits, pos: at}
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		t.value = uintValue(n)
		return t, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return t, l.fail(at, "", "%s is not a number", digits)
	}
	t.value = floatValue(f)
	return t, nil
}

// parseDuration is like time.ParseDuration, but also accepts days.
func parseDuration(s string) (time.Duration, error) {
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil {
			return 0, err
		}
		d := time.Duration(n * float64(24*time.Hour))
		if rest == "" {
			return d, nil
		}
		more, err := time.ParseDuration(rest)
		return d + more, err
	}
	return time.ParseDuration(s)
}

var comparisons = []string{"=", "==", "!=", "<", "<=", ">", ">=", "=~", "!~"}
