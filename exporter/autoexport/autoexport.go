// Package autoexport makes OTEL_TRACES_EXPORTER=entrace and OTEL_LOGS_EXPORTER=entrace work in
// programs that get their exporters from OpenTelemetry's contrib package autoexport. A blank import
// is enough:
//
//	import _ "github.com/entrace-go/entrace/exporter/autoexport"
//
//	spans, err := autoexport.NewSpanExporter(ctx) // of the contrib package
//	logs, err := autoexport.NewLogExporter(ctx)
//
// OTEL_EXPORTER_ENTRACE_PATH and the other variables of package entrace set the destination of the
// trace, including the endpoint and the flight recorder. Spans are recorded when they have ended.
// Log records go to the same file. A log record is safe once the program's processor has passed it
// to the exporter: the SDK's simple processor passes it at once, its batch processor after a
// second. This package is a module of its own because the contrib package depends on gRPC and
// Prometheus.
package autoexport

import (
	"context"
	"sync"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	_ "github.com/entrace-go/entrace" // sets the functions of package setup
	"github.com/entrace-go/entrace/internal/write/setup"
)

// Name is the name of entrace in OTEL_TRACES_EXPORTER and OTEL_LOGS_EXPORTER.
const Name = "entrace"

func init() { Register() }

var once sync.Once

// Register registers the exporters with the contrib package. Importing this package calls Register;
// further calls do nothing. Register does not replace an exporter that another package has
// registered under [Name].
func Register() {
	once.Do(func() {
		unlessTaken(func() {
			autoexport.RegisterSpanExporter(Name, func(context.Context) (sdktrace.SpanExporter, error) {
				return setup.NewSpanExporter()
			})
		})
		unlessTaken(func() {
			autoexport.RegisterLogExporter(Name, func(context.Context) (sdklog.Exporter, error) {
				return setup.NewLogExporter()
			})
		})
	})
}

// unlessTaken calls register and recovers the panic that register raises if the name is taken.
func unlessTaken(register func()) {
	defer func() { _ = recover() }()
	register()
}
