package entracefilereceiver

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"

	"github.com/entrace-go/entrace/collector/entracefilereceiver/internal/metadata"
	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/view"
)

const defaultPoll = 500 * time.Millisecond

// NewFactory returns the factory of the receiver.
func NewFactory() receiver.Factory {
	return receiver.NewFactory(metadata.Type,
		func() component.Config { return &Config{StartAt: atEnd, PollInterval: defaultPoll} },
		receiver.WithTraces(newTraces, metadata.TracesStability),
		receiver.WithLogs(newLogs, metadata.LogsStability),
	)
}

func newTraces(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
	return newReader(cfg.(*Config), set.Logger, signal{otlp.Traces, view.RoleSpan, func(ctx context.Context, message []byte) (int, error) {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(message)
		if err != nil {
			return 0, err
		}
		n := td.SpanCount() // next may change td
		return n, next.ConsumeTraces(ctx, td)
	}}), nil
}

func newLogs(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
	return newReader(cfg.(*Config), set.Logger, signal{otlp.Logs, view.RoleLog, func(ctx context.Context, message []byte) (int, error) {
		ld, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(message)
		if err != nil {
			return 0, err
		}
		n := ld.LogRecordCount()
		return n, next.ConsumeLogs(ctx, ld)
	}}), nil
}
