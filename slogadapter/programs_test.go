package slogadapter_test

import (
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// TestPrograms runs the programs, and compares their entries with programs.txt.
func TestPrograms(t *testing.T) {
	tracetest.Golden(t, "testdata/programs.txt", *update, func(name string) (said string) {
		t.Run(name, func(t *testing.T) {
			rec := newRecorder(t, inOrder)
			programs[name](t, slogadapter.New(rec, nil))
			said = written(t, rec)
		})
		return said
	})
}

// programs log in ways that a case cannot.
var programs = map[string]func(t *testing.T, h *slogadapter.Handler){
	// Copies of a record share the attributes after the fifth. Handle does not change them.
	"a record and its copy": func(t *testing.T, h *slogadapter.Handler) {
		h2 := h.WithAttrs([]slog.Attr{slog.Int("w", 0)})
		r := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
		for i := range 7 {
			r.AddAttrs(slog.Int(string(rune('a'+i)), i))
		}
		clone := r.Clone()
		clone.AddAttrs(slog.Int("x", 1))
		for _, r := range []slog.Record{r, clone, r} {
			must(t, h2.Handle(t.Context(), r))
		}
	},
	// Methods of values that the handler calls may log through the same handler.
	"a value that logs": func(_ *testing.T, h *slogadapter.Handler) {
		l := slog.New(h)
		v := valuer(func() slog.Value {
			l.Info("inner", "a", 1, "b", slog.AnyValue(nil))
			return slog.StringValue("v")
		})
		l.With("w", v).WithGroup("g").Info("outer", "a", 0, "v", v, "z", 2)
	},
	// If the handler is slog's default, it also records messages of package log.
	"slog's default": func(_ *testing.T, h *slogadapter.Handler) {
		old, flags, out := slog.Default(), log.Flags(), log.Writer()
		defer func() {
			slog.SetDefault(old)
			log.SetFlags(flags)
			log.SetOutput(out)
		}()
		slog.SetDefault(slog.New(h))
		log.Print("printed")
		slog.Info("logged")
		slog.New(h).Info("v", "v", valuer(func() slog.Value { log.Print("within"); return slog.Value{} }))
		log.SetFlags(log.Lshortfile) // SetDefault reads these flags
		slog.SetDefault(slog.New(h))
		log.Print("with its place")
	},
	"two handlers": func(_ *testing.T, h *slogadapter.Handler) {
		l := slog.New(slog.NewMultiHandler(h, h.WithGroup("second"))).With("b", 1, "a", valuer(func() slog.Value { return slog.IntValue(2) })).WithGroup("g")
		l.Warn("m", "x", 1, "y", 2, "z", 3, "u", 4, "v", 5, "w", 6)
	},
	// After some records, the recorder stores numbers instead of the names of With. Readers see the same attributes.
	"With is used often": func(_ *testing.T, h *slogadapter.Handler) {
		l := slog.New(h).With("service", "shop", "trace_id", 7, "service", 8).WithGroup("request").With("id", 1, slog.Group("user", "name", "ada"))
		for range 100 {
			l.Info("m", "k", "v")
		}
	},
	"values": func(t *testing.T, h *slogadapter.Handler) {
		plain, with := newRecorder(t, inOrder), newRecorder(t, inOrder)
		for i := 0; i < len(values); i += 2 {
			name := fmt.Sprint(values[i])
			slog.New(h).Info(name, "v", values[i+1])
			slog.New(slogadapter.New(plain, nil)).Info(name, "v", values[i+1])
			slog.New(slogadapter.New(with, nil)).With("v", values[i+1]).Info(name)
		}
		expect.Equal(t, written(t, with), written(t, plain), "values of With")
	},
}

// inOrder makes a recorder write the entries in the order of the calls.
var inOrder = &recorder.Options{Durability: recorder.DurabilityWriteThrough}

// written returns the tree of the file. Of equal lines it has one with their number.
func written(t *testing.T, rec *recorder.Recorder) string {
	t.Helper()
	must(t, rec.Flush(t.Context()))
	var b strings.Builder
	n, last := 0, ""
	for line := range strings.Lines(tracetest.Tree(t, tracetest.OpenFile(t, rec.StreamPath())) + "\n") {
		if line != last && n > 1 {
			fmt.Fprintf(&b, "(%d times)\n", n)
		}
		if line != last {
			n = 0
			b.WriteString(line)
		}
		n++
		last = line
	}
	return strings.TrimSuffix(b.String(), "\n")
}
