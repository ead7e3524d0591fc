package receive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/recorder"
)

// numbered returns a request with n spans of about 300 bytes each. Their names have the numbers from first on.
func numbered(service string, first, n int) []byte {
	var records [][]byte
	filler := strings.Repeat("some text of the span ", 10)
	for i := range n {
		records = append(records, span(first+i+1, 0, fmt.Sprint("n", first+i), 9, text("filler", filler)))
	}
	return request(service, records...)
}

// countNumbers returns how often each name occurs in the traces of a folder.
func countNumbers(t *testing.T, dir string) map[string]int {
	t.Helper()
	found := make(map[string]int)
	for _, entries := range readAll(t, dir) {
		for _, name := range names(entries) {
			found[name]++
		}
	}
	return found
}

// overload passes requests to f from several senders at once, as long as goOn returns true. It returns the names of
// the accepted spans, and the number of refused requests.
func overload(t *testing.T, f *receive.Files, senders, spans int, goOn func() bool) (taken map[string]bool, again int64) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	var next, refused atomic.Int64
	taken = make(map[string]bool)
	for range senders {
		all.Go(func() {
			for goOn() {
				first := int(next.Add(int64(spans))) - spans
				done, err := f.Take(t.Context(), codec.Spans, codec.Protobuf, numbered("shop", first, spans))
				if errors.Is(err, receive.ErrFull) {
					refused.Add(1) // no span of it may be recorded
					continue
				}
				if err != nil || done.Taken != spans {
					t.Errorf("%d of %d spans are taken: %v, %v", done.Taken, spans, err, done.Why)
				}
				mu.Lock()
				for i := range spans {
					taken[fmt.Sprint("n", first+i)] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return taken, refused.Load()
}

// TestOverloadTakesRequestsWhole sends much more than can be written. Each request must be recorded as a whole or
// not at all.
func TestOverloadTakesRequestsWhole(t *testing.T) {
	senders, long := hosttest.Times(8, 40), time.Duration(hosttest.Times(300, 1500))*time.Millisecond
	dir := t.TempDir()
	f := newFiles(t, receive.FolderOptions{Dir: dir})
	end := time.Now().Add(long)
	taken, again := overload(t, f, senders, 8192, func() bool { return time.Now().Before(end) })
	f.Close(context.Background())
	compareNumbers(t, dir, taken)
	t.Logf("%d spans were taken, %d requests are to come again", len(taken), again)
}

var isNumber = regexp.MustCompile(`^n\d+$`)

// compareNumbers checks that the folder has each accepted span once, and no other span.
func compareNumbers(t *testing.T, dir string, taken map[string]bool) {
	t.Helper()
	found := countNumbers(t, dir)
	wrong := 0
	for name := range taken {
		if n := found[name]; n != 1 {
			wrong++
		}
	}
	maps.DeleteFunc(found, func(name string, _ int) bool { return taken[name] || !isNumber.MatchString(name) })
	if wrong > 0 || len(found) > 0 {
		t.Errorf("%d of %d spans are not there once, and %d are there that were refused", wrong, len(taken), len(found))
	}
}

// TestPartsOfOneFileAreAdmittedTogether sends a request that is larger than the journal, with two resources for the
// same file.
func TestPartsOfOneFileAreAdmittedTogether(t *testing.T) {
	rec, err := recorder.Create(filepath.Join(t.TempDir(), "all.et"), nil)
	must(t, err)
	defer func() { must(t, rec.Close(context.Background())) }()
	f := receive.ToFile(rec)
	const n = 10_000
	both := append(numbered("shop", 0, n), numbered("stock", n, n)...)
	if done, err := f.Take(t.Context(), codec.Spans, codec.Protobuf, both); err != nil || done.Taken != 2*n {
		t.Errorf("of %d bytes %d spans are taken: %v, %v", len(both), done.Taken, err, done.Why)
	}
}
