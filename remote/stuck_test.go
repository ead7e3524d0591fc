package remote_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

// TestRefusedEntry checks that an entry is dropped if the receiver refuses it several times, and that the entries
// after it are sent.
func TestRefusedEntry(t *testing.T) {
	r := receive(t, remote.Receiver{MaxEntrySize: 64 << 10}, "127.0.0.1:0")
	s := sender(t, r.addr, remote.SenderOptions{})
	rec := recorder.Stream(&recorder.Options{Tee: s, MaxBlock: time.Minute}) // a busy machine is slow with the large record
	put := func(message string) {
		must(t, rec.Log(format.SpanRef{}, tracetest.Log(message)))
	}
	put("small")
	put(strings.Repeat("x", 7<<20))
	for range 100 {
		put("small")
	}
	must(t, rec.Flush(context.Background()))
	tracetest.Eventually(t, "the records behind it are sent", func() bool { return s.Stats().Sent >= 100 })
	_ = rec.Close(t.Context()) // it returns an error because of the dropped entry
}

// TestCloseInOnError calls Close in OnError. Close must not wait for the Sender's goroutine longer than its context
// allows.
func TestCloseInOnError(t *testing.T) {
	returned := make(chan struct{})
	var s *remote.Sender
	s = sender(t, "tcp://"+closed(t), remote.SenderOptions{OnError: func(error) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = s.Close(ctx) // it cannot end in time
		close(returned)
	}})
	s.Take([]recorder.TeeEntry{{ID: 1, Raw: format.AppendTraceEntry(nil, format.V1, named(0, "a"))}})
	select {
	case <-returned:
	case <-time.After(time.Minute):
		t.Error("Close has not returned")
	}
}
