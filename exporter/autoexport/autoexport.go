// Package autoexport makes OTEL_TRACES_EXPORTER=entrace work in programs that
// take their exporters from contrib's autoexport. A blank import is enough:
//
//	import _ "github.com/entrace-go/entrace/exporter/autoexport"
//
//	exp, err := autoexport.NewSpanExporter(ctx) // contrib's
//
// Where the trace goes is said by OTEL_EXPORTER_ENTRACE_PATH and the other
// variables of package entrace, the endpoint and the flight recorder among them;
// spans are recorded when they have ended. It is a module of its own since
// contrib's autoexport brings gRPC and Prometheus along.
package autoexport

import (
	"context"
	"sync"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace"
)

// Name is what OTEL_TRACES_EXPORTER has to say.
const Name = "entrace"

func init() { Register() }

var once sync.Once

// Register makes the exporter known to contrib's autoexport. Importing this
// package does so already; more calls do nothing. If the name is taken by
// somebody else it stays theirs.
func Register() {
	once.Do(func() {
		defer func() { _ = recover() }() // contrib's answer to a name that is taken
		autoexport.RegisterSpanExporter(Name, func(context.Context) (sdktrace.SpanExporter, error) {
			return entrace.NewSpanExporter()
		})
	})
}
