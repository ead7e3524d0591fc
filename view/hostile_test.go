package view_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

func hexID[T int | int64](id T, size int) format.Value {
	return format.StringValue(fmt.Sprintf("%0*x", 2*size, id))
}

func spanEntry(parent, id int) *format.TraceEntry {
	return tracetest.Below(uint32(parent), tracetest.Entry("s", format.AttrSpanID, hexID(id, 8), format.AttrTime, uint64(id), format.AttrTraceID, hexID(1, 16)))
}

func logEntry(parent int) *format.TraceEntry {
	return tracetest.Below(uint32(parent), tracetest.Log("m"))
}

// fabricate returns a file with the root and n entries.
func fabricate(t testing.TB, sf format.StorageFormat, n int, entry func(id int) *format.TraceEntry) *format.File {
	t.Helper()
	x := tracetest.New(t, format.V1, sf, format.Root())
	for id := 1; id <= n; id++ {
		x.Add(entry(id))
	}
	return x.Open()
}

var viewOf = tracetest.View

// TestDeepAndWide checks that a view of a tree of any shape is built and walked without recursion.
// It limits the stack to a megabyte, so a recursion would crash the test.
func TestDeepAndWide(t *testing.T) {
	n := hosttest.Times(100_000, 1_000_000)
	shapes := []struct {
		name  string
		entry func(id int) *format.TraceEntry
		depth int
	}{
		{"deep spans", func(id int) *format.TraceEntry { return spanEntry(id-1, id) }, n},
		{"wide spans, latest first", func(id int) *format.TraceEntry {
			e := spanEntry(0, id)
			e.Attributes[1].Value = format.U64Value(uint64(n - id))
			return e
		}, 1},
		{"deep logs", func(id int) *format.TraceEntry { return logEntry(id - 1) }, n},
		{"a chain backwards", func(id int) *format.TraceEntry { // each span is the child of the next one, only by parent_span_id
			e := spanEntry(0, id)
			e.Add(format.AttrParentSpanID, hexID(id+1, 8))
			return e
		}, n},
	}
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	for i, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			f := fabricate(t, []format.StorageFormat{format.IET, format.ET}[i%2], n, shape.entry)
			done := make(chan struct{})
			go func() { // on a new stack
				defer close(done)
				v, err := view.New(t.Context(), []*format.File{f}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				count, deepest, last := 0, 0, view.Row(0)
				err = v.Walk(0, func(r view.Row, depth int, _ bool) error {
					count, deepest, last = count+1, max(deepest, depth), r
					return nil
				})
				if err != nil || count != n+1 || deepest != shape.depth || v.MaxDepth() != shape.depth {
					t.Errorf("Walk comes by %d rows and is %d deep, MaxDepth is %d, want %d and %d (%v)", count, deepest, v.MaxDepth(), n+1, shape.depth, err)
				}
				expect.OK(t, expect.Err(v.Entry(last)))
			}()
			<-done
		})
	}
}

// wantLinear fails the test if work on an input of four times the size takes at least eleven times as long in
// every attempt. Quadratic work takes sixteen times as long. Linear work may take more than four times as long,
// because an input that exceeds the cache takes up to twice the time. Work that takes almost no time is not
// measured.
func wantLinear(t *testing.T, what string, n int, prepare func(n int) (work func())) {
	t.Helper()
	const tooShort, limit = 40 * time.Millisecond, 11
	once, again := prepare(n), prepare(4*n)
	stopwatch := func(f func()) time.Duration {
		start := time.Now()
		f()
		return time.Since(start)
	}
	var ratios []string
	for range 4 {
		small, large := stopwatch(once), stopwatch(again)
		ratio := float64(large) / float64(small)
		if large < tooShort || ratio < limit {
			return
		}
		ratios = append(ratios, fmt.Sprintf("%v for %d, %v for %d: %.1f", small, n, large, 4*n, ratio))
	}
	t.Errorf("%s is quadratic: %s", what, strings.Join(ratios, "; "))
}

// TestNothingIsQuadratic uses inputs for which naive algorithms take quadratic time.
func TestNothingIsQuadratic(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	build := func(entry func(n, id int) *format.TraceEntry) func(n int) func() {
		return func(n int) func() {
			f := fabricate(t, format.IET, 3*n, func(id int) *format.TraceEntry { return entry(n, id) })
			return func() { viewOf(t, f) }
		}
	}
	// The spans y_1 … y_n are every second entry of a chain. Each of these spans names the end of another chain as
	// its parent, and the other chain is below y_n. The result is n cycles, each of which contains the other chain.
	wantLinear(t, "a view of cycles", 5000, build(func(n, id int) *format.TraceEntry {
		e := spanEntry(id-1, id)
		if id < 2*n && id%2 == 1 {
			e.Add(format.AttrParentSpanID, hexID(3*n, 8))
		}
		return e
	}))
	wantLinear(t, "a view of spans that have the same id and want it", 8000, build(func(int, int) *format.TraceEntry {
		e := spanEntry(0, 7)
		e.Add(format.AttrParentSpanID, hexID(7, 8))
		return e
	}))
	wantLinear(t, "a view of spans whose ids end alike", 8000, build(func(_, id int) *format.TraceEntry {
		e := spanEntry(0, 1)
		e.Attributes[0].Value = hexID(int64(id)<<32|1, 8)
		e.Add(format.AttrParentSpanID, hexID(int64(id+1)<<32|1, 8))
		return e
	}))
	wantLinear(t, "Entry of a chain of logs", 6000, func(n int) func() {
		v := viewOf(t, fabricate(t, format.IET, n, func(id int) *format.TraceEntry { return logEntry(id - 1) }))
		return func() {
			for r := range v.Rows() {
				_, err := v.Entry(r)
				must(t, err)
			}
		}
	})
	wantLinear(t, "Entry of a span with many attributes", 5000, func(n int) func() {
		v := viewOf(t, fabricate(t, format.IET, 2, func(id int) *format.TraceEntry {
			e := spanEntry(id-1, 1)
			if id == 2 {
				e.Metadata.Name = format.NameSpanEnd
				e.Attributes = e.Attributes[:1]
			}
			for i := range n {
				e.Add(fmt.Sprintf("%d.%06d", id, i), format.BoolValue(true))
			}
			return e
		}))
		return func() {
			if e, err := v.Entry(1); err != nil || len(e.Attributes) != 2*n+3 {
				t.Error(err, len(e.Attributes))
			}
		}
	})
}

