package view_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// A growingTrace is a file that a test writes step by step.
type growingTrace struct {
	t       *testing.T
	out     *os.File
	w       *format.Writer
	entries []*format.TraceEntry
	file    *format.File
}

func grow(t *testing.T, v format.Version, sf format.StorageFormat) *growingTrace {
	t.Helper()
	out, err := os.Create(hosttest.Path(t, "grows."+sf.String()))
	must(t, err)
	t.Cleanup(func() { _ = out.Close() })
	w, err := format.NewWriter(out, v, sf, nil)
	must(t, err)
	must(t, w.Flush())
	f := tracetest.OpenFile(t, out.Name())
	return &growingTrace{t: t, out: out, w: w, file: f}
}

func (g *growingTrace) add(entries ...*format.TraceEntry) {
	g.t.Helper()
	for _, e := range entries {
		_, err := g.w.Write(e)
		must(g.t, err)
	}
	must(g.t, g.w.Flush())
	g.entries = append(g.entries, entries...)
}

// modelOf returns the model of the given files with the given entries.
func modelOf(files [][]*format.TraceEntry) *model {
	m := emptyModel()
	for k, entries := range files {
		for id, e := range entries {
			m.add(k, uint32(id), e)
		}
	}
	m.hang(m.join(len(files)))
	if len(m.rows) > 0 {
		m.sort(0, 0)
	}
	return m
}

// uniqueSpans gives every span a unique id, and a parent that is not below it, so that the result does not depend
// on the order of the entries.
func uniqueSpans(r *rand.Rand, entries []*format.TraceEntry) {
	for i, e := range entries {
		_, timed := e.Attribute(format.AttrTime)
		for k := range e.Attributes {
			switch a := &e.Attributes[k]; {
			case a.Name == format.AttrSpanID && timed && !e.Message.Valid:
				a.Value = hexID(i+1, 8)
			case a.Name == format.AttrSpanID && timed:
				a.Value = hexID(1+r.IntN(len(entries)), 8)
			case a.Name == format.AttrParentSpanID:
				a.Value = hexID(1+r.IntN(i+1), 8)
			case a.Name == format.AttrTraceID:
				a.Value = hexID(7, 16)
			}
		}
		if timed {
			e.Parent = 0
		}
	}
}

