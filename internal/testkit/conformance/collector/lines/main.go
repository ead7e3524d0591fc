// Command lines writes three records with the logger that its argument names: one of level INFO, one of level WARN and
// one of level ERROR. With zap-spans, it sends two spans and writes a record with the ids of each.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"

	"github.com/rs/zerolog"
	"github.com/sirupsen/logrus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

var writers = map[string]func() error{
	"zap-json":  func() error { return writeZap(zap.NewProduction()) },
	"zap-spans": func() error { return writeSpans(zap.NewProduction()) },
	"zap":       func() error { return writeZap(zap.NewDevelopment()) },
	"zerolog-json": func() error {
		writeZerolog(zerolog.New(os.Stderr).With().Timestamp().Logger())
		return nil
	},
	"zerolog": func() error {
		writeZerolog(zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).With().Timestamp().Caller().Logger())
		return nil
	},
	"logrus-json": func() error {
		writeLogrus(&logrus.JSONFormatter{})
		return nil
	},
	"logrus": func() error {
		writeLogrus(&logrus.TextFormatter{})
		return nil
	},
	"logrus-tty": func() error {
		writeLogrus(&logrus.TextFormatter{ForceColors: true, FullTimestamp: false})
		return nil
	},
	"klog": func() error {
		klog.InfoS("served", "order", 7)
		klog.Warning("slow")
		klog.ErrorS(nil, "no card", "order", 7)
		klog.Flush()
		return nil
	},
	"slog-json": func() error {
		writeSlog(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
		return nil
	},
	"slog": func() error {
		writeSlog(slog.New(slog.NewTextHandler(os.Stderr, nil)))
		return nil
	},
	"slog-default": func() error {
		writeSlog(slog.Default())
		return nil
	},
	"log": func() error {
		l := log.New(os.Stderr, "", log.LstdFlags|log.Lshortfile|log.Lmicroseconds)
		l.Print("INFO served")
		l.Print("WARN slow")
		l.Print("ERROR no card")
		return nil
	},
}

func writeSlog(l *slog.Logger) {
	l.Info("served", "order", 7)
	l.Warn("slow")
	l.Error("no card", "order", 7)
}

func writeZap(l *zap.Logger, err error) error {
	if err != nil {
		return err
	}
	l = l.Named("shop")
	l.Info("served", zap.Int("order", 7))
	l.Warn("slow")
	l.Error("no card", zap.Int("order", 7))
	return nil
}

func writeSpans(l *zap.Logger, err error) error {
	if err != nil {
		return err
	}
	ctx := context.Background()
	sent, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(sent))
	tracer := provider.Tracer("shop")
	for _, name := range []string{"GET /item", "POST /order"} {
		_, span := tracer.Start(ctx, name)
		c := span.SpanContext()
		l.Info("in "+name, zap.Stringer("trace_id", c.TraceID()), zap.Stringer("span_id", c.SpanID()))
		span.End()
	}
	l.Warn("outside")
	return provider.Shutdown(ctx)
}

func writeZerolog(l zerolog.Logger) {
	l.Info().Int("order", 7).Msg("served")
	l.Warn().Msg("slow")
	l.Error().Int("order", 7).Msg("no card")
}

func writeLogrus(f logrus.Formatter) {
	l := logrus.New()
	l.SetFormatter(f)
	l.WithField("order", 7).Info("served")
	l.Warn("slow")
	l.WithField("order", 7).Error("no card")
}

func main() {
	err := writers[os.Args[1]]()
	if err != nil {
		log.Fatal(err)
	}
}
