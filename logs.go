package entrace

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/write/setup"
)

// recordLogs makes the LoggerProvider of p.
func (c *config) recordLogs(ctx context.Context, p *Pipeline) {
	if c.noLogs {
		p.loggers = sdklog.NewLoggerProvider()
		return
	}
	records, exporters := named(ctx, envLogsExporter, "WithLogExporter", c.logFactories)
	o := append([]sdklog.LoggerProviderOption{sdklog.WithResource(p.recording.resource)}, c.loggers...)
	for _, e := range exporters {
		o = append(o, sdklog.WithProcessor(sdklog.NewBatchProcessor(e)))
	}
	if records { // last, so that it sees the changes of the other processors
		// An error is impossible: the recorder is open already.
		p.ownLogs, _ = exporter.NewLogProcessor(append(p.recording.options(c), setup.WithLevel(p.level))...)
		o = append(o, sdklog.WithProcessor(p.ownLogs))
	}
	p.loggers = sdklog.NewLoggerProvider(o...)
	if !c.noGlobals && (records || len(exporters) > 0) {
		p.globalLoggers()
	}
}

// lastLoggers is the LoggerProvider that Setup last set as OpenTelemetry's global one.
var lastLoggers atomic.Pointer[sdklog.LoggerProvider]

// globalLoggers makes the LoggerProvider of p OpenTelemetry's global one, unless the program has
// set another provider. OpenTelemetry has no function that reports whether the program has set one,
// so globalLoggers compares the type of the current provider.
func (p *Pipeline) globalLoggers() {
	before := otel.GetLoggerProvider()
	earlier, _ := before.(*sdklog.LoggerProvider)
	if (earlier == nil || earlier != lastLoggers.Load()) && fmt.Sprintf("%T", before) != "*global.loggerProvider" {
		return
	}
	lastLoggers.Store(p.loggers)
	otel.SetLoggerProvider(p.loggers)
}
