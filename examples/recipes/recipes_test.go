package recipes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/contrib/bridges/otelzap"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/contrib/instrumentation/github.com/labstack/echo/otelecho"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_pb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// The snippets of docs/recipes.md are between RECIPE and END.

func netServer() http.Handler {
	// RECIPE net/http
	mux := http.NewServeMux()
	mux.HandleFunc("GET /item/{id}", func(w http.ResponseWriter, r *http.Request) {
		slog.InfoContext(r.Context(), "in net/http", "id", r.PathValue("id"))
		http.Error(w, "sold out", http.StatusServiceUnavailable)
	})
	h := otelhttp.NewMiddleware("shop")(mux)
	// END.
	return h
}

func ginServer() http.Handler {
	// RECIPE gin
	r := gin.New()
	r.Use(otelgin.Middleware("shop"), gin.CustomRecovery(func(c *gin.Context, p any) {
		span := trace.SpanFromContext(c.Request.Context())
		span.RecordError(fmt.Errorf("panic: %v", p), trace.WithStackTrace(true))
		c.AbortWithStatus(http.StatusInternalServerError)
	}))
	// END.
	r.GET("/pay/:id", func(*gin.Context) { panic("no gin") })
	return r
}

func echoServer() http.Handler {
	// RECIPE echo
	e := echo.New()
	e.Use(otelecho.Middleware("shop"))
	// END.
	e.GET("/echo/:id", func(c echo.Context) error {
		slog.InfoContext(c.Request().Context(), "in echo")
		return errors.New("no echo")
	})
	return e
}

func chiServer() http.Handler {
	// RECIPE chi
	r := chi.NewRouter()
	r.Use(otelhttp.NewMiddleware("shop"), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			trace.SpanFromContext(r.Context()).SetName(r.Method + " " + chi.RouteContext(r.Context()).RoutePattern())
		})
	})
	// END.
	r.Get("/chi/{id}", func(_ http.ResponseWriter, r *http.Request) { slog.InfoContext(r.Context(), "in chi") })
	return r
}

func asynqMux() *asynq.ServeMux {
	// RECIPE asynq
	mux := asynq.NewServeMux()
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			ctx, span := otel.Tracer("asynq").Start(ctx, t.Type(), trace.WithSpanKind(trace.SpanKindConsumer))
			defer span.End()
			err := next.ProcessTask(ctx, t)
			if err != nil {
				span.SetStatus(codes.Error, err.Error())
			}
			return err
		})
	})
	// END.
	mux.HandleFunc("mail", func(ctx context.Context, _ *asynq.Task) error {
		slog.InfoContext(ctx, "in asynq")
		return errors.New("no mail")
	})
	return mux
}

// RECIPE zerolog
// bySlog is a hook that passes records to slog, below the span of their context.
var bySlog zerolog.HookFunc = func(e *zerolog.Event, level zerolog.Level, text string) {
	slog.Log(e.GetCtx(), slog.Level(4*(level-zerolog.InfoLevel)), text)
}

// END.

func logged(ctx context.Context) {
	// RECIPE zerolog call
	log := zerolog.New(os.Stderr).Hook(bySlog)
	log.Error().Ctx(ctx).Msg("by zerolog")
	// END.
}

// RECIPE zap
// spanOf is the context of a record: otelzap finds the span in it, and encoders skip it.
func spanOf(ctx context.Context) zap.Field {
	return zap.Field{Key: "context", Type: zapcore.SkipType, Interface: ctx}
}

// END.

func logZap(ctx context.Context, out zapcore.WriteSyncer) {
	// RECIPE zap call
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	log := zap.New(zapcore.NewTee(zapcore.NewCore(encoder, out, zap.InfoLevel), otelzap.NewCore("shop")))
	log.Warn("by zap", spanOf(ctx), zap.Int("n", 1))
	// END.
}

func serverErrors() *http.Server {
	// RECIPE net/http's errors
	s := &http.Server{ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelError)}
	// END.
	return s
}

