package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	phuslu "github.com/phuslu/log"

	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// A request holds the values of the logged attributes.
type request struct {
	status  int
	bytes   int64
	method  string
	path    string
	user    string
	start   time.Time
	elapsed time.Duration
	err     error
	cached  bool
	ratio   float64
}

var sample = request{
	status: 200, bytes: 123456, method: "GET", path: "/api/v1/tenants/4711/carts/0815/items?expand=all", user: "ada",
	start: time.Date(2026, time.November, 20, 21, 27, 12, 21_345_678, time.UTC), elapsed: 1234567 * time.Nanosecond,
	err: errors.New("dial tcp 10.20.30.40:5432: i/o timeout, try again"), cached: true, ratio: 0.75,
}

const message = "request handled by the upstream"

// Each of the following functions is one logging call of a program, with its own source position.

func log2(ctx context.Context, l *slog.Logger, r *request) {
	l.LogAttrs(ctx, slog.LevelInfo, message, slog.Int("status", r.status), slog.String("path", r.path))
}

func log10(ctx context.Context, l *slog.Logger, r *request) {
	l.LogAttrs(ctx, slog.LevelInfo, message,
		slog.Int("status", r.status),
		slog.Int64("bytes", r.bytes),
		slog.String("method", r.method),
		slog.String("path", r.path),
		slog.String("user", r.user),
		slog.Time("start", r.start),
		slog.Duration("elapsed", r.elapsed),
		slog.Any("err", r.err),
		slog.Bool("cached", r.cached),
		slog.Float64("ratio", r.ratio),
	)
}

// attrs returns the ten attributes. It puts prefix before their names.
func (r *request) attrs(prefix string) []slog.Attr {
	return []slog.Attr{
		slog.Int(prefix+"status", r.status),
		slog.Int64(prefix+"bytes", r.bytes),
		slog.String(prefix+"method", r.method),
		slog.String(prefix+"path", r.path),
		slog.String(prefix+"user", r.user),
		slog.Time(prefix+"start", r.start),
		slog.Duration(prefix+"elapsed", r.elapsed),
		slog.Any(prefix+"err", r.err),
		slog.Bool(prefix+"cached", r.cached),
		slog.Float64(prefix+"ratio", r.ratio),
	}
}

// A call is one way to log a record: the attributes of the logger, and the logging call.
type call struct {
	name string
	with []slog.Attr
	log  func(context.Context, *slog.Logger, *request)
}

var (
	ten = call{name: "attrs=10", log: log10}
	two = call{name: "attrs=2", log: log2}
	// The ten attributes have other names than the two attributes, because equal names would be another
	// measurement.
	twoAfterTen = call{name: "with=10/attrs=2", with: sample.attrs("upstream_"), log: log2}
)

// A handler is a slog handler that takes part in the comparison.
type handler struct {
	name string
	open func(b *testing.B, dir string) (slog.Handler, output)
}

func recorded(name string, d recorder.Durability) handler {
	return handler{name, func(b *testing.B, dir string) (slog.Handler, output) {
		o := recorder.Options{Durability: d}
		if name == "entrace-beside" { // the journal is beside the file, as in a container
			o.BufferDir = dir
		}
		rec := createRecording(b, dir, o)
		return slogadapter.New(rec.Recorder, nil), rec
	}}
}

var (
	entraceDefault      = recorded("entrace", recorder.DurabilityProcess)
	entraceBeside       = recorded("entrace-beside", recorder.DurabilityProcess)
	entraceWriteThrough = recorded("entrace-writethrough", recorder.DurabilityWriteThrough)

	phusluFile = handler{"phuslu", func(b *testing.B, dir string) (slog.Handler, output) {
		f := createFile(b, dir)
		return phuslu.SlogNewJSONHandler(f.File, &slog.HandlerOptions{AddSource: true}), f
	}}
	phusluBuffered = handler{"phuslu", func(b *testing.B, dir string) (slog.Handler, output) {
		f := createBufferedFile(b, dir)
		return phuslu.SlogNewJSONHandler(f, &slog.HandlerOptions{AddSource: true}), f
	}}
	slogFile = handler{"slog.JSONHandler", func(b *testing.B, dir string) (slog.Handler, output) {
		f := createFile(b, dir)
		return slog.NewJSONHandler(f.File, &slog.HandlerOptions{AddSource: true}), f
	}}
	nothingHandled = handler{"nothing", func(*testing.B, string) (slog.Handler, output) { return emptyHandler{}, none{} }}
)

