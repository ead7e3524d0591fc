//go:build conformance && unix

package collector

import (
	"bytes"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
)

// cpuTime returns the CPU time of this process. Other programs hardly affect it.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTimesAsFast compares this module's decoder with pdata. With pdata, the benchmark itself writes the file
// from the decoded messages. It compares the smallest CPU time of each. The goal is that this module's decoder is
// twice as fast.
func BenchmarkTimesAsFast(b *testing.B) {
	lines := plainLines(b)
	measure := func(decode func(w *format.Writer)) time.Duration {
		w, err := format.NewWriter(io.Discard, 0, format.IET, nil)
		if err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		from := cpuTime(b)
		decode(w)
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		return cpuTime(b) - from
	}
	var ours, peers time.Duration
	for i := 0; b.Loop(); i++ {
		a := measure(func(w *format.Writer) {
			if err := otlp.Decode(b.Context(), bytes.NewReader(lines), w, nil); err != nil {
				b.Fatal(err)
			}
		})
		c := measure(func(w *format.Writer) { peerDecode(b, lines, w) })
		if i == 0 || a < ours {
			ours = a
		}
		if i == 0 || c < peers {
			peers = c
		}
	}
	b.ReportMetric(float64(peers)/float64(ours), "times")
	b.ReportMetric(float64(len(lines))/ours.Seconds()/1e6, "MB/s")
}
