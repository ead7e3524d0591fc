package tracetest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"text/scanner"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// Golden compares the results of say with a golden file. If update is true, it writes the file instead. In the file, a
// paragraph that begins with "> " is a case: one or more such lines, the input of say, in which \r is a carriage return,
// and then the expected result. Other paragraphs are comments.
func Golden(t *testing.T, path string, update bool, say func(input string) string) {
	t.Helper()
	var said strings.Builder
	for i, c := range strings.Split(strings.TrimSuffix(string(ReadFile(t, path)), "\n"), "\n\n") {
		if i > 0 {
			said.WriteByte('\n')
		}
		if !strings.HasPrefix(c, "> ") {
			said.WriteString(c + "\n")
			continue
		}
		var lines []string
		want := c
		for strings.HasPrefix(want, "> ") {
			line, rest, _ := strings.Cut(want[2:], "\n")
			lines, want = append(lines, line), rest
		}
		input := strings.Join(lines, "\n")
		got := strings.TrimRight(say(strings.ReplaceAll(input, `\r`, "\r")), "\n")
		if got != want && !update {
			t.Errorf("%s: %s\ngot  %s\nwant %s", path, input, got, want)
		}
		said.WriteString(strings.TrimRight("> "+strings.Join(lines, "\n> ")+"\n"+got, "\n") + "\n")
	}
	if update {
		expect.Must(t, os.WriteFile(path, []byte(said.String()), 0o600))
	}
}

// A Command is a part of a case: its words, and the attributes after them.
type Command struct {
	Words      []string
	Attributes []Pair
}

// Word returns a word of the command, or "" if it has fewer words.
func (c *Command) Word(i int) string {
	if i < len(c.Words) {
		return c.Words[i]
	}
	return ""
}

// A Pair is an attribute in a case. The value is an int64, a float64, a bool, a string, a []any, or a []Pair, which is a
// group. "$name" is a value of the table names of [Commands].
type Pair struct {
	Key   string
	Value any
}

// Commands reads a line of a case: commands with " | " between them. Words and keys that are not Go's identifiers have quotes.
//
//	with a=1 b=-0.5 | group g | info "a message" c="text" d{e=true f=[1 2]} k*3=$name
//
// "k*3=0" is three attributes, k0 to k2.
func Commands(line string, names map[string]any) []Command {
	p := &parser{names: names}
	p.s.Init(strings.NewReader(line))
	p.s.Error = func(_ *scanner.Scanner, said string) { panic(fmt.Sprintf("%s: %s", line, said)) }
	p.s.IsIdentRune = func(r rune, i int) bool {
		return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && (r == '.' || r >= '0' && r <= '9')
	}
	p.next()
	list := []Command{{}}
	for p.token != scanner.EOF {
		c := &list[len(list)-1]
		if p.is('|') {
			list = append(list, Command{})
			continue
		}
		p.item(&c.Words, &c.Attributes)
	}
	return list
}

// A parser reads the text of commands, one token ahead.
type parser struct {
	s     scanner.Scanner
	token rune
	names map[string]any
}

func (p *parser) next() { p.token = p.s.Scan() }

// is reports whether the token is r, and reads the next one if it is.
func (p *parser) is(r rune) bool {
	if p.token != r {
		return false
	}
	p.next()
	return true
}

// text reads a word, without its quotes.
func (p *parser) text() string {
	text := p.s.TokenText()
	if s, err := strconv.Unquote(text); err == nil {
		text = s
	}
	p.next()
	return text
}

// word reads a word, or the text of a name after "$".
func (p *parser) word() string {
	switch {
	case p.is('$'):
		return p.named().(string) //nolint:forcetypeassert // a case with another value panics
	case p.is('-'):
		return "-" + p.text()
	}
	return p.text()
}

// named reads a name, and returns its value.
func (p *parser) named() any {
	name := p.text()
	v, ok := p.names[name]
	if !ok {
		panic("no value " + name)
	}
	return v
}

// item reads a word, or one or more attributes.
func (p *parser) item(words *[]string, pairs *[]Pair) {
	key, n := p.word(), -1
	if p.is('*') {
		n, _ = strconv.Atoi(p.text())
	}
	var value any
	switch {
	case p.is('='):
		value = p.value()
	case p.is('{'):
		value = p.group()
	default:
		*words = append(*words, key)
		return
	}
	if n < 0 {
		*pairs = append(*pairs, Pair{key, value})
	}
	for i := range n {
		*pairs = append(*pairs, Pair{key + strconv.Itoa(i), value})
	}
}

func (p *parser) group() (pairs []Pair) {
	for !p.is('}') {
		p.item(new([]string), &pairs)
	}
	return pairs
}

func (p *parser) value() any {
	switch {
	case p.is('$'):
		return p.named()
	case p.is('['):
		list := []any{}
		for !p.is(']') {
			list = append(list, p.value())
		}
		return list
	case p.is('{'):
		return p.group()
	}
	kind := p.token
	text := p.text()
	if kind == '-' {
		kind = p.token
		text += p.text()
	}
	switch {
	case kind == scanner.Int:
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			panic(err)
		}
		return n
	case kind == scanner.Float:
		f, _ := strconv.ParseFloat(text, 64)
		return f
	case kind == scanner.Ident && (text == "true" || text == "false"):
		return text == "true"
	}
	return text
}
