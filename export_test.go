package entrace

import (
	"go.opentelemetry.io/otel"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// Variables are those that are known.
var Variables = variables

// ForgetLoggerProvider makes the global LoggerProvider one of Setup's own, which the next one replaces.
func ForgetLoggerProvider() {
	lp := sdklog.NewLoggerProvider()
	lastLoggers.Store(lp)
	otel.SetLoggerProvider(lp)
}
