package viewer_test

import (
	"fmt"
	"net/url"
	"runtime"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/viewer"
)

// TestRestFreesWhatQueriesMade compares the heap before queries with the heap after the handler has dropped their
// results.
func TestRestFreesWhatQueriesMade(t *testing.T) {
	const rows = 100_000
	all := []*format.TraceEntry{format.Root()}
	for n := range uint64(rows) {
		all = append(all, tracetest.Entry("work", "n", n, "user", fmt.Sprint("user ", n)))
	}
	released := 0
	v := viewOf(t, format.ET, all)
	h := serve(t, v, viewer.Options{Released: func() { released++ }})
	ask(h, "GET", "/api/rows?depth=9")
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	h.Rest()
	before := heap()
	for _, q := range []string{".n = 3", `.user = "user 7"`, ".n > 5", "work"} {
		jsonOf[struct{ Count int }](t, h, "/api/find?q="+url.QueryEscape(q))
		rowsOf(t, h, "depth=9&only="+url.QueryEscape(q))
	}
	const most = 500_000 // in bytes; a column of attributes of these rows takes more
	if made := heap() - before; made < most {
		t.Fatalf("queries have made %d bytes, the test needs %d", made, most)
	}
	h.Rest()
	if left := heap() - before; left > most {
		t.Errorf("%d bytes are left of what queries made, want at most %d", left, most)
	}
	expect.Equal(t, released, 2, "times that Released was called")
	if f := jsonOf[struct{ Count int }](t, h, "/api/find?q="+url.QueryEscape(".n = 3")); f.Count != 1 {
		t.Errorf("after that there are %d hits, want 1", f.Count)
	}
	runtime.KeepAlive(v)
}
