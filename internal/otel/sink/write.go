package sink

import (
	"errors"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
)

// A Source reads the records of an index once more.
type Source interface {
	// Read calls write with the entry of r, and then with the entries of its links and events. It returns the first
	// error of write at once. The parameter at describes the entry below which r is written.
	Read(r *Record, at otel.Where, write func(e *format.TraceEntry) error) error
	// Note reports whether writing continues after err, which Read has returned.
	Note(err error) bool
}

// A Writer writes the records of an index to a trace. A record is below its parent span if both have the same
// resource, and otherwise below its resource. In a view, the record is always below its real parent.
type Writer struct {
	Index  *Index
	Source Source
	To     *format.Writer
	// Holders has the ids of the entries of the resources, by number. If Holders is nil, the numbers are the ids.
	Holders []uint32
	// Repeated is the number of spans that were not written because the input has them twice.
	Repeated int

	sent map[sending]bool // the written spans that share their ids with other spans

	// The record that is being written.
	now   int
	below uint32                           // id of the entry of its parent or its resource
	begun bool                             // its own entry was written
	put   func(e *format.TraceEntry) error // the method entry
}

// A sending has the data that is equal if a sender gets no answer and sends a span again.
type sending struct {
	first    uint32 // number of the first span with these ids
	resource uint32
	what     string // the kind, the start and the duration
}

// errRepeated is returned to a Source for a span that was written before.
var errRepeated = errors.New("the span was written before")

// Write writes the ancestors of record i that were not written yet, and then record i.
func (w *Writer) Write(i int) error {
	for _, i := range w.Index.Due(i, w.isBelow) {
		err := w.write(i)
		if errors.Is(err, errRepeated) {
			w.Repeated++
		} else if err != nil && !w.Source.Note(err) {
			return err
		}
	}
	return nil
}

func (w *Writer) write(i int) error {
	if w.put == nil {
		w.put = w.entry
	}
	r := w.Index.Record(i)
	w.now, w.begun, w.below = i, false, w.holder(i)
	var at otel.Where
	if up := w.Index.parent(r); up >= 0 && w.isBelow(i, up) && w.Index.Record(up).ID != 0 {
		w.below, at = w.Index.Record(up).ID, otel.Where{Trace: true, Parent: true}
	}
	return w.Source.Read(r, at, w.put)
}

// entry writes an entry of the record that is being written.
func (w *Writer) entry(e *format.TraceEntry) (err error) {
	r := w.Index.Record(w.now)
	if w.begun { // e is a link or an event
		e.Parent = r.ID
		_, err = w.To.Write(e)
		return err
	}
	if w.isRepeated(w.now, e) {
		return errRepeated
	}
	e.Parent, w.begun = w.below, true
	r.ID, err = w.To.Write(e)
	return err
}

// isBelow reports whether record i is written below the parent span up.
func (w *Writer) isBelow(i, up int) bool { return w.holder(i) == w.holder(up) }

// holder returns the id of the entry of the resource of record i.
func (w *Writer) holder(i int) uint32 {
	n := w.Index.Resource(w.Index.Record(i))
	if w.Holders == nil {
		return n
	}
	return w.Holders[n]
}

// isRepeated reports whether an earlier span has the ids, the resource, the kind, the start and the end of span i.
func (w *Writer) isRepeated(i int, e *format.TraceEntry) bool {
	first, several := w.Index.first[uint32(i)]
	if !several {
		return false
	}
	var what []byte
	for i := range e.Attributes {
		switch a := &e.Attributes[i]; a.Name {
		case format.AttrTime, format.AttrDuration, mapping.AttrClockSkew, mapping.AttrKind:
			what = append(append(what, a.Name...), a.Value.String()...)
		}
	}
	now := sending{first, w.holder(i), string(what)}
	before := w.sent[now]
	if w.sent == nil {
		w.sent = make(map[sending]bool)
	}
	w.sent[now] = true
	return before
}
