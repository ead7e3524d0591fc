// Command configfile makes OpenTelemetry's providers from the file in OTEL_CONFIG_FILE, and also records
// to app.et. The file can name other exporters, a sampler, limits and a resource.
//
//	OTEL_CONFIG_FILE=otel.yaml configfile
package main

import (
	"context"
	"errors"
	"log"

	"go.opentelemetry.io/contrib/otelconf"
	"go.opentelemetry.io/otel/attribute"
	otellog "go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/recorder"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	rec, err := recorder.Create("app.et", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close(ctx)) }()
	spans, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
	if err != nil {
		return err
	}
	logs, err := exporter.NewLogProcessor(exporter.WithRecorder(rec))
	if err != nil {
		return err
	}
	sdk, err := otelconf.NewSDK( // reads OTEL_CONFIG_FILE
		otelconf.WithTracerProviderOptions(sdktrace.WithSpanProcessor(spans)),
		otelconf.WithLoggerProviderOptions(sdklog.WithProcessor(logs)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sdk.Shutdown(ctx)) }()

	// With otel.SetTracerProvider and global.SetLoggerProvider, libraries use the providers as well.
	ctx, job := sdk.TracerProvider().Tracer("example.com/job").Start(ctx, "job")
	defer job.End()
	var r otellog.Record
	r.SetBody(attribute.StringValue("read 3 files"))
	sdk.LoggerProvider().Logger("example.com/job").Emit(ctx, r)
	return nil
}
