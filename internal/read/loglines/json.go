package loglines

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/otel"
)

// maxFlat is the maximum nesting depth of objects whose fields are joined with dots.
const maxFlat = 16

// object reads a text that is a JSON object. If the text is not a JSON object, it returns false and does not change
// the record.
func (p *Parser) object(text string) bool {
	if !strings.HasPrefix(text, "{") {
		return false
	}
	was := *p.Record
	p.at = 0
	if p.json.Read(text, maxFlat, p.field) != nil {
		*p.Record = was
		return false
	}
	return true
}

// logfmtPair matches a field of logfmt. Its value may be in quotes.
var logfmtPair = regexp.MustCompile(`^\s*([A-Za-z_@][\w.@/-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?:\s+|$)`)

// logfmt reads a text that consists of fields of logfmt. The parameter least is the minimum number of fields. For any
// other text, it returns false and does not change the record.
func (p *Parser) logfmt(s string, least int) bool {
	was := *p.Record
	for ; s != ""; least-- {
		m := logfmtPair.FindStringSubmatchIndex(s)
		if m == nil {
			*p.Record = was
			return false
		}
		value := s[m[4]:m[5]]
		if text, err := strconv.Unquote(value); err == nil && value[0] == '"' {
			value = text
		}
		v := otel.TextAny(value)
		p.field([]byte(s[m[2]:m[3]]), &v)
		s = s[m[1]:]
	}
	if least > 0 {
		*p.Record = was
	}
	return least <= 0
}

// fieldsBehind matches the possible beginnings of the fields after a message.
var fieldsBehind = regexp.MustCompile(`\s(?:[A-Za-z_@][\w.@/-]*=|\{.*\}$)`)

// withFields sets the message. If fields of logfmt or a JSON object follow the message, it also sets these fields.
func (p *Parser) withFields(s string) {
	if at := fieldsBehind.FindStringIndex(s); at != nil && (p.object(s[at[0]+1:]) || p.logfmt(s[at[0]+1:], 1)) {
		s = s[:at[0]]
	}
	s = strings.TrimRight(s, " \t")
	if text, err := strconv.Unquote(s); err == nil {
		s = text
	}
	p.Log.Body = otel.TextAny(s)
	p.seen |= 1 << aMessage
}

// meaningOf returns the meaning of the field called name. It first tries the field that had the same position in the
// previous object.
func (p *Parser) meaningOf(name []byte) *meaning {
	at := p.at
	p.at++
	if at < len(p.order) && p.order[at].raw == string(name) {
		return p.order[at]
	}
	m := p.names[string(name)]
	if m == nil {
		m = &meaning{raw: string(name)}
		m.name = strings.TrimPrefix(m.raw, "_source.")
		if known := meanings[strings.ToLower(m.name)]; known != nil {
			m.kind, m.unit, m.name = known.kind, known.unit, cmp.Or(known.name, m.name)
		}
		if len(p.names) < maxNames {
			p.names[m.raw] = m
		}
	}
	if at == len(p.order) && at < maxFields {
		p.order = append(p.order, m)
	} else if at < len(p.order) {
		p.order[at] = m
	}
	return m
}

const (
	maxNames  = 4096 // the maximum number of names of fields that a Parser remembers
	maxFields = 64   // the maximum number of fields of an object whose order a Parser remembers
)
