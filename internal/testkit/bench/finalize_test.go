package bench

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// maxEntries is the maximum number of entries in a recording of BenchmarkFinalize.
const maxEntries = 1_000_000

// record makes a recording at path with about the given number of entries. It consists of spans: each has a start,
// eight log records with ten attributes each, and an end.
func record(b *testing.B, path string, entries int) *recorder.Recorder {
	b.Helper()
	rec, err := recorder.Create(path, nil)
	must(b, err)
	p, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
	must(b, err)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	tracer, l := tp.Tracer("example.com/shop"), slog.New(slogadapter.New(rec, nil))
	const records = 8
	for range (entries + records + 1) / (records + 2) {
		ctx, s := tracer.Start(context.Background(), spanName, trace.WithSpanKind(trace.SpanKindServer))
		for range records {
			log10(ctx, l, &sample)
		}
		s.End()
	}
	must(b, tp.Shutdown(context.Background()))
	must(b, rec.Flush(context.Background()))
	must(b, rec.Err())
	return rec
}

// BenchmarkFinalize measures Close of a recording, which makes an ET. For comparison, it also measures cp of the
// same IET with a sync of source and copy. An operation is one entry. In both cases the IET was just written, and
// not synced.
func BenchmarkFinalize(b *testing.B) {
	for _, x := range []struct {
		name   string
		finish func(b *testing.B, dir string, entries int) (*recorder.Recorder, error)
	}{
		{"entrace", func(b *testing.B, dir string, entries int) (*recorder.Recorder, error) {
			rec := record(b, filepath.Join(dir, "app.et"), entries)
			b.StartTimer()
			err := rec.Close(context.Background())
			b.StopTimer()
			return rec, err
		}},
		{"cp", func(b *testing.B, dir string, entries int) (*recorder.Recorder, error) {
			cp, err := exec.LookPath("cp")
			if err != nil {
				b.Skip(err)
			}
			rec := record(b, filepath.Join(dir, "closed.iet"), entries)
			must(b, rec.Close(context.Background()))
			iet, clone := filepath.Join(dir, "app.iet"), filepath.Join(dir, "copy.iet")
			// Close has synced the IET. Measure with a copy of it, which is not synced.
			must(b, exec.Command(cp, rec.Path(), iet).Run())
			must(b, os.Remove(rec.Path()))
			b.StartTimer()
			err = errors.Join(exec.Command(cp, iet, clone).Run(), syncFile(iet), syncFile(clone))
			b.StopTimer()
			return rec, err
		}},
	} {
		b.Run("entries=1000000/"+x.name, func(b *testing.B) {
			b.StopTimer()
			entries, sizeBytes := 0, int64(0)
			for range max(1, b.N/maxEntries) {
				dir := b.TempDir()
				syncDisks() // also completes earlier removals of files
				rec, err := x.finish(b, dir, min(b.N, maxEntries))
				must(b, err)
				must(b, os.RemoveAll(dir))
				stats := rec.Stats()
				entries += int(stats.Entries.Written)
				sizeBytes += stats.Bytes
			}
			perOp(b, entries)
			b.ReportMetric(float64(sizeBytes)/float64(entries), "B/entry")
		})
	}
}

func syncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
