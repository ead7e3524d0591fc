package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/entrace-go/entrace/internal/read/columns"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/view"
)

// merge writes the entries of the files of v to w as one trace, as documented at Trace.Encode. It writes the rows
// for which the function keep returns true, and their ancestors. If keep is nil, it writes all rows.
func merge(ctx context.Context, w *format.Writer, v *view.View, keep func(r view.Row) bool, lacksEnd func(file int) bool) error {
	m := merger{w: w, v: v, columns: columns.Of(v), files: v.Files(), keep: keep, ends: make(map[place]bool), cut: make(map[place]bool), waits: make(map[place]bool)}
	if _, err := w.Write(format.Root()); err != nil {
		return err
	}
	var ends []place
	ended := true
	last := make([]uint32, len(m.files)) // for each file, the id of the last entry about its end
	for _, r := range v.Children(0) {
		if file, id := v.ID(r); v.Role(r) == view.RoleRecorder && m.files[file].Parent(id) == 0 {
			ends = append(ends, place{file, id})
			last[file] = max(last[file], id)
		}
	}
	for i := range m.files {
		m.ids = append(m.ids, make([]uint32, max(1, v.Entries(i))))
		ended = ended && (lacksEnd(i) || last[i] > 0 && int(last[i]) == v.Entries(i)-1)
	}
	slices.SortFunc(ends, func(a, b place) int { return cmp.Or(a.file-b.file, cmp.Compare(a.id, b.id)) })
	for _, p := range ends {
		m.ends[p] = true
	}
	if !ended {
		if err := m.writeAll(ends); err != nil {
			return err
		}
	}
	for i := range m.files {
		for id := uint32(1); int(id) < v.Entries(i); id++ {
			if id%4096 == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			if p := (place{i, id}); !m.ends[p] && m.wants(p) {
				if err := m.write(p); err != nil {
					return err
				}
			}
		}
	}
	return m.writeAll(ends) // does nothing if they were already written
}

func (m *merger) writeAll(places []place) error {
	for _, p := range places {
		if err := m.write(p); err != nil {
			return err
		}
	}
	return nil
}

// A place identifies an entry by its file and its id.
type place struct {
	file int
	id   uint32
}

type merger struct {
	w         *format.Writer
	v         *view.View
	columns   columns.Columns // of v
	files     []*format.File
	keep      func(r view.Row) bool // nil: write every row
	ends      map[place]bool        // the entries in which recorders report their end
	ids       [][]uint32            // for each file, the ids of its entries in the output; 0: not written yet, or the root
	resources otel.Resources
	stack     []place
	cut       map[place]bool // entries that remain below the parent in their own file
	waits     map[place]bool // the entries in stack
	raw, buf  []byte
}

// at returns the row of the entry at p. The result own is false if the entry at p is not the first entry of the
// row, but for example the end of a span.
func (m *merger) at(p place) (r view.Row, own bool) {
	r, _ = m.v.Row(p.file, p.id)
	file, id := m.v.ID(r)
	return r, file == p.file && id == p.id
}

// parent returns the parent that the entry at p has in the output. The result moved is true if this parent is not the
// parent in the file.
func (m *merger) parent(p place) (up place, moved bool) {
	stored := place{p.file, m.files[p.file].Parent(p.id)}
	r, own := m.at(p)
	if !own { // p is the end of a span
		if first := m.first(r); first != r {
			file, id := m.v.ID(first)
			return place{file, id}, false
		}
		return stored, false
	}
	file, id := m.v.ID(m.v.Parent(r))
	if m.first(r) != r || file == p.file || m.cut[p] || m.v.Parent(r) == 0 || !m.columns.SameResource(uint32(r), uint32(m.v.Parent(r))) {
		// Use the parent in the file. If the row is late in its file or has another resource, a view of the output
		// finds the right parent by the ids.
		if below, own := m.at(stored); own && m.first(below) != below {
			file, id := m.v.ID(m.first(below))
			return place{file, id}, false
		}
		return stored, false
	}
	if below, own := m.at(stored); own && m.first(below) == m.v.Parent(r) {
		return place{file, id}, false // the parent in the file was another half of the same span
	}
	return place{file, id}, true
}

// first returns the row of the first half of the span at r. If the span is in one file, this is r.
func (m *merger) first(r view.Row) view.Row {
	first, _ := m.columns.First(uint32(r))
	return view.Row(first)
}

