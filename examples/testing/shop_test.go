package shop_test

import (
	"context"
	"database/sql"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/entrace-go/entrace/entracetest"
	"github.com/entrace-go/entrace/entracetest/otlp"
	shop "github.com/entrace-go/entrace/examples/testing"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// childEnv is an environment variable that TestChild sets in the process that it starts.
const childEnv = "SHOP_CHILD"

// child is the program of the child process. It sends a span by OTLP to the endpoint in its
// environment.
func child() {
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		panic(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	_, span := provider.Tracer("child").Start(ctx, "GET /cart")
	span.End()
	if err := provider.Shutdown(ctx); err != nil {
		panic(err)
	}
}

// TestChild tests a child process that sends OTLP.
func TestChild(t *testing.T) {
	tr := otlp.New(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"=1"), tr.Environ()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tr.Eventually(`{ name = "GET /cart" && status != error }`, 1, 10*time.Second)
}

func newShop(t *testing.T, tr *entracetest.Trace) *shop.Shop {
	t.Helper()
	db := sql.OpenDB(fake{})
	t.Cleanup(func() { _ = db.Close() })
	return &shop.Shop{DB: db, Tracer: tr.TracerProvider().Tracer("shop"), Log: tr.Logger()}
}

// TestHandler checks the span of an HTTP request, and the number of its database queries.
func TestHandler(t *testing.T) {
	tr := entracetest.New(t)
	newShop(t, tr).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/?things=mug,pen", nil))

	tr.Expect(`{ name = "GET /price" && .price = 12 && status != error }`, 1)
	tr.AtMost(`{ name = "GET /price" } > { name =~ "SELECT.*" }`, 1)
	tr.Within(`{ kind = server }`, 5*time.Second)
}

// TestDatabase checks the span of a failing database query, and the log record of the request.
func TestDatabase(t *testing.T) {
	tr := entracetest.New(t)
	newShop(t, tr).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/?things=nosuch", nil))

	tr.Expect(`{ name = "SELECT price" && status = error && .things = 1 }`, 1)
	tr.Expect(`{ name = "GET /price" } >> { level = error && message = "no price" }`, 1)
	tr.Golden(t, "testdata/database.tree")
}

// TestInterceptor checks the spans of a gRPC interceptor.
func TestInterceptor(t *testing.T) {
	tr := entracetest.New(t)
	server := grpc.NewServer(grpc.UnaryInterceptor(shop.Traced(tr.TracerProvider().Tracer("shop"))))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	client := dial(t, server)
	_, _ = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "nosuch"})

	failed := tr.Expect(`{ name = "grpc.health.v1.Health/Check" && status = error }`, 1)
	if len(failed) == 1 && failed[0].TraceID == "" {
		t.Error("the span has no trace")
	}
}

// TestWorker tests a worker in the background within testing/synctest, where an hour passes at
// once.
func TestWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := entracetest.New(t)
		ctx, stop := context.WithCancel(t.Context())
		go newShop(t, tr).Work(ctx)

		tr.Eventually(`{ name = "send mail" && duration = 100ms }`, 60, 61*time.Minute)
		tr.ExpectNone(`{ name = "send mail" && duration > 100ms }`)
		stop()
	})
}

// dial returns a client that is connected to server.
func dial(t *testing.T, server *grpc.Server) grpc_health_v1.HealthClient {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:shop", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	expect.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

// TestPage: the page docs/testing.md has the tests of this file.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/testing.md")
	expect.Must(t, err)
	source, err := os.ReadFile("shop_test.go")
	expect.Must(t, err)
	n := 0
	for i, block := range strings.Split(string(page), "```") {
		code, isGo := strings.CutPrefix(block, "go\nfunc ")
		if i%2 == 0 || !isGo {
			continue
		}
		n++
		if !strings.Contains(string(source), "func "+code) {
			t.Errorf("the page has a test that is not here:\n%s", code)
		}
	}
	if n < 4 {
		t.Errorf("the page has %d tests", n)
	}
}
