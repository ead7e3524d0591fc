package ring_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// createFor returns a recorder for a stream of g.
func createFor(t testing.TB, g *ring.Ring, name string, o *recorder.Options) *recorder.Recorder {
	t.Helper()
	if o == nil {
		o = &recorder.Options{}
	}
	rec, err := g.Create(hosttest.Path(t, name), o)
	must(t, err)
	t.Cleanup(func() { tracetest.Close(t, rec) })
	return rec
}

var must = expect.Must
