//go:build unix

package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
)

// TestFollowerOfSuspendedRecorderWaits follows the file of a suspended recorder, for so long that the
// follower checks whether the writer has died.
func TestFollowerOfSuspendedRecorderWaits(t *testing.T) {
	rec := tracetest.CreateAt(t, hosttest.Path(t, "app.et"), nil)
	must(t, inside.Of(rec).Suspend(t.Context()))
	f, err := format.Follow(rec.StreamPath(), &format.FollowOptions{Poll: time.Millisecond})
	must(t, err)
	defer f.Close()
	_, _, err = f.Next(t.Context())
	must(t, err) // the root
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, e, err := f.Next(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", e, err)
	}
	must(t, logNamed(rec, "after"))
	if _, e, err := f.Next(t.Context()); err != nil || e.Metadata.Name != "after" {
		t.Errorf("got %v, %v", e, err)
	}
	tracetest.Close(t, rec)
}

// TestRecordWhileRecorderIsSuspended lets several goroutines record while another one calls Suspend again
// and again.
func TestRecordWhileRecorderIsSuspended(t *testing.T) {
	const goroutines, records = 4, 500
	path := hosttest.Path(t, "app.et")
	rec := tracetest.CreateAt(t, path, nil)
	var recording, suspending sync.WaitGroup
	over := make(chan struct{})
	suspending.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				expect.OK(t, inside.Of(rec).Suspend(t.Context()))
			}
		}
	})
	for g := range goroutines {
		recording.Go(func() {
			for i := range records {
				expect.OK(t, logNamed(rec, fmt.Sprint(g, " ", i)))
			}
		})
	}
	recording.Wait()
	close(over)
	suspending.Wait()
	tracetest.Close(t, rec)
	expect.Equal(t, tracetest.Open(t, path).Len(), goroutines*records+2, "entries of the file")
}
