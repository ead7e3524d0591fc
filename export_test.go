package entrace

import (
	"go.opentelemetry.io/otel"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/entrace-go/entrace/internal/write/setup"
)

// Variables are the known variables that begin with OTEL_EXPORTER_ENTRACE_, and FileVariables those about the file.
var (
	Variables     = variables
	FileVariables = setup.Variables()
)

// NewSpanExporter and NewLogExporter are for package exporter/autoexport.
var NewSpanExporter, NewLogExporter = newSpanExporter, newLogExporter

// ForgetLoggerProvider sets a global LoggerProvider that looks as if Setup had set it, so that the
// next Setup replaces it.
func ForgetLoggerProvider() {
	lp := sdklog.NewLoggerProvider()
	lastLoggers.Store(lp)
	otel.SetLoggerProvider(lp)
}
