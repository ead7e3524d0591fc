package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"

	"go.opentelemetry.io/otel"

	service "github.com/entrace-go/entrace"
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
