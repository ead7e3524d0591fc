// Tofile runs the Collector's OTLP receiver, which passes its data directly to the Collector's file exporter. The
// arguments are the address for HTTP, the address for gRPC, the name of the file, and its format.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, http, grpc, file, format string) error {
	exports := fileexporter.NewFactory()
	to := exports.CreateDefaultConfig().(*fileexporter.Config)
	to.Path, to.FormatType = file, format
	out, err := exports.CreateTraces(ctx, exportertest.NewNopSettings(exports.Type()), to)
	if err != nil {
		return err
	}
	receives := otlpreceiver.NewFactory()
	from := receives.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"http": map[string]any{"endpoint": http}, "grpc": map[string]any{"endpoint": grpc},
	}}).Unmarshal(from); err != nil {
		return err
	}
	in, err := receives.CreateTraces(ctx, receivertest.NewNopSettings(receives.Type()), from, out)
	if err != nil {
		return err
	}
	for _, c := range []component.Component{out, in} {
		if err := c.Start(ctx, componenttest.NewNopHost()); err != nil {
			return err
		}
	}
	<-ctx.Done()
	for _, c := range []component.Component{in, out} {
		if err := c.Shutdown(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}
