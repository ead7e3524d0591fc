//go:build unix

package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// TestSuspendedRecorderGoesOnInItsFile suspends a recorder several times. While it is suspended, the file
// has all records and stays locked, and there is no journal.
func TestSuspendedRecorderGoesOnInItsFile(t *testing.T) {
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "app.et")
			rec := tracetest.CreateAt(t, path, &recorder.Options{Durability: d, OnError: func(err error) { t.Error(err) }})
			resource := tracetest.Entry(format.NameResource)
			res, err := rec.Resource(resource)
			must(t, err)
			open := span("open", 1, 0)
			open.Open, open.Resource = true, res
			must(t, tracetest.WriteSpan(rec, open))
			for i := range 3 {
				if i == 2 {
					again, err := rec.Resource(resource)
					must(t, err)
					if *again != *res {
						t.Errorf("the resource is another one: %v, want %v", again, res)
					}
				}
				below := span(fmt.Sprint("below ", i), byte(10+i), 1)
				below.Wait = true
				early := span(fmt.Sprint("early ", i), byte(20+i), 99)
				early.Wait, early.Resource = true, res // the parent is never recorded
				must(t, tracetest.WriteSpan(rec, below))
				must(t, tracetest.WriteSpan(rec, early))
				must(t, inside.Of(rec).Suspend(t.Context()))
				expect.Slice(t, dirNames(t, filepath.Dir(path)), []string{"app.iet"}, "suspended %d times, the folder has", i+1)
				if lock, _ := osfile.LockHolder(rec.StreamPath()); lock != osfile.LockHeld {
					t.Errorf("suspended %d times, its lock is %v", i+1, lock)
				}
				if r, err := recorder.Inspect(path); err != nil || r.Entries != 3+2*(i+1) || !r.Live {
					t.Errorf("suspended %d times: %+v, %v", i+1, r, err)
				}
				st := rec.Stats()
				if n := uint64(3 + 2*(i+1)); st.Entries.Written != n || st.Entries.Offered != n {
					t.Errorf("suspended %d times, the account is %+v", i+1, st.Entries)
				}
				must(t, inside.Of(rec).Suspend(t.Context()))
			}
			must(t, tracetest.EndSpan(rec, open.Ref, nil, named(format.NameSpanEnd)))
			must(t, inside.Of(rec).Suspend(t.Context()))
			tracetest.Close(t, rec)
			want := "root(resource(open(below 0 below 1 below 2 span end) early 0 early 1 early 2) entrace.end)"
			expect.Equal(t, tracetest.Outline(t, tracetest.Open(t, path)), want, "tracetest.Outline")
		})
	}
}

// TestFollowerOfSuspendedRecorderWaits follows the file of a suspended recorder, for so long that the
// follower checks whether the writer has died.
func TestFollowerOfSuspendedRecorderWaits(t *testing.T) {
	rec := tracetest.CreateAt(t, filepath.Join(t.TempDir(), "app.et"), nil)
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
	path := filepath.Join(t.TempDir(), "app.et")
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

// TestChangedFileOfSuspendedRecorder changes the file of a suspended recorder. Later records go to a new
// file.
func TestChangedFileOfSuspendedRecorder(t *testing.T) {
	for name, change := range map[string]func(path string){
		"cut": func(path string) { must(t, os.Truncate(path, 40)) },
		"appended": func(path string) {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			_, err = f.WriteString("garbage")
			must(t, errors.Join(err, f.Close()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), nil)
			must(t, logNamed(rec, "before"))
			must(t, inside.Of(rec).Suspend(t.Context()))
			change(rec.StreamPath())
			must(t, logNamed(rec, "after"))
			must(t, rec.Flush(t.Context()))
			must(t, logNamed(rec, "later"))
			_ = rec.Close(t.Context()) // may return an error about lost records
			expect.Equal(t, tracetest.Outline(t, tracetest.Open(t, filepath.Join(dir, "app.et"))), "root(later entrace.end)", "tracetest.Outline")
			expect.Len(t, traces(t, dir), 2, "got files")
		})
	}
}
