package entrace_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/remote"
	"github.com/entrace-go/entrace/view"
)

// receiver starts a server for traces. The function end stops the server and returns the received
// records.
func receiver(t *testing.T, token string) (endpoint string, end func() []remote.Received) {
	t.Helper()
	var mu sync.Mutex
	var got []remote.Received
	ended := make(chan struct{}, 100)
	r := remote.Receiver{Dir: t.TempDir(), Token: token, OnReceived: func(x remote.Received) {
		mu.Lock()
		got = append(got, x)
		mu.Unlock()
		ended <- struct{}{}
	}}
	l, err := r.Listen("127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	return "tcp://" + l.Addr().(*net.TCPAddr).String(), func() []remote.Received {
		<-ended
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

// TestEndpoint records a span with the endpoint in the environment or in an option. The receiver
// must get the span. The file must have it as well, if there is a file.
func TestEndpoint(t *testing.T) {
	const secret = "a token of some length"
	for _, tt := range []struct {
		name, path string
		option     bool
	}{{"environment", "", false}, {"no file", "none", false}, {"dash", "-", false}, {"option", "", true}} {
		t.Run(tt.name, func(t *testing.T) {
			endpoint, end := receiver(t, secret)
			dir := t.TempDir()
			path := tt.path
			if path == "" {
				path = filepath.Join(dir, "a.et")
			}
			t.Chdir(dir)
			t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", path)
			t.Setenv("OTEL_EXPORTER_ENTRACE_TOKEN", secret)
			o := []entrace.Option{entrace.WithoutGlobals()}
			if tt.option {
				t.Setenv("OTEL_EXPORTER_ENTRACE_ENDPOINT", "tcp://127.0.0.1:1")
				o = append(o, entrace.WithEndpoint(endpoint, nil))
			} else {
				t.Setenv("OTEL_EXPORTER_ENTRACE_ENDPOINT", endpoint)
			}
			p, err := entrace.Setup(t.Context(), o...)
			must(t, err)
			_, s := p.TracerProvider().Tracer("t").Start(t.Context(), "sent")
			s.End()
			must(t, p.ForceFlush(t.Context()))
			must(t, p.Shutdown(t.Context()))
			got := end()[0]
			must(t, got.Err)
			f := tracetest.OpenFile(t, got.Path)
			v := tracetest.View(t, f)
			spans := 0
			for id := range v.Rows() {
				if v.Role(id) == view.RoleSpan && v.Role(v.Parent(id)) == view.RoleResource {
					spans++
				}
			}
			expect.Equal(t, spans, 1, "spans below the resource received")
			list, err := os.ReadDir(dir)
			must(t, err)
			if want := tt.path == ""; (len(list) == 1) != want || len(list) > 1 {
				t.Errorf("the folder has %v", list)
			}
		})
	}
}

// TestEndpointWrong: a wrong endpoint in the environment is reported and ignored,
// without the token.
func TestEndpointWrong(t *testing.T) {
	var reported []string
	notice.SetErrorHandler(func(err error) { reported = append(reported, err.Error()) })
	defer func() { notice.SetErrorHandler(nil) }()
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", hosttest.Path(t, "a.et"))
	for endpoint, token := range map[string]string{"http://x:1": "", "tcp://x:": "", "tcp://localhost:1": "short"} {
		reported = nil
		t.Setenv("OTEL_EXPORTER_ENTRACE_ENDPOINT", endpoint)
		t.Setenv("OTEL_EXPORTER_ENTRACE_TOKEN", token)
		e, err := entrace.NewSpanExporter()
		must(t, err)
		must(t, e.Shutdown(t.Context()))
		if len(reported) != 1 || token != "" && strings.Contains(reported[0], token) {
			t.Errorf("%s: %q was reported", endpoint, reported)
		}
	}
	if _, err := entrace.Setup(t.Context(), entrace.WithoutGlobals(), entrace.WithEndpoint("x", nil)); err == nil {
		t.Error("a wrong endpoint as an option is no error")
	}
}

// TestNoFileNoEndpoint: with neither a file nor an endpoint, nothing is recorded.
func TestNoFileNoEndpoint(t *testing.T) {
	t.Chdir(t.TempDir())
	e, err := exporter.New(exporter.WithPath("none"))
	must(t, err)
	_, span := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e)).Tracer("").Start(t.Context(), "GET /cart")
	span.End()
	must(t, e.Shutdown(t.Context()))
	expect.Len(t, hosttest.Names(t, "."), 0, "the folder has")
}
