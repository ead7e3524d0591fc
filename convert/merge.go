package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/wire"
)

// Merge writes the entries of several traces to w as one. A span whose parent is
// in another of them, which it names by its ids, hangs below it, and so does a log
// record whose span is in another. Equal resources become one. Within each trace
// entries keep their order, as far as parents come first. A span that goes on in another file,
// as one does that was open when its recorder began a new one, is one span, and what is below
// either half is below that. What the recorders say
// of their ends stays, in the order of views. It comes last only if every trace has an
// end, because a last entry entrace.end marks the whole output as complete.
//
// The root of w must not be written yet. Merge does not close w. It takes 4 bytes
// an entry, and 50 more for each that hangs below one of another trace.
func Merge(ctx context.Context, w *format.Writer, views []*format.View) error {
	m := merger{w: w, views: views, ids: make([][]uint32, len(views)), elsewhere: make(map[place]place), joined: make(map[place]place)}
	if _, err := w.Write(format.Root()); err != nil {
		return err
	}
	for i, v := range views {
		m.ids[i] = make([]uint32, v.Len())
		if err := m.search(ctx, int32(i)); err != nil {
			return err
		}
	}
	var ends []place
	ended := true
	for i, v := range views {
		was := len(ends)
		for _, id := range v.File().Children(0) {
			if v.Role(id) == format.RoleRecorder {
				ends = append(ends, place{int32(i), id})
			}
		}
		ended = ended && len(ends) > was && int(ends[len(ends)-1].id) == v.Len()-1
	}
	if !ended {
		if err := m.writeAll(ends); err != nil {
			return err
		}
	}
	for i, v := range views {
		for id := uint32(1); int64(id) < int64(v.Len()); id++ {
			if id%4096 == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			if v.Role(id) == format.RoleRecorder && v.File().Parent(id) == 0 {
				continue // written with the ends
			}
			if _, half := m.joined[place{int32(i), id}]; half {
				continue
			}
			if err := m.write(place{int32(i), id}); err != nil {
				return err
			}
		}
	}
	return m.writeAll(ends) // does nothing if they are written
}

func (m *merger) writeAll(places []place) error {
	for _, p := range places {
		if err := m.write(p); err != nil {
			return err
		}
	}
	return nil
}

// A place is an entry of one of the traces.
type place struct {
	file int32
	id   uint32
}

type merger struct {
	w         *format.Writer
	views     []*format.View
	ids       [][]uint32 // of the entries in the output; 0: not there yet, or the root
	elsewhere map[place]place
	joined    map[place]place // halves of spans, to those that they are halves of
	resources otel.Resources
	stack     []place
	waits     map[place]int // indices in stack
	raw, buf  []byte
}

// search finds the parents in other traces of the entries of one.
func (m *merger) search(ctx context.Context, file int32) error {
	v := m.views[file]
	for id := uint32(1); int64(id) < int64(v.Len()); id++ {
		if id%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if err := m.searchHalf(place{file, id}); err != nil {
			return fmt.Errorf("%s: %w", v.File().Name(), err)
		}
		ref, missing, err := v.Missing(id)
		if err != nil {
			return fmt.Errorf("%s: %w", v.File().Name(), err)
		}
		if !missing {
			continue
		}
		for other := range m.views {
			if at, ok := m.views[other].Span(ref); ok && int32(other) != file {
				m.elsewhere[place{file, id}] = place{int32(other), at}
				break
			}
		}
	}
	return nil
}

// continued reports whether the entry at p is a span that began in another file and has no
// end of its own.
func (m *merger) continued(p place) (bool, error) {
	v := m.views[p.file]
	if v.Role(p.id) != format.RoleSpan {
		return false, nil
	}
	before, _, err := v.File().Attribute(p.id, format.AttrContinued)
	if err != nil || !before.Bool() {
		return false, err
	}
	_, whole, err := v.File().Attribute(p.id, format.AttrDuration)
	return !whole, err
}

// searchHalf finds the first half of the span at p, if that is a later one: the one that is
// marked as no later half, else that of the first trace.
func (m *merger) searchHalf(p place) error {
	later, err := m.continued(p)
	if err != nil || !later {
		return err
	}
	ref := m.views[p.file].Ref(p.id)
	best := p
	for i, v := range m.views {
		at, ok := v.Span(ref)
		if !ok || int32(i) == p.file {
			continue
		}
		other := place{int32(i), at}
		later, err := m.continued(other)
		if err != nil {
			return err
		}
		if !later {
			best = other
			break
		}
		if other.file < best.file {
			best = other
		}
	}
	if best != p {
		m.joined[p] = best
	}
	return nil
}

