package bench

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/recorder"
)

var must = expect.Must

// An output is a file to which a benchmark records.
type output interface {
	// Flush writes all pending records to the file. Its time is measured.
	Flush() error
	// Size returns the number of bytes in the file.
	Size() (int64, error)
	// Discard syncs, closes and removes the file. Its time is not measured.
	Discard() error
}

// none is the output of a candidate that writes nothing.
type none struct{}

func (none) Flush() error         { return nil }
func (none) Size() (int64, error) { return 0, nil }
func (none) Discard() error       { return nil }

// A file calls write(2) once for each Write.
type file struct{ *os.File }

func createFile(b testing.TB, dir string) file {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, "peer"))
	must(b, err)
	return file{f}
}

func (f file) Flush() error { return nil }

func (f file) Size() (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// Discard also syncs the file, as Close of a recording does, so that no candidate leaves pending writes for the
// disk.
func (f file) Discard() error {
	return errors.Join(f.Sync(), f.Close(), os.Remove(f.Name()))
}

// A bufferedFile calls write(2) once for 256 KiB.
type bufferedFile struct {
	file

	mu sync.Mutex

	w *bufio.Writer
}

func createBufferedFile(b testing.TB, dir string) *bufferedFile {
	b.Helper()
	f := createFile(b, dir)
	return &bufferedFile{file: f, w: bufio.NewWriterSize(f, 256<<10)}
}

func (f *bufferedFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.w.Write(p)
}

func (f *bufferedFile) Flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.w.Flush()
}

// A recording is an output of a recorder whose file stays an IET.
type recording struct{ *recorder.Recorder }

func createRecording(b testing.TB, dir string, o recorder.Options) recording {
	b.Helper()
	rec, err := recorder.Create(filepath.Join(dir, "app.iet"), &o)
	must(b, err)
	return recording{rec}
}

// Flush writes all pending records to the file.
func (r recording) Flush() error { return r.Recorder.Flush(context.Background()) }

func (r recording) Size() (int64, error) { return r.Stats().Bytes, r.Err() }

func (r recording) Discard() error {
	return errors.Join(r.Close(context.Background()), os.Remove(r.Path()))
}

// spread calls fn from a number of goroutines. Each call gets a part of n.
func spread(n, goroutines int, fn func(n int)) {
	if goroutines == 1 {
		fn(n)
		return
	}
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() { fn(n*(i+1)/goroutines - n*i/goroutines) })
	}
	wg.Wait()
}

// perOp reports ns/op for n operations. It is for benchmarks whose number of operations is not b.N.
func perOp(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/op")
}
