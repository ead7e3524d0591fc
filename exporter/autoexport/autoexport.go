// Package autoexport makes OTEL_TRACES_EXPORTER=entrace and OTEL_LOGS_EXPORTER=entrace work
// in programs that take their exporters from contrib's autoexport. A blank import is enough:
//
//	import _ "github.com/entrace-go/entrace/exporter/autoexport"
//
//	spans, err := autoexport.NewSpanExporter(ctx) // contrib's
//	logs, err := autoexport.NewLogExporter(ctx)
//
// Where the trace goes is said by OTEL_EXPORTER_ENTRACE_PATH and the other
// variables of package entrace, the endpoint and the flight recorder among them;
// spans are recorded when they have ended, and log records go to the same file. A log
// record is safe when the processor that the program puts before the exporter has handed
// it over: at once with the SDK's simple processor, after a second with its batch
// processor. It is a module of its own since contrib's autoexport brings gRPC and
// Prometheus along.
package autoexport

import (
	"context"
	"sync"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace"
)

// Name is what OTEL_TRACES_EXPORTER and OTEL_LOGS_EXPORTER have to say.
const Name = "entrace"

func init() { Register() }

var once sync.Once

// Register makes the exporters known to contrib's autoexport. Importing this
// package does so already; more calls do nothing. If the name is taken by
// somebody else it stays theirs.
func Register() {
	once.Do(func() {
		unlessTaken(func() {
			autoexport.RegisterSpanExporter(Name, func(context.Context) (sdktrace.SpanExporter, error) {
				return entrace.NewSpanExporter()
			})
		})
		unlessTaken(func() {
			autoexport.RegisterLogExporter(Name, func(context.Context) (sdklog.Exporter, error) {
				return entrace.NewLogExporter()
			})
		})
	})
}

// unlessTaken calls register, which panics if the name is taken.
func unlessTaken(register func()) {
	defer func() { _ = recover() }()
	register()
}