// TestExtend checks that an extended view equals a new view of the same entries, and that earlier
// views do not change.
func TestExtend(t *testing.T) {
	for seed := range hosttest.Times(40, 1000) {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		g := grow(t, format.Version(1+seed%2), []format.StorageFormat{format.IET, format.IETPrefix}[seed/2%2])
		entries := randomEntries(r, 20+r.IntN(100), 0)
		uniqueSpans(r, entries)
		g.add(entries[0])
		v := viewOf(t, g.file)
		type step struct {
			v *view.View
			n int
		}
		steps := []step{}
		for len(g.entries) < len(entries) {
			g.add(entries[len(g.entries):min(len(entries), len(g.entries)+1+r.IntN(20))]...)
			next, err := v.Extend(t.Context())
			must(t, err)
			v = next
			steps = append(steps, step{v, len(g.entries)})
		}
		if same, err := v.Extend(t.Context()); err != nil || same != v {
			t.Errorf("seed %d: another view when nothing was added, %v", seed, err)
		}
		for _, s := range steps {
			modelOf([][]*format.TraceEntry{g.entries[:s.n]}).compare(t, s.v)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestExtendSeveral is like TestExtend, with three files that grow in turns. At first, some files have only the
// root. Later, most added entries are ends.
func TestExtendSeveral(t *testing.T) {
	for seed := range hosttest.Times(40, 1000) {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		var files []*format.File
		var growing []*growingTrace
		var all [][]*format.TraceEntry
		m := emptyModel()
		for k := range 3 {
			g := grow(t, format.Version(1+seed%2), format.IET)
			entries := randomEntries(r, 20+r.IntN(60), 0)
			uniqueSpans(r, entries)
			for _, e := range entries[1:] {
				for i, a := range e.Attributes {
					if id := a.Value.Text(); (a.Name == format.AttrSpanID || a.Name == format.AttrParentSpanID) && len(id) == 16 {
						e.Attributes[i].Value = format.StringValue(strconv.Itoa(k+1) + id[1:])
					}
				}
			}
			files, growing, all = append(files, g.file), append(growing, g), append(all, entries)
		}
		add := func(k, n int) {
			g := growing[k]
			for _, e := range all[k][len(g.entries):min(len(all[k]), len(g.entries)+n)] {
				m.add(k, uint32(len(g.entries)), e)
				g.add(e)
			}
		}
		v := viewOf(t, files...)
		for step, left := 0, true; left; step++ {
			left = false
			for k, g := range growing {
				add(k, max(1-step, r.IntN(4)))
				left = left || len(g.entries) < len(all[k])
			}
			next, err := v.Extend(t.Context())
			must(t, err)
			v = next
		}
		m.hang(m.join(len(files)))
		m.sort(0, 0)
		m.compare(t, v)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestExtendHalves checks that a span that continues in other files is one row, whatever the order of its parts.
func TestExtendHalves(t *testing.T) {
	half := func(continued bool) *format.TraceEntry {
		e := spanEntry(0, 5)
		if continued {
			e.Add(mapping.AttrContinued, format.BoolValue(true))
		}
		return e
	}
	end := func(parent uint32, took uint64) *format.TraceEntry {
		return tracetest.Below(parent, tracetest.Entry(format.NameSpanEnd, format.AttrSpanID, hexID(5, 8), format.AttrDuration, took))
	}
	a, b, c := grow(t, format.V1, format.IET), grow(t, format.V1, format.IET), grow(t, format.V1, format.IET)
	a.add(format.Root(), half(true))
	b.add(format.Root(), half(true))
	c.add(format.Root())
	v := viewOf(t, a.file, b.file, c.file)
	for _, step := range []func(){
		func() { b.add(end(1, 77), end(2, 78), spanEntry(3, 20), spanEntry(4, 21)) }, // an end below an end
		func() { c.add(half(false)) }, // the first half is added last
		func() { b.add(spanEntry(1, 22)) },
		func() { c.add(end(1, 99)) }, // the end of the later half still counts
	} {
		step()
		next, err := v.Extend(t.Context())
		must(t, err)
		v = next
		seen, folded := 0, 0
		must(t, v.Walk(0, func(r view.Row, _ int, _ bool) error {
			if v.Role(r) == view.RoleFolded || v.Role(v.Parent(r)) == view.RoleFolded {
				t.Errorf("row %d is in the tree, below %d", r, v.Parent(r))
			}
			_ = v.Children(r)
			seen++
			return nil
		}))
		for r := range v.Rows() {
			if v.Role(r) == view.RoleFolded {
				folded++
			}
		}
		expect.Equal(t, seen+folded, v.Len(), "rows in the tree and folded")
	}
	span, _ := v.Row(2, 1)
	for file := range 2 {
		if r, _ := v.Row(file, 1); r == span {
			t.Errorf("the half in file %d is no row", file)
		} else if first, half := columns.Of(v).First(uint32(r)); !half || view.Row(first) != span {
			t.Errorf("row %d is a half of %d", r, first)
		}
	}
	if took, _ := v.Duration(span); took != 77 {
		t.Errorf("it took %d", took)
	}
	if n := len(v.Children(span)); n != 2 { // the other end and the late entry
		t.Errorf("%d are below it", n)
	}
}

// TestExtendWhileReading extends a view of two files while other goroutines read it. The entries are hard cases.
func TestExtendWhileReading(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	a, b := grow(t, format.V1, format.IET), grow(t, format.V2, format.IET)
	all := [2][]*format.TraceEntry{randomEntries(r, 3000, 0), randomEntries(r, 3000, 1)}
	a.add(all[0][0])
	b.add(all[1][0])
	v := viewOf(t, a.file, b.file)
	var readers sync.WaitGroup
	read := func(v *view.View) {
		defer readers.Done()
		n := 0
		err := v.Walk(0, func(r view.Row, _ int, _ bool) error {
			n++
			_, err := v.Entry(r)
			return err
		})
		folded := 0
		for r := range v.Rows() {
			file, id := v.ID(r)
			if v.Role(r) == view.RoleFolded {
				folded++
			} else if got, ok := v.Row(file, id); !ok || got != r {
				t.Errorf("row %d is not found", r)
			}
		}
		if err != nil || n != v.Len()-folded {
			t.Errorf("%d of %d rows are in the tree, %v", n, v.Len()-folded, err)
		}
	}
	for len(a.entries) < 3000 || len(b.entries) < 3000 {
		readers.Add(1)
		go read(v)
		for k, g := range []*growingTrace{a, b} {
			n := len(g.entries)
			g.add(all[k][n:min(3000, n+r.IntN(200))]...)
		}
		next, err := v.Extend(t.Context())
		must(t, err)
		v = next
	}
	readers.Wait()
	expect.Equal(t, v.Entries(0)+v.Entries(1), 6000, "entries of 6000")
}

// TestExtendPartOfAnEntry checks that an incomplete entry at the end of a file is read once it is
// complete, and that zeros at the end are not read.
func TestExtendPartOfAnEntry(t *testing.T) {
	g := grow(t, format.V1, format.IET)
	g.add(format.Root(), logEntry(0))
	v := viewOf(t, g.file)
	raw := format.AppendTraceEntry(nil, format.V1, logEntry(1))
	for i := range raw {
		_, err := g.out.Write(raw[i : i+1])
		must(t, err)
		next, err := v.Extend(t.Context())
		must(t, err)
		expect.MustEqual(t, next.Len(), 2+(i+1)/len(raw), "rows with %d of %d bytes", i+1, len(raw))
		if damage := next.Damage(0); (damage != nil) != (i+1 < len(raw)) && damage != nil {
			t.Errorf("damage %v with %d bytes", damage, i+1)
		}
		v = next
	}
	_, err := g.out.Write(make([]byte, 30))
	must(t, err)
	next, err := v.Extend(t.Context())
	must(t, err)
	expect.Equal(t, next.Len(), 3, "rows before zeros")
	_, err = g.out.Write([]byte{0, 0, 0, 0, 255, 255, 255})
	must(t, err)
	next, err = v.Extend(t.Context())
	if err != nil || next.Damage(0) == nil || errors.Is(next.Damage(0), format.ErrTruncated) {
		t.Errorf("of damage: %v, %v", err, next.Damage(0))
	}
	must(t, g.out.Truncate(20))
	expect.Is(t, expect.Err(v.Extend(t.Context())), format.ErrShrunk, "of a file that was cut")
}

// TestCanceled checks that building a view stops when its context ends.
func TestCanceled(t *testing.T) {
	f := fabricate(t, format.ET, 100_000, func(id int) *format.TraceEntry { return spanEntry(id-1, id) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := view.New(ctx, []*format.File{f}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", v, err)
	}
	if got := fmt.Sprint(view.Role(77), view.RoleLog); got != "unknown log" {
		t.Error(got)
	}
}