// parent returns where the entry at p is to hang.
func (m *merger) parent(p place) place {
	up, ok := m.elsewhere[p]
	if !ok {
		up = place{p.file, m.views[p.file].File().Parent(p.id)}
	}
	if first, ok := m.joined[up]; ok {
		return first
	}
	return up
}

func (m *merger) done(p place) bool { return p.id == 0 || m.ids[p.file][p.id] != 0 }

// write writes the entry at p, and before it those above it that are not there.
func (m *merger) write(p place) error {
	if m.done(p) {
		return nil
	}
	m.stack = append(m.stack[:0], p)
	clear(m.waits)
	for len(m.stack) > 0 {
		top := m.stack[len(m.stack)-1]
		up := m.parent(top)
		if m.done(up) {
			if err := m.put(top, up); err != nil {
				return err
			}
			m.stack = m.stack[:len(m.stack)-1]
			continue
		}
		if m.waits == nil {
			m.waits = make(map[place]int)
		}
		m.waits[top] = len(m.stack) - 1
		if at, ring := m.waits[up]; ring {
			m.breakCycle(at)
			continue
		}
		m.stack = append(m.stack, up)
	}
	return nil
}

// breakCycle breaks a cycle of parents, which are the entries from index at on in the
// stack. Only damaged or hostile traces have one. The first of them whose parent is in
// another trace loses that parent, be it by the halves of a span, and becomes the top of the
// stack.
func (m *merger) breakCycle(at int) {
	for i := at; i < len(m.stack); i++ {
		p := m.stack[i]
		up := place{p.file, m.views[p.file].File().Parent(p.id)}
		if _, ok := m.elsewhere[p]; ok {
			delete(m.elsewhere, p)
		} else if _, ok := m.joined[up]; ok {
			delete(m.joined, up)
		} else {
			continue
		}
		for _, p := range m.stack[i:] {
			delete(m.waits, p)
		}
		m.stack = m.stack[:i+1]
		return
	}
}

// put writes the entry at p below up, which is there.
func (m *merger) put(p, up place) (err error) {
	v := m.views[p.file]
	f := v.File()
	parent := m.ids[up.file][up.id]
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: entry %d: %w", f.Name(), p.id, err)
		}
	}()
	resource := v.Role(p.id) == format.RoleResource
	_, moved := m.elsewhere[p]
	var id uint32
	if !resource && !moved && f.Version() == m.w.Version() {
		if m.raw, err = f.AppendRaw(m.raw[:0], p.id); err != nil {
			return err
		}
		m.buf = wire.AppendMoved(m.buf[:0], m.raw, parent)
		if id, err = m.w.WriteRaw(m.buf, parent); err != nil {
			return err
		}
		m.ids[p.file][p.id] = id
		return nil
	}
	e, err := f.Entry(p.id)
	if err != nil {
		return err
	}
	e.Parent = parent
	if moved { // its place says now whose child it is
		e.Attributes = slices.DeleteFunc(e.Attributes, func(a format.Attribute) bool {
			return a.Name == format.AttrTraceID || a.Name == format.AttrParentSpanID || a.Name == format.AttrSpanID && v.Role(p.id) == format.RoleLog
		})
	}
	if !resource {
		id, err = m.w.Write(e)
	} else {
		id, err = m.resources.Write(m.w, e)
	}
	if err != nil {
		return err
	}
	m.ids[p.file][p.id] = id
	return nil
}

// MergeFile is Merge into the trace file out, which appears under its name when it
// is complete, as that of [File]. The default version is that of the first view.
func MergeFile(ctx context.Context, views []*format.View, out string, o Options) error {
	for _, v := range views {
		fi, err := os.Stat(v.File().Name())
		if err != nil {
			return err
		}
		if err := checkOutput(fi, out, o.Replace); err != nil {
			return err
		}
	}
	tmp, err := osfile.CreateTemp(out)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	if err := MergeStream(ctx, views, tmp, o); err != nil {
		return err
	}
	return commit(tmp, out, o.Replace)
}

// MergeStream is Merge into a trace that is written to w. The default version is
// that of the first view.
func MergeStream(ctx context.Context, views []*format.View, w io.Writer, o Options) error {
	if o.Version == 0 && len(views) > 0 {
		o.Version = views[0].File().Version()
	}
	t, err := format.NewWriter(w, o.Version, o.Format, nil)
	if err != nil {
		return err
	}
	defer func() { _ = t.Abort() }() // if a callback panics
	if err := Merge(ctx, t, views); err != nil {
		return errors.Join(err, t.Abort())
	}
	return t.Close()
}
