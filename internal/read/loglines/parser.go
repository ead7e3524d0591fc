package loglines

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/otel"
)

// maxRecord is the maximum number of bytes of one record. A longer line becomes several records.
const maxRecord = 64 << 10

// maxWrapped is the maximum number of wrappers around a line.
const maxWrapped = 4

// A Parser makes records from lines. It holds one record back, because the next line may belong to the same record.
type Parser struct {
	Now int64 // the time for records without a time; 0: they get the time of the previous record

	*Record // the record of the current line

	pending  *Record   // the record of the previous lines; nil if there is none
	records  [2]Record // the memory of Record and pending
	last     int64     // the time of the last record
	carry    string    // the beginning of a line that its wrapper has divided
	clock    clock
	json     otel.FieldReader
	field    func(name []byte, v *otel.Any) // sets a field of the current record
	names    map[string]*meaning            // meanings of names that occurred
	order    []*meaning                     // the meanings of the fields of the last JSON object; the next object often has the same fields
	at       int                            // the index in order of the next field
	captures []capture
	emit     func(r *Record)

	size  int      // the size of the lines that matched the last row of a table
	known struct { // the last result of the clock
		text string
		time int64
		size int
	}
}

// NewParser returns a Parser that passes each record to emit. It completes times without a date or a year so that
// they are before limit.
func NewParser(limit time.Time, emit func(r *Record)) *Parser {
	p := &Parser{clock: clock{limit, time.Local}, names: make(map[string]*meaning), emit: emit}
	p.field = func(name []byte, v *otel.Any) { p.set(p.meaningOf(name), v) }
	return p
}

// Flush passes on the record that is held back.
func (p *Parser) Flush() {
	if p.carry != "" {
		carry := p.carry
		p.carry = ""
		p.Next(carry)
	}
	if p.pending != nil {
		p.emit(p.pending.finish())
		p.pending = nil
	}
}

// begin begins another record.
func (p *Parser) begin() {
	p.Record = &p.records[0]
	if p.Record == p.pending {
		p.Record = &p.records[1]
	}
	*p.Record = Record{Log: otel.Log{Attributes: p.Log.Attributes[:0]}, took: -1}
}

// Next reads the line at the beginning of s, and further lines if they belong to its shape. It returns the number of
// bytes that it has read.
func (p *Parser) Next(s string) (n int) {
	line, n := lineOf(s)
	text := strings.TrimRight(line, "\r")
	if strings.IndexByte(text, '\x1b') >= 0 {
		text = escapes.ReplaceAllString(text, "")
	}
	if strings.TrimSpace(text) == "" {
		return n
	}
	p.begin()
	inner := p.unwrap(text)
	if p.partial && len(p.carry)+len(inner) < maxRecord {
		p.carry += inner
		return n
	}
	if p.carry != "" {
		inner, p.carry = p.carry+inner, ""
	}
	switch {
	case strings.HasPrefix(s, exportBegin):
		n = p.export(s)
	case inner == "": // JSON in a wrapper has set all fields
	case p.pending != nil && p.pending.continues(inner, s[n:]):
		p.pending.add(inner)
		return n
	case inner == line:
		n = max(n, p.shapeOf(s))
	default:
		p.shapeOf(inner)
	}
	l := &p.Log
	if l.Severity == 0 {
		l.Severity, l.SeverityText = levelIn(l.Body.Text)
	}
	if l.Time == 0 {
		l.Time = cmp.Or(p.Now, p.last)
	}
	p.last = l.Time
	p.Flush()
	p.pending = p.Record
	return n
}

// lineOf returns the first line of s without its line break, and the size of the line with its line break. It cuts
// lines that are too long.
func lineOf(s string) (line string, size int) {
	head := s[:min(len(s), maxRecord)]
	if end := strings.IndexByte(head, '\n'); end >= 0 {
		return head[:end], end + 1
	}
	return head, len(head)
}

// escapes matches the escape sequences that color a terminal.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// unwrap removes the wrappers of a line. It returns "" if the rest is JSON.
func (p *Parser) unwrap(text string) string {
	for range maxWrapped {
		if p.object(text) {
			p.Shape = shapeJSON
		} else if !p.find(wrappers, text) {
			break
		}
		if p.line == "" {
			return ""
		}
		text = strings.TrimSuffix(p.line, "\n")
		p.partial = p.partial || len(p.line) >= dockerCut && len(text) == len(p.line)
		p.line, p.seen = "", 0 // fields of the line itself have precedence over fields of its wrapper
	}
	return text
}

// dockerCut is the size of the parts into which Docker cuts a long line.
const dockerCut = 16 << 10

// find finds the first row of a table that matches the line at the beginning of s, sets the fields, stores the number
// of matching bytes in p.size, and returns true.
func (p *Parser) find(table []*Shape, s string) bool {
	for _, shape := range table {
		p.captures = p.captures[:0]
		p.size = p.match(shape.steps, s)
		if p.size < 0 || p.size < len(s) && s[p.size] != '\n' && s[p.size] != '\r' {
			continue
		}
		p.Shape = shape
		for i := range p.captures {
			p.capture(&p.captures[i])
		}
		return true
	}
	return false
}

// capture sets the field of a capture.
func (p *Parser) capture(c *capture) {
	v := otel.TextAny(c.text)
	switch {
	case c.means.kind == aTime:
		p.Log.Time = c.time
		p.seen |= 1 << aTime
		return
	case c.text == "", c.text == "-" && c.kind != '1', c.step.text == "_":
		return
	case c.kind == '=':
		p.withFields(c.text)
		return
	case c.kind == '#' && len(c.text) < 19:
		v = otel.IntAny(decimal(c.text))
	case c.kind == '~':
		v.Text = strings.TrimSpace(c.text) // Spring pads names
	}
	p.set(&c.means, &v)
}

// shapeOf finds the shape of the line at the beginning of s. It returns the number of bytes of all lines of the shape.
func (p *Parser) shapeOf(s string) (n int) {
	line, _ := lineOf(s)
	line = strings.TrimRight(line, "\r")
	switch {
	case strings.IndexByte(line, '=') > 0 && p.logfmt(line, 2):
		p.Shape = shapeLogfmt
	case p.find(shapes, s):
		return min(p.size+1, len(s))
	default:
		p.Log.Body = otel.TextAny(line)
		if p.Shape == nil {
			p.Shape = shapeNone
		}
	}
	return 0
}

// exportBegin begins a record in journald's export.
const exportBegin = "__CURSOR="

// export reads a record of journald's export: a field in each line, up to an empty line.
func (p *Parser) export(s string) (n int) {
	p.begin()
	p.Shape = shapeExport
	for n < len(s) {
		line, size := lineOf(s[n:])
		n += size
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			break
		}
		v := otel.TextAny(value)
		p.field([]byte(name), &v)
	}
	if p.line != "" {
		p.shapeOf(p.line)
	}
	return n
}

// timeAt returns the time at the beginning of s and its length. It caches the last result, because several patterns
// read the same time.
func (p *Parser) timeAt(s string) (unixNano int64, n int) {
	if p.known.text != s {
		p.known.text = s
		p.known.time, p.known.size = p.clock.at(s)
	}
	return p.known.time, p.known.size
}
