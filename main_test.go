package entrace_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// program runs instead of the tests if ENTRACE_TEST_END is set. Tests of how a program ends start
// such a child process.
var program func(end string)

func TestMain(m *testing.M) {
	if end := os.Getenv("ENTRACE_TEST_END"); end != "" && program != nil {
		program(end)
	}
	goleak.VerifyTestMain(m)
}

var (
	must    = expect.Must
	flushed = tracetest.Flushed
)

func create(t testing.TB, o *recorder.Options) *recorder.Recorder {
	t.Helper()
	return tracetest.Create(t, "app.et", o)
}