// TestEmptyView checks that the view of a trace without entries has no rows.
func TestEmptyView(t *testing.T) {
	for _, b := range []string{"\x00ENTRACE\x01\x01", "\x00ENTRACE\x01\x00\x00\x00"} {
		name := hosttest.Path(t, "x")
		must(t, os.WriteFile(name, []byte(b), 0o600))
		f := tracetest.OpenFile(t, name)
		v := viewOf(t, f)
		err := v.Walk(0, func(view.Row, int, bool) error { return nil })
		if err != nil || v.Len() != 0 || v.MaxDepth() != 0 || len(v.Children(0)) != 0 || v.Tree().Len() != 0 {
			t.Errorf("an empty trace has %d rows, %v", v.Len(), err)
		}
	}
}

// TestDamage damages or truncates a file at random offsets. The view must equal the view of a file
// that has only the entries before the damage, and must report the damage.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for seed := range 300 {
		sf := format.StorageFormat(seed % 3)
		f := write(t, format.Version(1+seed/3%2), sf, randomEntries(r, 40, 0))
		b := tracetest.ReadFile(t, f.Name())
		name := hosttest.Path(t, "damaged")
		if seed%2 == 0 {
			b = b[:wire.MagicSize+r.IntN(len(b)-wire.MagicSize)]
		} else {
			for range 1 + r.IntN(3) {
				b[wire.MagicSize+r.IntN(len(b)-wire.MagicSize)] ^= 1 << r.IntN(8)
			}
		}
		must(t, os.WriteFile(name, b, 0o600))
		d, err := format.Open(name, &format.OpenOptions{Lenient: true})
		if err != nil {
			continue // there is no undamaged entry
		}
		v := viewOf(t, d)
		n := v.Entries(0)
		if damage := v.Damage(0); n < d.Len() && damage == nil {
			t.Errorf("seed %d: %d of %d entries, and no damage", seed, n, d.Len())
		}
		var whole []*format.TraceEntry
		for id := range uint32(n) {
			e, err := d.Entry(id)
			must(t, err)
			whole = append(whole, e)
		}
		if n < d.Len() {
			if _, err := d.Entry(uint32(n)); err == nil {
				t.Errorf("seed %d: entry %d is not in the view, and whole", seed, n)
			}
		}
		m := emptyModel()
		for id, e := range whole {
			m.add(0, uint32(id), e)
		}
		m.hang(m.join(1))
		if n > 0 {
			m.sort(0, 0)
		}
		m.compare(t, v)
		for row := range v.Rows() {
			_, err := v.Entry(row)
			must(t, err)
		}
		must(t, d.Close())
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestCloseWhileReading closes the file while its view is used.
func TestCloseWhileReading(t *testing.T) {
	f := write(t, format.V1, format.ET, randomEntries(rand.New(rand.NewPCG(1, 1)), 2000, 0))
	v := viewOf(t, f)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for r := view.Row(i); ; r = (r + 1) % view.Row(v.Len()) {
				if _, err := v.Entry(r); errors.Is(err, format.ErrClosed) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	time.Sleep(time.Millisecond)
	must(t, f.Close())
	wg.Wait()
	expect.Is(t, expect.Err(view.New(t.Context(), []*format.File{f}, nil)), format.ErrClosed, "a view of a closed file")
}

// TestPanicOfPass checks that a panic in a pass over the columns reaches the caller, who can recover it. This must
// hold on whichever goroutine the panic happens.
func TestPanicOfPass(t *testing.T) {
	v := viewOf(t, fabricate(t, format.ET, 200_000, func(int) *format.TraceEntry { return logEntry(0) }))
	for bad := range columns.Of(v).Blocks() {
		got := func() (p any) {
			defer func() { p = recover() }()
			_ = columns.Of(v).Each(t.Context(), func() func(k int) {
				return func(k int) {
					if k == bad {
						panic(fmt.Sprint("block ", k))
					}
				}
			})
			return nil
		}()
		expect.MustEqual(t, got, any(fmt.Sprint("block ", bad)), "the panic of the caller")
	}
}
