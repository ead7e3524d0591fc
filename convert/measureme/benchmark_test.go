package measureme

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
)

// A memory is an io.WriterAt that grows.
type memory struct{ b []byte }

func (m *memory) WriteAt(b []byte, off int64) (int, error) {
	if end := int(off) + len(b); end > len(m.b) {
		m.b = append(m.b, make([]byte, end-len(m.b))...)
	}
	return copy(m.b[off:], b), nil
}

// profile returns one of n spans in groups of ten, with an argument each.
func profile(t testing.TB, n int) []byte {
	t.Helper()
	var m memory
	w, err := NewWriter(&m, &WriterOptions{Start: time.Unix(1_700_000_000, 0), ProcessID: 42, Command: "bench "})
	if err != nil {
		t.Fatal(err)
	}
	kind := w.String("Query")
	thread := w.Thread(1)
	for i := range n / 10 {
		at := time.Duration(i) * 1000
		for k := range 9 {
			id := w.EventID("type_of", "key "+strconv.Itoa(i%500))
			thread.Interval(kind, id, at+time.Duration(k)*100+10, at+time.Duration(k)*100+60)
		}
		thread.Interval(kind, w.String("typeck"), at, at+990)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return m.b
}

func BenchmarkDecode(b *testing.B) {
	p := profile(b, 100_000)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		w, err := format.NewWriter(io.Discard, format.V2, format.IET, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := Decode(context.Background(), bytes.NewReader(p), w, nil); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	v := mustDecode(b, profile(b, 100_000))
	b.SetBytes(v.Files()[0].Size())
	b.ReportAllocs()
	for b.Loop() {
		if err := Encode(context.Background(), io.Discard, v, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// nowhere takes pages and forgets them.
type nowhere struct{}

func (nowhere) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

func BenchmarkThread(b *testing.B) {
	w, err := NewWriter(nowhere{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	kind, id := w.String("Work"), w.EventID("label", "arg")
	b.SetBytes(eventSize)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		thread := w.Thread(1)
		for at := time.Duration(0); pb.Next(); at++ {
			thread.Interval(kind, id, at, at+10)
		}
		if err := thread.Close(); err != nil {
			b.Error(err)
		}
	})
}
