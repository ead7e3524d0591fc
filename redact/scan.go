package redact

import "strings"

// This file finds blanks, quotes, brackets, and the ends of values in texts.

const blank = " \t"

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// blanks returns the number of blanks at the beginning of s.
func blanks(s string) (n int) {
	for n < len(s) && isBlank(s[n]) {
		n++
	}
	return n
}

// valueEnds are the bytes that end a value without quotes.
const valueEnds = " \t\r\n&;,\"'`<>\\|(){}[]"

// isValueEnd has true for each byte of valueEnds.
var isValueEnd = func() (table [256]bool) {
	for _, c := range []byte(valueEnds) {
		table[c] = true
	}
	return table
}()

// credentialsEnd is like valueEnd, but if the value is an authentication scheme, the credentials after it are a
// part of the value.
func credentialsEnd(s string, i int) int {
	end := valueEnd(s, i)
	if isScheme(s[i:end]) && end+1 < len(s) && s[end] == ' ' && s[end+1] != ' ' {
		// After name=value, the second word may be the next assignment instead of credentials.
		if to := valueEnd(s, end+1); s[i-1] != '=' || strings.IndexByte(s[end+1:to], '=') < 0 {
			return to
		}
	}
	return end
}

func valueEnd(s string, i int) int {
	for i < len(s) && !isValueEnd[s[i]] {
		i++
	}
	return i
}

// quoteAt returns the quote at i with the backslashes before it, and the size of both. A quote has backslashes in a
// JSON text inside another JSON text.
func quoteAt(s string, i int) (quote string, size int) {
	from := i
	if i+1 < len(s) && (s[i] == 'b' || s[i] == 'N') && isQuote(s[i+1]) { // a literal of Python or SQL
		from++
	}
	j := from
	for j < len(s) && s[j] == '\\' {
		j++
	}
	if j < len(s) && (isQuote(s[j]) || s[j] == '`') {
		size = j + 1 - i
		if strings.HasPrefix(s[j:], `"""`) { // a text of several lines in TOML or Python
			size += len(`""`)
		}
		return s[from : j+1], size
	}
	return "", 0
}

// closing returns the end of the quoted text that begins at i. The text ends before the next equal quote, or before a
// quote with fewer backslashes, which ends a text around it.
func closing(s string, i int, quote string) int {
	for from := i; ; i++ {
		n := strings.IndexByte(s[i:], quote[len(quote)-1])
		if n < 0 {
			return len(s)
		}
		i += n
		end := i
		for end > from && s[end-1] == '\\' {
			end--
		}
		slashes, level := i-end, len(quote)-1
		for level > 0 && slashes%2 == 1 { // the quote belongs to a text around it
			slashes, level = slashes/2, level/2
		}
		if slashes%2 == 0 {
			return max(end, i-len(quote)+1)
		}
	}
}

// isPlain reports whether a value in a text is not a secret, whatever its name. It returns true for values that
// isNone accepts, paths, and placeholders for a secret, such as PASSWORD.
func isPlain(s string) bool {
	if isNone(s) || strings.Trim(s, "*") == "" || s[0] == '$' && len(s) <= 3 { // a parameter of SQL
		return true
	}
	if s[0] == '/' && strings.Trim(s, "/._-abcdefghijklmnopqrstuvwxyz0123456789") == "" { // a path
		return true
	}
	return len(s) <= maxPlaceholder && strings.Trim(s, "_ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// isNone reports whether a value is a word such as "none" or "true", or a number of at most three digits, and
// so not a secret.
func isNone(s string) bool {
	switch s {
	case "", "true", "false", "null", "nil", "none", "None", "yes", "no", "on", "off", "?", "empty", "missing", "required", "invalid", "unset", "string", "disabled", "enabled", "allowed", "denied":
		return true
	}
	return len(s) < 4 && strings.Trim(s, "0123456789") == ""
}

// maxPlaceholder is the maximum size of a placeholder for a secret.
const maxPlaceholder = 12

// skipBlank returns the offset after blanks and line breaks at i. The line breaks can be escaped.
func skipBlank(s string, i int) int {
	for ; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("ntr", s[i+1]) >= 0 {
			i++
		} else if strings.IndexByte(" \t\r\n", s[i]) < 0 {
			break
		}
	}
	return i
}

// closingBracket returns the offset at which the bracket that opens at i closes.
func closingBracket(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i
			}
		case '"':
			i = closing(s, i+1, `"`)
		}
	}
	return len(s)
}
