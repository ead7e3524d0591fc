package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/view"
)

// merge writes the entries of the files of v to w as one trace, as documented at Trace.Encode. The function
// keep selects the rows to write; their ancestors are written as well. A nil keep means all rows.
func merge(ctx context.Context, w *format.Writer, v *view.View, keep func(r view.Row) bool, hasNoEnd func(file int) bool) error {
	m := merger{w: w, v: v, files: v.Files(), keep: keep, ends: make(map[place]bool), cut: make(map[place]bool), waits: make(map[place]bool)}
	if _, err := w.Write(format.Root()); err != nil {
		return err
	}
	var ends []place
	ended := true
	last := make([]uint32, len(m.files)) // the id of the last end entry in each file
	for _, r := range v.Children(0) {
		if file, id := v.ID(r); v.Role(r) == view.RoleRecorder && m.files[file].Parent(id) == 0 {
			ends = append(ends, place{file, id})
			last[file] = max(last[file], id)
		}
	}
	for i := range m.files {
		m.ids = append(m.ids, make([]uint32, max(1, v.Entries(i))))
		ended = ended && (hasNoEnd(i) || last[i] > 0 && int(last[i]) == v.Entries(i)-1)
	}
	slices.SortFunc(ends, func(a, b place) int { return cmp.Or(a.file-b.file, cmp.Compare(a.id, b.id)) })
	if err := m.numberResources(); err != nil {
		return err
	}
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
	return m.writeAll(ends) // does nothing if the ends are written already
}

func (m *merger) writeAll(places []place) error {
	for _, p := range places {
		if err := m.write(p); err != nil {
			return err
		}
	}
	return nil
}

// A place identifies an entry: its file and its id.
type place struct {
	file int
	id   uint32
}

type merger struct {
	w         *format.Writer
	v         *view.View
	files     []*format.File
	keep      func(r view.Row) bool // nil: every row
	ends      map[place]bool        // the end entries of the recorders
	ids       [][]uint32            // the ids of the entries in the output; 0: not written yet, or the root
	resources otel.Resources
	numbers   map[view.Row]int // of the resources; equal resources have the same number
	stack     []place
	cut       map[place]bool // entries that stay below the parent in their own file
	waits     map[place]bool // entries that are in stack
	raw, buf  []byte
}

// numberResources finds equal resources, if there are several files.
func (m *merger) numberResources() error {
	if len(m.files) < 2 {
		return nil
	}
	m.numbers = make(map[view.Row]int)
	known := make(map[string]int)
	for _, r := range m.v.Columns().Resources()[1:] {
		r := view.Row(r)
		e, err := m.v.Entry(r)
		if err != nil {
			return err
		}
		key := m.resources.Key(e)
		n, ok := known[string(key)]
		if !ok {
			n = len(known) + 1
			known[string(key)] = n
		}
		m.numbers[r] = n
	}
	return nil
}

// sameResource reports whether two rows have equal resources, or neither has one.
func (m *merger) sameResource(a, b view.Row) bool {
	x, y := m.v.Resource(a), m.v.Resource(b)
	return x == y || m.numbers[x] == m.numbers[y] && m.numbers[x] != 0
}

// at returns the row of the entry at p. The result own is false if the entry at p shares
// the row of another entry.
func (m *merger) at(p place) (r view.Row, own bool) {
	r, _ = m.v.Row(p.file, p.id)
	file, id := m.v.ID(r)
	return r, file == p.file && id == p.id
}

// parent returns the parent in the output of the entry at p. The result moved is true if it differs from the
// stored parent.
func (m *merger) parent(p place) (up place, moved bool) {
	stored := place{p.file, m.files[p.file].Parent(p.id)}
	r, own := m.at(p)
	if !own { // the end of a span
		if first := m.first(r); first != r {
			file, id := m.v.ID(first)
			return place{file, id}, false
		}
		return stored, false
	}
	file, id := m.v.ID(m.v.Parent(r))
	if m.first(r) != r || file == p.file || m.cut[p] || m.v.Parent(r) == 0 || !m.sameResource(r, m.v.Parent(r)) {
		// Keep the stored parent: a view of the output finds the right place of a row that is late in its file or has
		// another resource.
		if below, own := m.at(stored); own && m.first(below) != below {
			file, id := m.v.ID(m.first(below))
			return place{file, id}, false
		}
		return stored, false
	}
	if below, own := m.at(stored); own && m.first(below) == m.v.Parent(r) {
		return place{file, id}, false // the stored parent was a half of the span
	}
	return place{file, id}, true
}

// first returns the row of the first half of the span at row r. That can be r itself.
func (m *merger) first(r view.Row) view.Row {
	first, _ := m.v.Stored().First(r)
	return first
}

// wants reports whether the entry at p must be written: its row is kept, or it is a link of a kept row.
func (m *merger) wants(p place) bool {
	if m.keep == nil {
		return true
	}
	r, _ := m.at(p)
	if r = m.first(r); m.v.Role(r) == view.RoleLink {
		r = m.v.Parent(r)
	}
	return m.keep(r)
}

func (m *merger) done(p place) bool { return p.id == 0 || m.ids[p.file][p.id] != 0 }

// write writes the entry at p, after its ancestors that are not written yet.
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
			// Late entries and entries moved to another file can form a cycle of parents.
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
		if err := m.put(top, up, moved); err != nil {
			return err
		}
		m.stack = m.stack[:len(m.stack)-1]
	}
	return nil
}

// isHalf reports whether the entry at p repeats a span of another file, as a later half or as a copy that has
// the end.
func (m *merger) isHalf(p place) bool {
	r, own := m.at(p)
	return own && m.first(r) != r || m.v.Stored().IsCopy(r)
}

// put writes the entry at p below the entry at up, which is already written.
func (m *merger) put(p, up place, moved bool) (err error) {
	f := m.files[p.file]
	parent := m.ids[up.file][up.id]
	var id uint32
	defer func() {
		if m.ids[p.file][p.id] = id; err != nil {
			err = fmt.Errorf("%s: entry %d: %w", f.Name(), p.id, err)
		}
	}()
	r, own := m.at(p)
	resource := own && m.v.Role(r) == view.RoleResource
	if !resource && !moved && !m.v.Stored().IsCorrected() && f.Version() == m.w.Version() {
		if m.raw, err = f.Raw().Append(m.raw[:0], p.id); err == nil {
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
	if moved { // the position of the entry in the output now shows its parent
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

// Select returns a trace of the rows of v for which keep returns true, with their links and ancestors, and with
// the entries in which recorders report on themselves. The view v must be the view of t, or that view after it
// has grown. The new trace has the same times as t. It is in a temporary file without a name, and stays open
// when t is closed.
func (t *Trace) Select(ctx context.Context, v *view.View, keep func(r view.Row) bool) (*Trace, error) {
	tmp, err := osfile.CreateSpool(t.options.TempDir)
	if err != nil {
		return nil, err
	}
	room := t.options.MaxTemp
	if err := t.write(ctx, v, &limited{w: tmp, left: &room}, 0, format.IET, keep); err != nil {
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
	if part.view, err = view.New(ctx, part.files, &view.Options{Workers: t.options.Workers}); err != nil {
		return nil, errors.Join(err, part.Close())
	}
	return part, nil
}
