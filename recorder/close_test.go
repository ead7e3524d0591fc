package recorder_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// TestCloseInCleanup closes a recorder in a cleanup of the garbage collector, after its owner became
// unreachable. At this time a span waits for its parent and the timer is set.
func TestCloseInCleanup(t *testing.T) {
	type owner struct{ rec *recorder.Recorder }
	path := hosttest.Path(t, "app.et")
	closed := make(chan error, 1)
	func() {
		rec := tracetest.CreateAt(t, path, nil)
		o := &owner{rec}
		runtime.AddCleanup(o, func(rec *recorder.Recorder) { closed <- rec.Close(context.Background()) }, rec)
		must(t, tracetest.WriteSpan(o.rec, span("waits", 2, 1)))
		must(t, o.rec.Log(format.SpanRef{}, logRecord(1)))
	}()
	for begin := time.Now(); ; {
		runtime.GC()
		select {
		case err := <-closed:
			must(t, err)
			expect.Equal(t, tracetest.Outline(t, tracetest.Open(t, path)), "root(event waits entrace.end)", "the tree")
			return
		case <-time.After(10 * time.Millisecond):
			if time.Since(begin) > time.Minute {
				t.Fatal("it was not closed")
			}
		}
	}
}

// TestCloseOnError calls Close in OnError. Close must not wait until this call of OnError has returned.
func TestCloseOnError(t *testing.T) {
	for _, d := range []recorder.Durability{recorder.DurabilityProcess, recorder.DurabilityWriteThrough} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			var rec *recorder.Recorder
			done := make(chan struct{})
			rec = tracetest.CreateAt(t, hosttest.Path(t, "app.iet"), &recorder.Options{
				Durability: d, MaxFileEntries: 20, OnError: func(error) {
					_ = rec.Close(context.Background())
					close(done)
				},
			})
			dir := filepath.Dir(rec.Path())
			must(t, renameAway(dir)) // no new file can be made
			defer func() {
				_ = os.RemoveAll(dir) // the writer may have made the folder again
				must(t, renameBack(dir))
			}()
			for i := range 2000 {
				if rec.Log(format.SpanRef{}, logRecord(i)) != nil {
					break
				}
			}
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Error("Close waits for itself")
			}
		})
	}
}
