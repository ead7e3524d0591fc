package measureme

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func newTestWriter(t testing.TB) (*Writer, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "live.mm_profdata")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	w, err := NewWriter(f, &WriterOptions{Start: time.Unix(0, 5000), ProcessID: 9, Command: "x\xff \"y\" --crate-name shop "})
	if err != nil {
		t.Fatal(err)
	}
	return w, name
}

// TestWriterConcurrent writes from many goroutines, with more strings and events
// than a page has room for.
func TestWriterConcurrent(t *testing.T) {
	w, name := newTestWriter(t)
	const threads, each = 8, 10_000
	var group sync.WaitGroup
	for n := range uint32(threads) {
		group.Go(func() {
			thread := w.Thread(n)
			for i := range time.Duration(each) {
				thread.Interval(w.String("kind"), w.EventID("label "+strconv.Itoa(int(i)%3000), "argument "+strconv.Itoa(int(i))), i*10, i*10+5)
			}
			thread.Integer(w.String("number"), w.String("of"), uint64(n))
			if n%2 == 0 {
				if err := thread.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("the second Close returns %v", err)
	}
	v := mustDecode(t, read(t, name))
	got := make(map[string]int)
	for _, r := range rows(t, v) {
		got[fmt.Sprint(r.Thread, r.Kind)]++
		if r.Kind == "number" {
			continue
		}
		at := (r.Start - 5000) / 10
		if r.Label != "label "+strconv.Itoa(int(at)%3000) || r.Args[0] != "argument "+strconv.Itoa(int(at)) || r.End != r.Start+5 {
			t.Fatalf("got %v at %d", r, at)
		}
	}
	for n := range threads {
		if got[fmt.Sprint(n, "kind")] != each || got[fmt.Sprint(n, "number")] != 1 {
			t.Errorf("thread %d has %v", n, got)
		}
	}
	e, err := v.Entry(1)
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := e.Attribute(attrCommand); e.Message.Value != "shop" || c.Text() != "x\uFFFD \"y\" --crate-name shop " {
		t.Errorf("the resource is %+v", e)
	}
}

// A lossy takes all pages but one of events, as if the program died there.
type lossy struct {
	memory
	left int
}

func (l *lossy) WriteAt(b []byte, off int64) (int, error) {
	if len(b) == fullPageSize {
		if l.left--; l.left == 0 {
			b = make([]byte, len(b))
		} else if l.left == -1 {
			b = append(b[:len(b)/2:len(b)/2], make([]byte, len(b)-len(b)/2)...)
		}
	}
	return l.memory.WriteAt(b, off)
}

// TestWriterDied reads what a program leaves that dies between taking a place and
// writing its page: a hole, and half a page.
func TestWriterDied(t *testing.T) {
	l := &lossy{left: 2}
	w, err := NewWriter(l, nil)
	if err != nil {
		t.Fatal(err)
	}
	thread := w.Thread(1)
	const each = fullPage / eventSize
	for i := range time.Duration(5 * each) {
		thread.Interval(w.String("kind"), w.String("label "+strconv.Itoa(int(i))), i, i+1)
	}
	// Nothing is closed.
	v, err := decode(t, l.b)
	if !errors.Is(err, ErrHole) {
		t.Fatalf("the error is %v, want %v", err, ErrHole)
	}
	all := rows(t, v)
	if got, want := len(all), each*3+each/2; got < want-1 || got > want {
		t.Errorf("%d events, want %d", got, want)
	}
	for _, r := range all {
		if at := int64(r.Start) - w.Start().UnixNano(); r.Label != "label "+strconv.Itoa(int(at)) {
			t.Fatalf("got %v at %d", r, at)
		}
	}
}

// TestWriterPrefix cuts a file at many places: what is in it can be named.
func TestWriterPrefix(t *testing.T) {
	w, name := newTestWriter(t)
	thread := w.Thread(1)
	for i := range time.Duration(30_000) {
		thread.Instant(w.String("kind"), w.EventID("label "+strconv.Itoa(int(i)), strings.Repeat("x", 10)), i)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := read(t, name)
	for n := 400; n < len(b); n += 200_003 {
		v, err := decode(t, b[:n])
		for i, r := range rows(t, v) {
			if r.Label != "label "+strconv.Itoa(i) || r.Args[0] != "xxxxxxxxxx" {
				t.Fatalf("cut at %d: event %d is %v: %v", n, i, r, err)
			}
		}
	}
}

type full struct {
	nowhere
	left int
}

var errFull = errors.New("disk full")

func (f *full) WriteAt(b []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errFull
	}
	return f.nowhere.WriteAt(b, off)
}

func TestWriterErrors(t *testing.T) {
	if _, err := NewWriter(&full{}, nil); !errors.Is(err, errFull) {
		t.Errorf("NewWriter returns %v", err)
	}
	w, err := NewWriter(&full{left: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	thread := w.Thread(1)
	for range 3 * fullPage / eventSize {
		thread.Instant(w.String("a"), w.String("b"), 1)
	}
	if !errors.Is(w.Err(), errFull) || !errors.Is(w.Close(), errFull) {
		t.Errorf("the error is %v", w.Err())
	}
}

func TestWriterLimits(t *testing.T) {
	w, name := newTestWriter(t)
	thread := w.Thread(math.MaxUint32)
	k := w.String("")
	thread.Interval(k, w.EventID("\x00a\x7f\x1e\x0b\t", "\xfe\xff", ""), -5, math.MaxInt64)
	thread.Interval(k, w.String(string(appendReference(nil, k))), 7, 3)
	thread.Instant(k, w.String(strings.Repeat("é", 200_000)), math.MaxInt64)
	thread.Integer(k, k, math.MaxUint64)
	thread.Integer(k, w.EventID("l", strings.Repeat("a", fullPage), strings.Repeat("b", fullPage)), 0)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	v := mustDecode(t, read(t, name))
	bad := "\uFFFD"
	want := []row{
		{Label: bad + "a" + bad + bad + bad + "\t", Args: []string{bad + bad, ""}, Start: 5000, End: 5000 + maxEnd},
		{Label: bad + "\x0b"[:0] + "", Args: []string{}, Start: 5007, End: 5007},
		{Label: strings.Repeat("é", 200_000), Args: []string{}, At: 5000 + maxNano},
		{Label: unnamed, Args: []string{}, Value: maxNano},
		{Label: "l", Args: []string{strings.Repeat("a", fullPage), strings.Repeat("b", fullPage)}},
	}
	got := rows(t, v)
	for i := range want {
		want[i].Kind, want[i].Thread = unnamed, math.MaxUint32
	}
	for _, r := range got {
		if r.Start == 5007 {
			want[1].Label = r.Label // bytes of a reference, none of which may act as one
			if strings.Contains(r.Label, unnamed) || !strings.HasPrefix(r.Label, bad) {
				t.Errorf("a label became a reference: %q", r.Label)
			}
		}
	}
	diff(t, got, want)
}
