package entrace

import (
	"go.opentelemetry.io/otel"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// Variables are the known variables that begin with OTEL_EXPORTER_ENTRACE_.
var Variables = variables

// ForgetLoggerProvider makes the global LoggerProvider count as one of Setup, so that the next
// Setup replaces it.
func ForgetLoggerProvider() {
	lp := sdklog.NewLoggerProvider()
	lastLoggers.Store(lp)
	otel.SetLoggerProvider(lp)
}
