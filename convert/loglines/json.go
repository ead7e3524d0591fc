package loglines

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/otel"
)

// maxFlat is the maximum nesting depth of objects whose fields are joined with dots.
const maxFlat = 16

// json reads a text that is a JSON object. If it is none, the record stays as it was.
func (p *Parser) json(text string) bool {
	if !strings.HasPrefix(text, "{") {
		return false
	}
	v, err := otel.ParseJSON(text)
	if err != nil {
		return false
	}
	p.flat(v.Map, maxFlat)
	return true
}

// flat sets the fields of an object. It joins the names in nested objects with dots, in at most depth levels.
func (p *Parser) flat(fields []otel.KeyValue, depth int) {
	was := len(p.prefix)
	for i := range fields {
		f := &fields[i]
		p.prefix = append(p.prefix, f.Key...)
		if f.Value.Kind == otel.Map && depth > 0 {
			p.prefix = append(p.prefix, '.')
			p.flat(f.Value.Map, depth-1)
		} else {
			p.set(p.meaningOf(p.prefix), &f.Value)
		}
		p.prefix = p.prefix[:was]
	}
}

// logfmtPair matches a field of logfmt. Its value may be in quotes.
var logfmtPair = regexp.MustCompile(`^\s*([A-Za-z_@][\w.@/-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?:\s+|$)`)

// logfmt reads a text that consists of fields of logfmt, at least as many as least. For any other text, it returns
// false, and the record stays as it was.
func (p *Parser) logfmt(s string, least int) bool {
	was, had := p.found, len(p.log.Attributes)
	for ; s != ""; least-- {
		m := logfmtPair.FindStringSubmatchIndex(s)
		if m == nil {
			p.found, p.log.Attributes = was, p.log.Attributes[:had]
			return false
		}
		value := s[m[4]:m[5]]
		if text, err := strconv.Unquote(value); err == nil && value[0] == '"' {
			value = text
		}
		v := otel.TextAny(value)
		p.set(p.meaningOf([]byte(s[m[2]:m[3]])), &v)
		s = s[m[1]:]
	}
	if least > 0 {
		p.found, p.log.Attributes = was, p.log.Attributes[:had]
	}
	return least <= 0
}

// fieldsBehind matches where the fields behind a message may begin.
var fieldsBehind = regexp.MustCompile(`\s(?:[A-Za-z_@][\w.@/-]*=|\{.*\}$)`)

// withFields sets the message. If fields of logfmt or a JSON object are behind it, it sets these as well.
func (p *Parser) withFields(s string) {
	if at := fieldsBehind.FindStringIndex(s); at != nil && (p.json(s[at[0]+1:]) || p.logfmt(s[at[0]+1:], 1)) {
		s = s[:at[0]]
	}
	p.log.Body, p.said = otel.TextAny(strings.TrimRight(s, " \t")), true
}

// meaningOf returns what the field called name is. Names that occur again are not allocated again.
func (p *Parser) meaningOf(name []byte) meaning {
	if m, known := p.meanings[string(name)]; known {
		return m
	}
	text := strings.TrimPrefix(string(name), "_source.")
	m := meanings[strings.ToLower(text)]
	m.name = text
	if len(p.meanings) < maxNames {
		p.meanings[string(name)] = m
	}
	return m
}

// maxNames is how many names of fields a Parser remembers.
const maxNames = 4096
