package tail

import (
	"bytes"
	"context"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/view"
)

// A Window makes small traces of the entries of one file.
type Window struct {
	version format.Version
	find    func(end *format.TraceEntry) []byte
	begun   map[string][]byte // by span id: the encoded entries of spans that have not ended
	b       []byte            // the small trace
	entries uint32            // in b
	lines   []uint32          // the ids of the entries of b for which rows are printed
}

// maxBegun limits the number of open spans that a Window remembers, because some spans never end.
const maxBegun = 100_000

// NewWindow returns a Window of a file of version v. If a span ends whose beginning was not added, the Window calls
// find, which returns the encoding of the entry that began the span, or nil.
func NewWindow(v format.Version, find func(end *format.TraceEntry) []byte) *Window {
	w := &Window{version: v, find: find, begun: make(map[string][]byte)}
	w.reset()
	return w
}

func (w *Window) reset() {
	w.b, w.lines, w.entries = wire.AppendMagic(nil, w.version, format.IET), nil, 0
	w.append(format.AppendTraceEntry(nil, w.version, &format.TraceEntry{Metadata: format.Metadata{Name: "root"}}), 0)
}

// append appends an encoded entry to the small trace, and returns its id in the small trace.
func (w *Window) append(raw []byte, parent uint32) uint32 {
	w.b = wire.AppendMoved(w.b, raw, parent)
	w.entries++
	return w.entries - 1
}

// IsLine reports whether e completes a row to print: whether e is a log record, an event, or the end of a span.
func IsLine(e *format.TraceEntry) bool {
	if e.Message.Valid && e.Metadata.Name != format.NameResource && e.Metadata.Name != format.NameSpanEnd {
		return true
	}
	event, _ := e.Attribute(mapping.AttrEvent)
	_, took := e.Attribute(format.AttrDuration)
	return event.Bool() || took
}

// Add adds the entry e, which is encoded as raw.
func (w *Window) Add(raw []byte, e *format.TraceEntry) {
	id, span := e.Attribute(format.AttrSpanID)
	switch {
	case IsLine(e) && e.Metadata.Name == format.NameSpanEnd:
		w.lines = append(w.lines, w.append(raw, w.append(w.beginning(id.Text(), e), 0)))
	case IsLine(e):
		w.lines = append(w.lines, w.append(raw, 0))
	case span && len(w.begun) < maxBegun:
		w.begun[strings.Clone(id.Text())] = bytes.Clone(raw)
	}
}

// beginning returns the encoding of the entry that began the span with the given id. The parameter end is the end of
// the span.
func (w *Window) beginning(id string, end *format.TraceEntry) []byte {
	if raw, ok := w.begun[id]; ok {
		delete(w.begun, id)
		return raw
	}
	if raw := w.find(end); raw != nil {
		return raw
	}
	e := &format.TraceEntry{Metadata: format.Metadata{Name: "a span", Level: format.LevelInfo}}
	e.Add(format.AttrSpanID, format.StringValue(id))
	e.Add(format.AttrTime, format.U64Value(0)) // not known
	return format.AppendTraceEntry(nil, w.version, e)
}

// Full reports whether the small trace is so large that it should be printed before more entries are added. A nil
// Window is never full.
func (w *Window) Full() bool { return w != nil && len(w.b) > partSize }

// BeginningIn returns the encoding of the entry in f that began the span whose end is end. It returns nil if f has no
// such entry.
func BeginningIn(f *format.File, end *format.TraceEntry) []byte {
	id, _ := end.Attribute(format.AttrSpanID)
	raw, err := entrybytes.Of(f).Append(nil, end.Parent)
	if of, has, aerr := f.Attribute(end.Parent, format.AttrSpanID); err != nil || aerr != nil || !has || of.Text() != id.Text() {
		return nil
	}
	return raw
}

// View returns a view of the entries that were added since the last call, and its complete rows in the order in which
// they became complete.
func (w *Window) View(ctx context.Context) (*view.View, []view.Row, error) {
	f, err := entrybytes.OpenMapped(mapfile.Memory(w.b), "", int64(len(w.b)), nil, new(format.OpenOptions))
	if err != nil {
		return nil, nil, err
	}
	v, err := view.New(ctx, []*format.File{f.(*format.File)}, nil)
	if err != nil {
		return nil, nil, err
	}
	rows := make([]view.Row, len(w.lines))
	for i, id := range w.lines {
		rows[i], _ = v.Row(0, id)
	}
	w.reset()
	return v, rows, nil
}
