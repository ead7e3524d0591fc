package entrace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// program runs instead of the tests in a child process, for tests of the end of
// a program.
var program func(end string)

func TestMain(m *testing.M) {
	if end := os.Getenv("ENTRACE_TEST_END"); end != "" && program != nil {
		program(end)
	}
	goleak.VerifyTestMain(m)
}

var must = tracetest.Must

// flushed flushes rec, unless it is closed, and returns it.
func flushed(t testing.TB, rec *recorder.Recorder) *recorder.Recorder {
	t.Helper()
	if err := rec.Flush(context.Background()); err != nil && !errors.Is(err, recorder.ErrClosed) {
		t.Error(err)
	}
	return rec
}

func create(t testing.TB, o *recorder.Options) *recorder.Recorder {
	t.Helper()
	rec, err := recorder.Create(filepath.Join(t.TempDir(), "app.et"), o)
	must(t, err)
	t.Cleanup(func() { must(t, rec.Close(context.Background())) })
	return rec
}
