//go:build !race

// The race detector changes the memory of a view.

package view_test

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// TestHeap checks that the memory per entry of a view and its tree is below a limit, and does not depend on the
// number of entries.
func TestHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for n := 1_000_000; n <= hosttest.Times(1_000_000, 4_000_000); n *= 4 {
		f, err := format.Open(manyEntries(t, n), nil)
		must(t, err)
		before := heap()
		v := tracetest.View(t, f)
		columns := heap() - before
		v.Tree()
		tree := heap() - before - columns
		if rows := v.Len(); columns > int64(rows)*44+int64(n)*2+16<<20 || tree > int64(rows)*13+1<<20 {
			t.Errorf("of %d entries, %d rows, columns take %d bytes and the tree %d", n, rows, columns, tree)
		}
		runtime.KeepAlive(v)
		must(t, f.Close())
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// manyEntries writes a file of spans with ends. Every third span has a log record. The ids of the spans are
// similar.
func manyEntries(t *testing.T, n int) string {
	t.Helper()
	name := hosttest.Path(t, "many.iet")
	file, err := os.Create(name)
	must(t, err)
	defer file.Close()
	b := bufio.NewWriterSize(file, 1<<20)
	w, err := format.NewWriter(b, format.V1, format.IET, nil)
	must(t, err)
	put := func(e *format.TraceEntry) uint32 {
		id, err := w.Write(e)
		must(t, err)
		return id
	}
	put(format.Root())
	str, u64 := format.StringValue, format.U64Value
	for i := uint64(0); ; i++ {
		id := str(fmt.Sprintf("%016x", i+1))
		span := put(tracetest.Entry(fmt.Sprint("span ", i%50), format.AttrSpanID, id, format.AttrTraceID, fmt.Sprintf("%032x", i/8+1), format.AttrTime, u64(i)))
		if i%3 == 0 {
			put(tracetest.Below(span, tracetest.Log(fmt.Sprint("message ", i), format.AttrTime, u64(i))))
		}
		if last := put(tracetest.Below(span, tracetest.Entry(format.NameSpanEnd, format.AttrSpanID, id, format.AttrDuration, u64(i%1000)))); int(last) >= n {
			break
		}
	}
	must(t, w.Close())
	must(t, b.Flush())
	return name
}

// TestHeapOfCopies checks that copies in a second file need memory only for their columns.
func TestHeapOfCopies(t *testing.T) {
	name := manyEntries(t, 200_000)
	sizeOf := func(files int) (size int64, copies int) {
		var all []*format.File
		for range files {
			f := tracetest.OpenFile(t, name)
			all = append(all, f)
		}
		before := heap()
		v, err := view.New(t.Context(), all, nil)
		must(t, err)
		size = heap() - before
		runtime.KeepAlive(v)
		return size, v.Copies()
	}
	one, _ := sizeOf(1)
	two, copies := sizeOf(2)
	if copies < 100_000 || 8*two > 15*one {
		t.Errorf("a file takes %d bytes, and two with %d rows in common %d", one, copies, two)
	}
}
