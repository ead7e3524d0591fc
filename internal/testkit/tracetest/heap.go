package tracetest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// Eventually waits until ok returns true. The parameter what describes the awaited condition in an error.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// PartOfBody returns a string equal to text that shares the memory of a body of 1 MB, like the result of a parser
// that does not copy.
func PartOfBody(text string) string {
	var b strings.Builder
	b.Grow(1 << 20)
	b.WriteString(text)
	return b.String()
}

// HeapMB returns the size of the live heap in megabytes after a garbage collection.
func HeapMB() uint64 {
	for range 3 { // objects in a sync.Pool survive the first collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc >> 20
}
