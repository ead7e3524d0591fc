// Command loggers logs with four libraries in a span. OpenTelemetry's bridges pass the records to the
// LoggerProvider that entrace has set. The provider records them as children of the span. To see
// them:
//
//	loggers
//	entrace tree loggers.et
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"go.opentelemetry.io/contrib/bridges/otellogr"
	"go.opentelemetry.io/contrib/bridges/otellogrus"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/bridges/otelzap"
	"go.opentelemetry.io/otel"
	"go.uber.org/zap"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "loggers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	p, err := entrace.Setup(ctx, exporter.WithPath("loggers.et"))
	if err != nil {
		return err
	}
	// The bridges use OpenTelemetry's global LoggerProvider.
	withSlog := otelslog.NewLogger("example.com/slog")
	withZap := zap.New(otelzap.NewCore("example.com/zap"), zap.AddCaller())
	withLogrus := logrus.New()
	withLogrus.AddHook(otellogrus.NewHook("example.com/logrus"))
	withLogr := logr.New(otellogr.NewLogSink("example.com/logr"))

	spanCtx, span := otel.Tracer("example.com/loggers").Start(ctx, "request")
	withSlog.WarnContext(spanCtx, "by slog", "n", 1, slog.Group("user", "id", 7))
	withZap.Error("by zap", zap.Int("n", 1), zap.Any("context", spanCtx), zap.Strings("tags", []string{"a", "b"}))
	withLogrus.WithContext(spanCtx).WithField("n", 1).Info("by logrus")
	withLogr.Info("by logr", "n", 1, "context", spanCtx)
	withLogr.Error(errors.New("no stock"), "by logr, an error", "context", spanCtx)
	span.End()
	return p.Shutdown(ctx)
}