// An emptyHandler does nothing. It serves to measure slog's own share of a call.
type emptyHandler struct{}

func (emptyHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (emptyHandler) Handle(context.Context, slog.Record) error { return nil }
func (h emptyHandler) WithAttrs([]slog.Attr) slog.Handler      { return h }
func (h emptyHandler) WithGroup(string) slog.Handler           { return h }

// maxRecords is the number of records in a file before the next file begins. It limits the disk space of a long
// run.
const maxRecords = 1 << 18

// records calls fn until b.N records are written. It uses a new handler and a new file after every maxRecords records.
// The time to make a handler and to remove its file is not measured. The metric cpu-ns/record is the processor time of
// the whole process for a record, including a writer goroutine and the finishing of the file.
func records(b *testing.B, h handler, fn func(h slog.Handler, n int)) {
	b.ReportAllocs()
	b.StopTimer()
	dir := b.TempDir()
	var sizeBytes int64
	var processor time.Duration
	for left := b.N; left > 0; {
		n := min(left, maxRecords)
		left -= n
		sh, out := h.open(b, dir)
		began, known := cpuTime()
		b.StartTimer()
		fn(sh, n)
		err := out.Flush()
		b.StopTimer()
		must(b, err)
		size, err := out.Size()
		must(b, err)
		must(b, out.Discard())
		sizeBytes += size
		ended, _ := cpuTime()
		if known {
			processor += ended - began
		}
	}
	b.ReportMetric(float64(processor)/float64(b.N), "cpu-ns/record")
	if sizeBytes > 0 {
		b.ReportMetric(float64(sizeBytes)/float64(b.N), "B/record")
	}
}

func logRecords(b *testing.B, c call, h handler, goroutines int) {
	ctx := context.Background()
	records(b, h, func(sh slog.Handler, n int) {
		if c.with != nil {
			sh = sh.WithAttrs(c.with)
		}
		l := slog.New(sh)
		spread(n, goroutines, func(n int) {
			for range n {
				c.log(ctx, l, &sample)
			}
		})
	})
}

// BenchmarkSlogFile logs to a file with one write per record, as loggers do by default.
func BenchmarkSlogFile(b *testing.B) {
	for _, c := range []call{ten, two} {
		for _, h := range []handler{entraceDefault, entraceBeside, entraceWriteThrough, phusluFile, slogFile} {
			b.Run(c.name+"/"+h.name, func(b *testing.B) { logRecords(b, c, h, 1) })
		}
	}
}

// BenchmarkSlogBuffered compares loggers that write through a buffer of 256 KiB. The time includes the last flush.
func BenchmarkSlogBuffered(b *testing.B) {
	for _, c := range []call{ten, two} {
		for _, goroutines := range []int{1, 2, 8} {
			for _, h := range []handler{entraceDefault, phusluBuffered} {
				b.Run(fmt.Sprintf("%s/goroutines=%d/%s", c.name, goroutines, h.name), func(b *testing.B) {
					logRecords(b, c, h, goroutines)
				})
			}
		}
	}
}

// BenchmarkSlogHandler measures calls with each handler, and with a handler that does nothing. The difference is
// the handler's own share.
func BenchmarkSlogHandler(b *testing.B) {
	for _, c := range []call{ten, two, twoAfterTen} {
		for _, h := range []handler{nothingHandled, entraceDefault, phusluBuffered} {
			b.Run(c.name+"/"+h.name, func(b *testing.B) { logRecords(b, c, h, 1) })
		}
	}
}

// BenchmarkDurability calls handlers directly, without slog.
func BenchmarkDurability(b *testing.B) {
	for _, h := range []handler{entraceDefault, entraceWriteThrough} {
		b.Run("attrs=10/"+h.name, func(b *testing.B) {
			var pcs [1]uintptr
			runtime.Callers(1, pcs[:])
			r := slog.NewRecord(time.Now(), slog.LevelInfo, message, pcs[0])
			r.AddAttrs(sample.attrs("")...)
			ctx := context.Background()
			records(b, h, func(sh slog.Handler, n int) {
				for range n {
					if err := sh.Handle(ctx, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
