package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"

	service "github.com/entrace-go/entrace"
	otelmap "github.com/entrace-go/entrace/internal/otel"
)

// sendOTLP sends a span and a log record below it to the endpoint in the environment, without an SDK.
func sendOTLP() {
	for _, x := range []struct{ path, body string }{
		{"/v1/traces", `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"sender"}}]},
			"scopeSpans":[{"spans":[{"traceId":"0123456789abcdef0123456789abcdef","spanId":"0123456789abcdef","name":"sent","kind":2,
			"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000000000100"}]}]}]}`},
		{"/v1/logs", `{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"sender"}}]},
			"scopeLogs":[{"logRecords":[{"traceId":"0123456789abcdef0123456789abcdef","spanId":"0123456789abcdef",
			"timeUnixNano":"1700000000000000050","severityNumber":13,"body":{"stringValue":"said"}}]}]}]}`},
	} {
		post(x.path, x.body)
	}
}

func post(path, body string) {
	r, err := http.Post(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+path, "application/json", strings.NewReader(body)) //nolint:noctx // it is a test
	check(err)
	b, err := io.ReadAll(r.Body)
	check(err)
	check(r.Body.Close())
	if r.StatusCode != http.StatusOK || string(b) != "{}" {
		panic(r.Status + ": " + string(b))
	}
}

// recordsItself records a span with entrace, below the span that the environment names.
func recordsItself() {
	p, err := service.Setup(context.Background(), service.WithEnvironmentParent())
	check(err)
	_, span := otel.Tracer("records").Start(context.Background(), "below the command")
	span.End()
	if len(os.Args) > 1 {
		os.Exit(3)
	}
	check(p.Shutdown(context.Background()))
}

func TestParseLine(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	utc := time.Date(2026, 11, 23, 10, 0, 0, 123_000_000, time.UTC).UnixNano()
	local := time.Date(2026, 11, 23, 10, 0, 0, 123_000_000, time.Local).UnixNano()
	for _, x := range []struct {
		line     string
		body     string
		severity uint32
		at       int64
		names    string // the names of the attributes
	}{
		{"plain", "plain", 9, now.UnixNano(), ""},
		{"an ERROR here", "an ERROR here", 17, now.UnixNano(), ""},
		{"no TERRORS here", "no TERRORS here", 9, now.UnixNano(), ""},
		{"[warn] x", "[warn] x", 13, now.UnixNano(), ""},
		{"2026-11-23T10:00:00.123Z INFO x", "2026-11-23T10:00:00.123Z INFO x", 9, utc, ""},
		{"2026-11-23 10:00:00,123 - CRITICAL x", "2026-11-23 10:00:00,123 - CRITICAL x", 21, local, ""},
		{"main.c:3:5: error: expected ';'", "main.c:3:5: error: expected ';'", 17, now.UnixNano(), ""},
		{"app.ts(3,5): error TS2304: Cannot find name", "app.ts(3,5): error TS2304: Cannot find name", 17, now.UnixNano(), ""},
		{"warning: unused variable", "warning: unused variable", 13, now.UnixNano(), ""},
		{"error[E0425]: cannot find value", "error[E0425]: cannot find value", 17, now.UnixNano(), ""},
		{"a.h:1: fatal error: b.h: no such file", "a.h:1: fatal error: b.h: no such file", 17, now.UnixNano(), ""},
		{"Error: boom in node", "Error: boom in node", 17, now.UnixNano(), ""},
		{"ValueError: bad", "ValueError: bad", 17, now.UnixNano(), ""},
		{"panic: runtime error: index out of range", "panic: runtime error: index out of range", 21, now.UnixNano(), ""},
		{"npm ERR! code 1", "npm ERR! code 1", 17, now.UnixNano(), ""},
		{"W1124 10:00:00.000000    1 x.go:1] m", "W1124 10:00:00.000000    1 x.go:1] m", 13, now.UnixNano(), ""},
		{"0 errors, 0 warnings", "0 errors, 0 warnings", 9, now.UnixNano(), ""},
		{"no error: all is well", "no error: all is well", 9, now.UnixNano(), ""},
		{"\x1b[31mred\x1b[0m", "red", 9, now.UnixNano(), ""},
		{`{"level":"warn","msg":"m","time":"2026-11-23T10:00:00.123Z","n":1}`, "m", 13, utc, "n"},
		{`{"level":50,"time":1795428000123,"msg":"pino","x":{"a":[1]}}`, "pino", 17, utc, "x.a"},
		{`{"msg":"m","user":{"name":"ada","of":{"id":7}},"log":{"level":"warn"},"e":{}}`, "m", 13, now.UnixNano(), "user.name user.of.id"},
		{`{"msg":"deep","a":` + strings.Repeat(`{"b":`, 20) + "1" + strings.Repeat("}", 20) + "}", "deep", 9, now.UnixNano(), "a" + strings.Repeat(".b", 16)},
		{`{"severity":"nonsense","message":"m"}`, "m", 9, now.UnixNano(), "severity"},
		{`{"cut`, `{"cut`, 9, now.UnixNano(), ""},
		{`{"a":1} and more`, `{"a":1} and more`, 9, now.UnixNano(), ""},
		{`time=2026-11-23T10:00:00.123Z level=ERROR msg="a \"b\"" k=v`, `a "b"`, 17, utc, "k"},
		{"key=value", "key=value", 9, now.UnixNano(), ""},
		{"a=1 and b=2", "a=1 and b=2", 9, now.UnixNano(), ""},
		{`ts=99999999999999999999999 msg=x`, "x", 9, 1 << 62, ""},
	} {
		l := parseLine(x.line, now)
		var names []string
		for _, a := range l.Attributes {
			names = append(names, a.Name)
		}
		if l.Body.Kind != otelmap.String || l.Body.Text != x.body || l.Severity != x.severity || l.Time != x.at || strings.Join(names, " ") != x.names {
			t.Errorf("%q: got %q, severity %d, at %d, %q; want %q, %d, %d, %q", x.line, l.Body.Text, l.Severity, l.Time, names, x.body, x.severity, x.at, x.names)
		}
	}
}