func askHealth(ctx context.Context) error {
	// RECIPE gRPC
	s := grpc.NewServer(grpc.StatsHandler(otelgrpc.NewServerHandler()))
	c, err := grpc.NewClient("dns:///localhost:0", grpc.WithStatsHandler(otelgrpc.NewClientHandler()),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	// END.
	if err != nil {
		return err
	}
	_ = c.Close()
	health_pb.RegisterHealthServer(s, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	c, err = grpc.NewClient(l.Addr().String(), grpc.WithStatsHandler(otelgrpc.NewClientHandler()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = health_pb.NewHealthClient(c).Check(ctx, &health_pb.HealthCheckRequest{Service: "nobody"})
	if err == nil {
		return errors.New("nobody is healthy")
	}
	return nil
}

// TestRecipes runs the code of docs/recipes.md, and reads the recorded trace.
func TestRecipes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "recipes.et")
	p, err := entrace.Setup(t.Context(), exporter.WithPath(name), entrace.WithSlogDefault())
	expect.Must(t, err)
	before := slog.Default()
	defer slog.SetDefault(before)
	gin.SetMode(gin.ReleaseMode)
	for path, h := range map[string]http.Handler{"/item/1": netServer(), "/pay/1": ginServer(), "/echo/1": echoServer(), "/chi/1": chiServer()} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	}
	expect.Says(t, asynqMux().ProcessTask(t.Context(), asynq.NewTask("mail", nil)), "no mail", "the task")
	ctx, span := otel.Tracer("test").Start(t.Context(), "logs")
	logged(ctx)
	var lines bytes.Buffer
	logZap(ctx, zapcore.AddSync(&lines))
	expect.Has(t, lines.String(), `"msg":"by zap","n":1}`, "zap's JSON")
	span.End()
	serverErrors().ErrorLog.Print("http: TLS handshake error")
	expect.Must(t, askHealth(t.Context()))
	expect.Must(t, p.Shutdown(t.Context()))

	v := tracetest.OpenView(t, name)
	var below []string
	for r := range v.Rows() {
		text, _ := v.Message(r)
		e, err := v.Entry(r)
		expect.Must(t, err)
		for _, a := range e.Attributes {
			if a.Name == "exception.message" {
				text = a.Value.String()
			}
		}
		if v.Role(r) == view.RoleSpan {
			text = v.Name(r)
		}
		failed := ""
		if v.Flags(r).IsError() {
			failed = "!"
		}
		below = append(below, v.Name(v.Parent(r))+"/"+text+failed)
	}
	for _, want := range []string{
		"/GET /item/{id}!", "GET /item/{id}/in net/http", "/GET /pay/:id!", "GET /pay/:id/panic: no gin", "/GET /echo/:id!", "GET /echo/:id/in echo", "GET /chi/{id}/in chi", "/mail!", "mail/in asynq",
		"logs/by zerolog!", "logs/by zap", "/http: TLS handshake error!", "grpc.health.v1.Health/Check/grpc.health.v1.Health/Check",
	} {
		if !slices.ContainsFunc(below, func(have string) bool { return strings.HasSuffix(have, want) }) {
			t.Errorf("there is no %s in\n%s", want, strings.Join(below, "\n"))
		}
	}
}

// TestRecipesAreInTheDocument compares the code here, and the versions in go.mod, with docs/recipes.md.
func TestRecipesAreInTheDocument(t *testing.T) {
	page := string(tracetest.ReadFile(t, "../../docs/recipes.md"))
	parts := strings.Split(string(tracetest.ReadFile(t, "recipes_test.go")), "// RECIPE ")[1:]
	for _, part := range parts[:len(parts)-1] { // the last is the line above
		name, code, _ := strings.Cut(part, "\n")
		code, _, _ = strings.Cut(code, "// END")
		if strings.HasPrefix(code, "\t") {
			code = strings.ReplaceAll("\n"+code, "\n\t", "\n")
		}
		code = strings.TrimSpace(code)
		expect.Has(t, page, code, "docs/recipes.md, the recipe for %s", name)
	}
	mod := string(tracetest.ReadFile(t, "go.mod"))
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "`"); strings.HasPrefix(line, "| ") && len(cells) > 3 && strings.HasPrefix(cells[3], "v") {
			expect.Has(t, mod, cells[1]+" "+cells[3], "go.mod has the version of docs/recipes.md")
		}
	}
}
