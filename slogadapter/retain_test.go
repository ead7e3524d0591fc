package slogadapter_test

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// partOfBody returns text as a part of a body of 1 MB, as a parser that copies nothing does.
func partOfBody(text string) string {
	return (text + strings.Repeat("x", 1<<20))[:len(text)]
}

// heapMB returns how much of the heap is in use after a collection.
func heapMB() uint64 {
	for range 3 { // what is in a sync.Pool goes with the second
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc >> 20
}

// TestRecordingKeepsNoCallersMemory logs short parts of large bodies, and checks that the
// bodies can be collected.
func TestRecordingKeepsNoCallersMemory(t *testing.T) {
	const bodies = 150
	var pcs [1]uintptr
	runtime.Callers(1, pcs[:])
	ctx := context.Background()
	var kept []*slog.Logger // by the program
	for _, test := range []struct {
		name string
		log  func(h slog.Handler, i int)
	}{
		{"keys", func(h slog.Handler, _ int) {
			l := slog.New(h)
			l.Info("form", partOfBody("user"), "ada", partOfBody("a key of more than sixteen bytes"), "spoon")
		}},
		{"keys of groups", func(h slog.Handler, _ int) {
			slog.New(h).Info("form", slog.Group(partOfBody("form"), partOfBody("item"), "spoon"))
		}},
		{"messages", func(h slog.Handler, _ int) { slog.New(h).Info(partOfBody("form")) }},
		{"messages of call sites", func(h slog.Handler, i int) {
			r := slog.NewRecord(time.Now(), slog.LevelInfo, partOfBody("form"), pcs[0]+uintptr(i)) // each is a call site
			handle(t, h, r)
		}},
		{"With", func(h slog.Handler, _ int) {
			l := slog.New(h).With(partOfBody("user"), partOfBody("ada"))
			for range 100 { // the names get numbers after some
				l.InfoContext(ctx, "form")
			}
			kept = append(kept, l)
		}},
		{"WithGroup", func(h slog.Handler, _ int) {
			l := slog.New(h).WithGroup(partOfBody("form"))
			l.InfoContext(ctx, "form", "item", "spoon")
			kept = append(kept, l)
		}},
		{"WithGroup and ReplaceAttr", func(h slog.Handler, _ int) {
			l := slog.New(slogadapter.New(h.(recorded).rec, &slogadapter.Options{
				ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return a },
			})).WithGroup(partOfBody("form"))
			l.InfoContext(ctx, "form", "item", "spoon")
			kept = append(kept, l)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			flight, err := ring.New(&ring.Options{Bytes: 1 << 20})
			must(t, err)
			defer flight.Close()
			flight.SetBuffered(math.MaxUint64)
			for name, rec := range map[string]*recorder.Recorder{"file": newRecorder(t, nil), "flight recorder": flight.Recorder()} {
				h := recorded{slogadapter.New(rec, nil), rec}
				before := heapMB()
				for i := range bodies {
					test.log(h, i)
				}
				if got := heapMB(); got > before+50 {
					t.Errorf("%s: the heap has %d MB after %d bodies of 1 MB, and had %d", name, got, bodies, before)
				}
				runtime.KeepAlive(h)
				runtime.KeepAlive(kept)
				kept = nil
			}
		})
	}
}

// recorded is a handler with its recorder.
type recorded struct {
	slog.Handler

	rec *recorder.Recorder
}
