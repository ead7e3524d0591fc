package telemetry

import "github.com/entrace-go/entrace/format"

// Resources are the resources that were written to one trace, each once. Two
// resources are one if they differ in nothing but the order of their attributes.
// The zero value holds none.
type Resources struct {
	ids    map[string]uint32 // by key
	sorted []format.Attribute
	key    []byte
}

// Write writes e, the entry of a resource, to w, unless that has one like it. It
// returns the id of the one that is there. The attributes keep their order, where
// the version of w keeps one.
func (r *Resources) Write(w *format.Writer, e *format.TraceEntry) (id uint32, err error) {
	// The key is of version 2 whatever is written: sorted, so that it has one form.
	r.sorted = append(r.sorted[:0], e.Attributes...)
	format.SortAttributes(r.sorted)
	canonical := *e
	canonical.Attributes = r.sorted
	r.key = format.AppendTraceEntry(r.key[:0], format.V2, &canonical)
	if id, known := r.ids[string(r.key)]; known {
		return id, nil
	}
	if id, err = w.Write(e); err != nil {
		return 0, err
	}
	if r.ids == nil {
		r.ids = make(map[string]uint32)
	}
	r.ids[string(r.key)] = id
	return id, nil
}
