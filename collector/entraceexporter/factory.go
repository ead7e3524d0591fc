package entraceexporter

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"

	"github.com/entrace-go/entrace/collector/entraceexporter/internal/metadata"
	"github.com/entrace-go/entrace/internal/file/retain"
)

// defaultMaxFileSize is also the default limit of a program that records its own spans.
const defaultMaxFileSize = 256 << 20

// NewFactory returns the factory of the exporter.
func NewFactory() exporter.Factory {
	return exporter.NewFactory(metadata.Type,
		func() component.Config {
			return &Config{MaxFileSize: defaultMaxFileSize, KeepFiles: retain.DefaultFiles, KeepBytes: retain.DefaultBytes}
		},
		exporter.WithTraces(func(_ context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
			return &files{cfg: cfg.(*Config), log: set.Logger}, nil
		}, metadata.TracesStability),
		exporter.WithLogs(func(_ context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
			return &files{cfg: cfg.(*Config), log: set.Logger}, nil
		}, metadata.LogsStability),
	)
}
