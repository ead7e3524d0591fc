// Package otlp receives OTLP from other programs of a test: child processes, programs in other
// languages, and the test program itself if it has an OTLP exporter.
//
//	tr := otlp.New(t)
//	cmd := exec.CommandContext(t.Context(), "python3", "service.py")
//	cmd.Env = append(os.Environ(), tr.Environ()...)
//	…
//	tr.Eventually(`{ name = "GET /cart" && status != error }`, 1, 10*time.Second)
//
// The endpoint accepts OTLP over HTTP and gRPC on the loopback interface. Its goroutines run until the test ends, so
// it does not work within testing/synctest. Package entracetest works there.
package otlp

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/entrace-go/entrace/entracetest"
	"github.com/entrace-go/entrace/internal/otel/receive"
)

// A Trace holds the data sent to its endpoint, and the data that this program records with its providers.
type Trace struct {
	*entracetest.Trace

	t       testing.TB
	address string
}

// New returns a Trace for the test t. Its endpoint listens until t and its subtests have ended.
func New(t testing.TB, list ...entracetest.Option) *Trace {
	t.Helper()
	tr := &Trace{Trace: entracetest.New(t, list...), t: t}
	files := receive.ToFile(tr.Recorder())
	files.Trusted = true
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("entracetest: %v", err)
	}
	tr.address = "http://" + l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- receive.NewServer(files, receive.Options{Local: true}).Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("entracetest: %v", err)
		}
	})
	return tr
}

// Endpoint returns the URL of the endpoint.
func (tr *Trace) Endpoint() string { return tr.address }

// Environ returns environment variables, as "NAME=value". With them, OpenTelemetry's SDKs send all spans and log
// records to the endpoint with little delay.
func (tr *Trace) Environ() []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + tr.address, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_LOGS_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=none", "OTEL_TRACES_SAMPLER=always_on",
		"OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_BLRP_SCHEDULE_DELAY=100",
	}
}

// beforeDeadline is how long before the deadline of go test Eventually gives up, so that its failure is reported.
const beforeDeadline = time.Second

// Eventually is like the method of entracetest.Trace, but gives up before the deadline of go test.
func (tr *Trace) Eventually(query string, n int, d time.Duration) []entracetest.Row {
	tr.t.Helper()
	if t, ok := tr.t.(interface{ Deadline() (time.Time, bool) }); ok {
		if ends, ok := t.Deadline(); ok {
			d = min(d, time.Until(ends)-beforeDeadline)
		}
	}
	return tr.Trace.Eventually(query, n, d)
}
