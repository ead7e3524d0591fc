package show

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/view"
)

// A Rows prints the lines of rows, one after the other, into the buffer of its Line.
type Rows struct {
	Line

	Flat     bool                      // each row is one line
	Done     bool                      // with Flat: rows have ended; without their kinds, and with texts of several lines below
	Bare     bool                      // no attributes
	Normal   bool                      // omit values that differ between equal runs of a program
	LeaveOut []string                  // names of attributes that are not printed
	Width    int                       // columns of the terminal, or 0 if the output is not a terminal
	Strip    func(r view.Row) []string // returns words to print after the duration of a span; may be nil

	Read *view.Reader // of the view

	v      *view.View
	ranker *interest.Ranker
	value  []byte // of the current attribute
}

// NewRows returns a Rows for a terminal with width columns, or for a file if width is 0.
func NewRows(v *view.View, width int, colors bool) Rows {
	return Rows{Line: Line{Colors: colors, Measured: width > 0}, Width: width, v: v, Read: v.NewReader(), ranker: interest.NewRanker(v)}
}

// Copy returns a Rows with its own line, for another goroutine.
func (p *Rows) Copy() Rows {
	own := *p
	own.B, own.value, own.Read, own.ranker = nil, nil, p.v.NewReader(), interest.NewRanker(p.v)
	return own
}

// LineOf returns the line of an entry. The line is indented by indent columns.
func (p *Rows) LineOf(r view.Row, e *format.TraceEntry, indent int) string {
	p.B = p.B[:0]
	p.Begin(indent)
	p.Row(r, e)
	return string(p.B)
}

// Row prints the line of an entry. The result more has the texts to print in separate lines below the line. If p.Flat
// is set without p.Done, more is empty.
func (p *Rows) Row(r view.Row, e *format.TraceEntry) (more []string) {
	if first, rest, several := strings.Cut(e.Message.Value, "\n"); several && !p.Flat {
		e.Message.Value = first
		more = append(more, rest)
	}
	role := p.v.Role(r)
	p.head(r, role, e)
	if p.Bare || role == view.RoleResource {
		return nil
	}
	list := p.attributes(r, e)
	for i := range e.Attributes {
		if a := &e.Attributes[i]; IsStack(a.Name) && !p.Normal && !p.Done {
			p.Word(Bold, Safe(callstack.Place(a.Value.Text(), e.Message.Value)))
		}
	}
	end := e.Metadata.Name == mapping.NameEnd && role == view.RoleRecorder
	for i := range list {
		a := &list[i]
		if end && IsZero(a.Value) || slices.Contains(p.LeaveOut, a.Name) || p.Normal && IsStack(a.Name) {
			continue
		}
		if text := a.Value.Text(); (!p.Flat || p.Done) && a.Value.Kind() == format.KindString && strings.Contains(strings.TrimRight(text, "\n"), "\n") {
			if IsStack(a.Name) && p.Width > 0 {
				text = FoldStack(text)
			}
			more = append(more, a.Name+":\n    "+strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    "))
			continue
		}
		name := Safe(a.Name)
		p.value = AppendValue(p.value[:0], a.Value)
		if p.Width > 0 {
			runes := utf8.RuneCount(p.value)
			room := p.Width - p.Columns - 2 - utf8.RuneCountInString(name)
			if room < min(minValue, runes) {
				p.Word(Dim, "…")
				break
			}
			if most := min(room, MaxValue); runes > most {
				p.value = append(p.value[:0], Short(string(p.value), most-1)...)
			}
		}
		p.Next()
		p.Text(Dim, name, "=")
		p.Start("")
		p.B = append(p.B, p.value...)
		p.Stop()
	}
	return more
}

// attributes returns the attributes of an entry in the order in which they are printed.
func (p *Rows) attributes(r view.Row, e *format.TraceEntry) []format.Attribute {
	if p.Flat || p.Normal {
		list := interest.Readable(e)
		interest.Sort(list)
		return list
	}
	return p.ranker.Attributes(r, e)
}

// head prints the first part of an entry's line, before the attributes.
func (p *Rows) head(r view.Row, role view.Role, e *format.TraceEntry) {
	name := Safe(e.Metadata.Name)
	switch role {
	case view.RoleSpan:
		if p.v.Flags(r).IsError() && (!p.Done || e.Metadata.Level == format.LevelError) {
			p.level(format.LevelError)
		}
		p.Word(Bold, name)
		p.service(r)
		p.took(r)
		if p.Strip != nil {
			for _, w := range p.Strip(r) {
				p.Word(Dim, w)
			}
		}
		if !p.Done {
			p.attr(e, mapping.AttrKind)
		}
		p.attr(e, mapping.AttrStatusDescription)
		if before, _ := e.Attribute(mapping.AttrContinued); before.Bool() && !p.Done {
			p.Word(Dim, "began in the file before")
		}
	case view.RoleLog:
		if own, ok := e.Attribute(mapping.AttrLogLevel); ok {
			p.Word("", Safe(own.Text()))
		} else {
			p.level(e.Metadata.Level)
		}
		p.Word("", Safe(e.Message.Value))
	case view.RoleResource:
		p.Word(Bold, Safe(e.Message.Value))
		p.Word(Dim, "resource")
	case view.RoleEvent:
		if e.Metadata.Level == format.LevelError {
			p.level(e.Metadata.Level)
		}
		p.Next()
		p.Text("", "• ", name)
	case view.RoleLink:
		p.Word("", "→ link")
		if !p.Normal {
			p.attr(e, mapping.AttrLinkTraceID)
			p.attr(e, mapping.AttrLinkSpanID)
		}
	default:
		p.level(e.Metadata.Level)
		if !p.Done || !e.Message.Valid {
			p.Word("", name)
		}
		p.Word("", Safe(e.Message.Value))
	}
}

func (p *Rows) level(l format.Level) { p.Word(LevelColor(l), l.String()) }

// On a terminal, a value has at most MaxValue runes. If it does not fit into the line, it is cut. If fewer than
// minValue runes would remain, the line ends with … instead.
const (
	MaxValue = 80
	minValue = 8
)

// IsZero reports whether v is the number 0.
func IsZero(v format.Value) bool {
	n, ok := v.U64()
	return ok && n == 0
}

// took prints the duration of a span.
func (p *Rows) took(r view.Row) {
	if d, ok := p.v.Duration(r); ok {
		if p.Normal {
			return
		}
		p.Next()
		p.Start(Blue)
		p.B = quantity.AppendShort(p.B, d)
		p.Stop()
		return
	}
	if p.v.GoesOn(r) {
		p.Word(Dim, "goes on in the next file")
		return
	}
	text := "not ended"
	if d, _ := p.v.OpenFor(r); d > 0 && !p.Normal {
		text += ", ≥ " + string(quantity.AppendShort(nil, d))
	}
	p.Word(Yellow, text)
}

// service prints the service of a span in brackets if the span above it has another service.
func (p *Rows) service(r view.Row) {
	up := p.v.Parent(r)
	if p.Flat || p.v.Role(up) != view.RoleSpan {
		return
	}
	if service := p.v.Service(r); service != "" && service != p.v.Service(up) {
		p.Next()
		p.Text(Green, "[", Safe(service), "]")
	}
}

// attr prints an attribute that describes the entry.
func (p *Rows) attr(e *format.TraceEntry, name string) {
	if v, ok := e.Attribute(name); ok {
		p.Word(Dim, Safe(v.Text()))
	}
}
