package slogadapter_test

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/tracetest"

	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// TestRecordingKeepsNoCallersMemory logs short parts of large bodies, and checks that the
// bodies can be collected.
func TestRecordingKeepsNoCallersMemory(t *testing.T) {
	const bodies = 150
	var pcs [1]uintptr
	runtime.Callers(1, pcs[:])
	ctx := context.Background()
	var kept []*slog.Logger // loggers that the program still uses
	for _, test := range []struct {
		name string
		log  func(h slog.Handler, i int)
	}{
		{"keys", func(h slog.Handler, _ int) {
			l := slog.New(h)
			l.Info("form", tracetest.PartOfBody("user"), "ada", tracetest.PartOfBody("a key of more than sixteen bytes"), "spoon")
		}},
		{"keys of groups", func(h slog.Handler, _ int) {
			slog.New(h).Info("form", slog.Group(tracetest.PartOfBody("form"), tracetest.PartOfBody("item"), "spoon"))
		}},
		{"messages", func(h slog.Handler, _ int) { slog.New(h).Info(tracetest.PartOfBody("form")) }},
		{"messages of call sites", func(h slog.Handler, i int) {
			// Each program counter is a call site of its own.
			r := slog.NewRecord(time.Now(), slog.LevelInfo, tracetest.PartOfBody("form"), pcs[0]+uintptr(i))
			must(t, h.Handle(ctx, r))
		}},
		{"With", func(h slog.Handler, _ int) {
			l := slog.New(h).With(tracetest.PartOfBody("user"), tracetest.PartOfBody("ada"))
			for range 100 { // after some records, names are stored as numbers
				l.InfoContext(ctx, "form")
			}
			kept = append(kept, l)
		}},
		{"WithGroup", func(h slog.Handler, _ int) {
			l := slog.New(h).WithGroup(tracetest.PartOfBody("form"))
			l.InfoContext(ctx, "form", "item", "spoon")
			kept = append(kept, l)
		}},
		{"WithGroup and ReplaceAttr", func(h slog.Handler, _ int) {
			l := slog.New(slogadapter.New(h.(recorded).rec, &slogadapter.Options{
				ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return a },
			})).WithGroup(tracetest.PartOfBody("form"))
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
				before := tracetest.HeapMB()
				for i := range bodies {
					test.log(h, i)
				}
				if got := tracetest.HeapMB(); got > before+50 {
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