// wants reports whether the entry at p must be written, because its row is kept or is a link of a kept span.
func (m *merger) wants(p place) bool {
	if m.keep == nil {
		return true
	}
	r, _ := m.at(p)
	r = m.first(r)
	if m.v.Role(r) == view.RoleLink {
		r = m.v.Parent(r)
	}
	return m.keep(r)
}

func (m *merger) done(p place) bool { return p.id == 0 || m.ids[p.file][p.id] != 0 }

// write writes the entry at p. Before that, it writes the ancestors of the entry that were not yet written.
func (m *merger) write(p place) error {
	if m.done(p) || m.isHalf(p) {
		return nil
	}
	m.stack = append(m.stack[:0], p)
	clear(m.waits)
	for len(m.stack) > 0 {
		top := m.stack[len(m.stack)-1]
		up, moved := m.parent(top)
		if !m.done(up) && (m.waits[up] || up == top) {
			// Entries that are late or were moved below another file's entry can be each other's ancestors.
			m.cut[top] = true
			if again, _ := m.parent(top); again != up {
				continue
			}
			up, moved = place{}, false
		}
		if !m.done(up) {
			m.waits[top] = true
			m.stack = append(m.stack, up)
			continue
		}
		if err := m.writeBelow(top, up, moved); err != nil {
			return err
		}
		m.stack = m.stack[:len(m.stack)-1]
	}
	return nil
}

// isHalf reports whether the entry at p need not be written because another entry represents the same span: p is a
// later half of the span, or another file has the span with its end.
func (m *merger) isHalf(p place) bool {
	r, own := m.at(p)
	return own && m.first(r) != r || m.columns.IsCopy(uint32(r))
}

// writeBelow writes the entry at p below the entry at up, which was already written. The parameter moved is a result of
// the method parent.
func (m *merger) writeBelow(p, up place, moved bool) (err error) {
	f := m.files[p.file]
	parent := m.ids[up.file][up.id]
	var id uint32
	defer func() {
		m.ids[p.file][p.id] = id
		if err != nil {
			err = fmt.Errorf("%s: entry %d: %w", f.Name(), p.id, err)
		}
	}()
	r, own := m.at(p)
	resource := own && m.v.Role(r) == view.RoleResource
	if !resource && !moved && !m.columns.IsCorrected() && f.Version() == m.w.Version() {
		m.raw, err = entrybytes.Of(f).Append(m.raw[:0], p.id)
		if err == nil {
			m.buf = wire.AppendMoved(m.buf[:0], m.raw, parent)
			id, err = m.w.WriteRaw(m.buf, parent)
		}
		return err
	}
	e, err := f.Entry(p.id)
	if err != nil {
		return err
	}
	e.Parent = parent
	if own {
		m.v.Correct(r, e)
	}
	if moved { // remove the attributes that now follow from the parent
		e.Attributes = slices.DeleteFunc(e.Attributes, func(a format.Attribute) bool {
			return a.Name == format.AttrTraceID || a.Name == format.AttrParentSpanID || a.Name == format.AttrSpanID && m.v.Role(r) == view.RoleLog
		})
	}
	if !resource {
		id, err = m.w.Write(e)
	} else {
		id, err = m.resources.Write(m.w, e)
	}
	return err
}

// Select returns a trace with the rows of v for which keep returns true, their links and ancestors, and the entries
// in which recorders report on themselves. v must be the view of t, possibly after it has grown. The new trace has
// the same times as t. It is in a temporary file without a name, and stays open when t is closed.
func (t *Trace) Select(ctx context.Context, v *view.View, keep func(r view.Row) bool) (*Trace, error) {
	tmp, err := osfile.CreateSpool(t.options.TempDir)
	if err != nil {
		return nil, err
	}
	room := t.options.MaxTemp
	if err := t.write(ctx, v, &limitedWriter{w: tmp, left: &room}, 0, format.IET, keep); err != nil {
		return nil, errors.Join(err, tmp.Close())
	}
	f, err := openSpool(tmp, t.Name(0))
	if err != nil {
		return nil, err
	}
	part := &Trace{
		options: t.options, files: []*format.File{f}, names: t.names[:1], codecs: t.codecs[:1],
		damage: []error{t.Damage()}, inputs: t.inputs,
	}
	part.view, err = view.New(ctx, part.files, &view.Options{Workers: t.options.Workers})
	if err != nil {
		return nil, errors.Join(err, part.Close())
	}
	return part, nil
}
