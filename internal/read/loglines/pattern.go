package loglines

import (
	"cmp"
	"strings"
)

// A step is a part of a pattern.
type step struct {
	kind  byte   // one of the constants below, or the character after the name of a field
	text  string // a literal, or the name of a field
	stop  string // for a field: the literal that follows
	last  bool   // the field is the last part
	means meaning
	group []step // the steps of an optional part
}

const (
	literal  = 'l'
	blanks   = ' '
	optional = '('
	plain    = 'p' // a field without a character after its name
)

// compile translates a pattern up to its end or the end of a group. It also returns the rest of the pattern.
func compile(pattern string) (steps []step, rest string) {
	for pattern != "" {
		c := pattern[0]
		switch c {
		case ')':
			return steps, pattern[1:]
		case '(':
			var group []step
			group, pattern = compile(pattern[1:])
			steps = append(steps, step{kind: optional, group: group})
		case ' ':
			steps = append(steps, step{kind: blanks})
			pattern = pattern[1:]
		case '{':
			name, after, _ := strings.Cut(pattern[1:], "}")
			kind := byte(plain)
			if last := len(name) - 1; strings.IndexByte("#%~=19B", name[last]) >= 0 {
				kind, name = name[last], name[:last]
			}
			next := strings.TrimPrefix(after, ")")
			stop, rest := literalOf(next)
			if stop != "" && strings.HasPrefix(rest, " ") {
				stop += " "
			}
			m := meaning{name: name}
			if known := meanings[strings.ToLower(name)]; known != nil {
				m = *known
				m.name = cmp.Or(m.name, name)
			}
			steps = append(steps, step{kind: kind, text: name, stop: stop, last: next == "", means: m})
			pattern = after
		default:
			s := step{kind: literal}
			s.text, pattern = literalOf(pattern)
			steps = append(steps, s)
		}
	}
	return steps, ""
}

// literalOf returns the literal at the beginning of a pattern, up to a blank, a field or a group, and the rest.
func literalOf(pattern string) (text, rest string) {
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.IndexByte(" {()", c) >= 0:
			return text, pattern[i:]
		case c == '\\':
			i++
			c = pattern[i]
			if c == 'n' {
				c = '\n'
			}
			text += string(c)
		default:
			text += string(c)
		}
	}
	return text, ""
}

// A capture is the text of a field.
type capture struct {
	*step

	text string
	time int64
}

// match matches steps with the beginning of s, and appends the fields to p.captures. n is the number of bytes that
// match, or negative if s does not match.
func (p *Parser) match(steps []step, s string) (n int) {
	for i := range steps {
		at := &steps[i]
		size, text, when := 0, s[n:], int64(0)
		switch {
		case at.kind == 'B' && (text == "" || !isLetter(text[0])):
			return -1
		case at.kind == literal:
			if !strings.HasPrefix(text, at.text) {
				return -1
			}
			n += len(at.text)
			continue
		case at.kind == blanks:
			size = len(text) - len(strings.TrimLeft(text, " \t"))
			if size == 0 {
				return -1
			}
			n += size
			continue
		case at.kind == optional:
			had := len(p.captures)
			if size := p.match(at.group, text); size >= 0 {
				n += size
			} else {
				p.captures = p.captures[:had]
			}
			continue
		case at.text == "time" && text != "":
			when, size = p.timeAt(text)
			if at.kind == '9' && !isNano(text[:size]) {
				return -1
			}
		case at.kind == '1':
			size = min(1, len(text))
		case at.text == "level":
			size = wordSize(text)
			if _, ok := severityNamed(text[:size]); !ok {
				return -1
			}
		case at.kind == '#' || at.kind == '%':
			for size < len(text) && isDigit(text[size]) || at.kind == '%' && size > 0 && size < len(text) && text[size] == '.' {
				size++
			}
			if at.kind == '%' && strings.IndexByte(text[:size], '.') < 0 {
				return -1
			}
		default:
			size = at.size(text)
		}
		if size < 0 || size == 0 && !at.mayBeEmpty() {
			return -1
		}
		p.captures = append(p.captures, capture{at, text[:size], when})
		n += size
	}
	return n
}

// mayBeEmpty reports whether a field may be empty, because quotes or a colon show where it ends.
func (s *step) mayBeEmpty() bool { return s.stop != "" && (s.stop[0] == '"' || s.stop[0] == ':') }

// size returns the number of bytes of a field of text.
func (s *step) size(text string) int {
	end := len(text)
	if line := strings.IndexByte(text, '\n'); line >= 0 {
		end = line
	}
	if s.last {
		return end
	}
	if s.kind != '~' {
		if blank := strings.IndexAny(text[:end], " \t"); blank >= 0 {
			end = blank
		}
	}
	if s.stop == "" {
		return end
	}
	return strings.Index(text[:min(len(text), end+len(s.stop))], s.stop)
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// wordSize returns the length of the word at the beginning of s, perhaps with an offset such as +2.
func wordSize(s string) int {
	return len(s) - len(strings.TrimLeft(s, "+0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
}
