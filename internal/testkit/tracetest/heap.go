package tracetest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// Eventually waits until ok reports true.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// PartOfBody returns text as a part of a body of 1 MB, as a parser that copies nothing does.
func PartOfBody(text string) string {
	return (text + strings.Repeat("x", 1<<20))[:len(text)]
}

// HeapMB returns how much of the heap is in use after a collection.
func HeapMB() uint64 {
	for range 3 { // what is in a sync.Pool goes with the second
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc >> 20
}
