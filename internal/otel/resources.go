package otel

import "github.com/entrace-go/entrace/format"

// Resources remembers which resources were written to a trace. Resources are equal if they differ only in the order
// of their attributes. The zero value is empty.
type Resources struct {
	ids    map[string]uint32 // by key
	sorted []format.Attribute
	key    []byte
}

// Write writes the entry e of a resource to w and returns its id. If an equal resource was written before, Write
// only returns the id of that resource. Version 1 keeps the order of the attributes.
func (r *Resources) Write(w *format.Writer, e *format.TraceEntry) (id uint32, err error) {
	key := r.Key(e)
	if id, known := r.ids[string(key)]; known {
		return id, nil
	}
	id, err = w.Write(e)
	if err != nil {
		return 0, err
	}
	if r.ids == nil {
		r.ids = make(map[string]uint32)
	}
	r.ids[string(key)] = id
	return id, nil
}

// WriteFor is like Write, for the entry of a resource. A resource without any data has no entry: its id is 0, the id
// of the root.
func (r *Resources) WriteFor(w *format.Writer, of *Resource) (id uint32, err error) {
	if len(of.Attributes) == 0 && of.SchemaURL == "" && of.Dropped == 0 {
		return 0, nil
	}
	return r.Write(w, of.Entry())
}

// Key returns the same bytes for entries of equal resources, and different bytes for other entries. The bytes are
// valid until the next call of Key or Write.
func (r *Resources) Key(e *format.TraceEntry) []byte {
	// Use version 2 with sorted attributes, independent of the version of the trace.
	r.sorted = append(r.sorted[:0], e.Attributes...)
	format.SortAttributes(r.sorted)
	canonical := *e
	canonical.Parent, canonical.Attributes = 0, r.sorted
	r.key = format.AppendTraceEntry(r.key[:0], format.V2, &canonical)
	return r.key
}
