package gotrace

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// recorded returns the execution traces that testdata/record/main.go wrote with several versions of Go.
func recorded(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(names) != 4 {
		t.Fatal(names, err)
	}
	all := make(map[string][]byte)
	for _, name := range names {
		b, err := os.ReadFile(name)
		expect.Must(t, err)
		all[filepath.Base(name)] = b
	}
	return all
}

// TestVersions checks that traces of each version of Go say that the request waited for the mutex that reindex
// held.
func TestVersions(t *testing.T) {
	for name, b := range recorded(t) {
		tr := read(t, b)
		if len(tr.Spans) != 2 || tr.Spans[0].ID != 1 || tr.Spans[1].ID != 2 {
			t.Fatalf("%s: the spans are %+v", name, tr.Spans)
		}
		if times := tr.Times(&tr.Spans[0]); times[Mutex] < 95_000 || times.Sum()-int64(times[Mutex]) > 20_000 {
			t.Errorf("%s: the request has the times %v", name, times)
		}
		i := slices.IndexFunc(tr.Waits, func(w Wait) bool { return w.Span == 0 && tr.Classes[w.Class].State == Mutex })
		if i < 0 || tr.Waits[i].By != 1 {
			t.Fatalf("%s: the waits are %+v", name, tr.Waits)
		}
		if c := &tr.Classes[tr.Waits[i].Class]; c.Own().Func != "main.main.func1" {
			t.Errorf("%s: it waited at %+v", name, c.Own())
		}
		if _, known := tr.Wall(tr.First); known == strings.Contains(name, "1.24") {
			t.Errorf("%s: the clock is known: %v", name, known)
		}
	}
}

func TestOtherVersions(t *testing.T) {
	for header, want := range map[string]string{"go 1.22 trace\x00\x00\x00": "go 1.22 trace", "go 1.28 trace\x00\x00\x00": "go 1.28 trace", "ENTRACE IET, not": "ENTRACE IET, not"} {
		_, err := Read(t.Context(), strings.NewReader(header), int64(len(header)))
		if v, ok := errors.AsType[*VersionError](err); !ok || v.Header != want {
			t.Errorf("%q: %v", header, err)
		}
	}
	if _, err := Read(t.Context(), strings.NewReader("go"), 2); err == nil {
		t.Error("a header of two bytes is read")
	}
}

// TestDamaged checks that if a trace is cut or changed anywhere, the data before the damage is kept.
func TestDamaged(t *testing.T) {
	// A trace of several generations, of about a second each.
	_, whole := record(t, func(ctx context.Context, p *program) {
		for range 14 {
			p.in(ctx, "step", func(context.Context) { time.Sleep(200 * ms) })
		}
	})
	all := read(t, whole)
	if len(all.begins) < 3 {
		t.Fatalf("the trace has %d generations", len(all.begins))
	}
	last := all.begins[len(all.begins)-1]
	for _, size := range []int64{last.offset + 20, int64(len(whole)) - 10, all.begins[1].offset + 7} {
		tr, err := Read(t.Context(), bytes.NewReader(whole[:size]), size)
		expect.Must(t, err)
		if _, ok := errors.AsType[*DamageError](tr.Damage); !ok {
			t.Errorf("cut at %d: the damage is %v", size, tr.Damage)
		}
		if n := len(tr.Spans); n == 0 || n > len(all.Spans) || size > last.offset && n < len(all.Spans)-7 {
			t.Errorf("cut at %d of %d: %d of %d spans are left", size, len(whole), n, len(all.Spans))
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b := slices.Clone(whole)
		for range 1 + random.IntN(8) {
			b[random.IntN(len(b))] = byte(random.Uint32())
		}
		look(t, b)
	}
}

// look reads a possibly damaged trace in every way.
func look(t testing.TB, b []byte) {
	t.Helper()
	tr, err := Read(t.Context(), bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return
	}
	for i := range tr.Spans {
		if i > 20 {
			break
		}
		s := &tr.Spans[i]
		end := s.End
		if end == 0 {
			end = tr.Last
		}
		w, err := tr.Window(t.Context(), s.Begin, end)
		expect.Must(t, err)
		if sum := Known(w.Path(tr.Legs(s))); sum > end-max(s.Begin, tr.First) {
			t.Errorf("the path of a span of %d takes %d", end-s.Begin, sum)
		}
		tr.SpanAt(s.Goroutine, end)
	}
}

func FuzzRead(f *testing.F) {
	for _, b := range recorded(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { look(t, b) })
}
