package entrace

import (
	"go.opentelemetry.io/otel"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// Variables are the known variables that begin with OTEL_EXPORTER_ENTRACE_.
var Variables = variables

// NewSpanExporter and NewLogExporter are for package exporter/autoexport.
var NewSpanExporter, NewLogExporter = newSpanExporter, newLogExporter

// ForgetLoggerProvider sets a global LoggerProvider that looks as if Setup had set it, so that the
// next Setup replaces it.
func ForgetLoggerProvider() {
	lp := sdklog.NewLoggerProvider()
	lastLoggers.Store(lp)
	otel.SetLoggerProvider(lp)
}
