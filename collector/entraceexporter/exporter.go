package entraceexporter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/recorder"
)

var (
	_ exporter.Traces = (*files)(nil)
	_ exporter.Logs   = (*files)(nil)
)

// A files exports one signal (spans or log records) to trace files. The exporters of both signals share one
// recorder if they have the same path.
type files struct {
	cfg *Config
	log *zap.Logger

	mu   sync.Mutex
	rec  *recorder.Recorder // nil before Start and after Shutdown
	sink *receive.Files     // the sink of rec
}

// Capabilities implements consumer.Traces and consumer.Logs.
func (*files) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// Start opens the recorder.
func (f *files) Start(context.Context, component.Host) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rec != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.cfg.Path), 0o700); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	durability, err := f.cfg.durability()
	if err != nil {
		return fmt.Errorf("durability: %w", err)
	}
	if f.cfg.Durability == oldDurability {
		f.log.Warn("durability buffered is gone: process is used instead")
	}
	policy, err := f.cfg.policy()
	if err != nil {
		return fmt.Errorf("redact: %w", err)
	}
	rec, err := recorder.Create(f.cfg.Path, &recorder.Options{
		Durability: durability, BufferDir: f.cfg.BufferDir, MaxFileSize: int64(f.cfg.MaxFileSize), MaxFileAge: f.cfg.MaxFileAge,
		KeepFiles: f.cfg.KeepFiles, KeepBytes: int64(f.cfg.KeepBytes), Shared: true, Redact: policy,
		OnError:  func(err error) { f.log.Error("recording failed", zap.Error(err)) },
		OnNotice: func(text string) { f.log.Info(text) },
	})
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if kept, why := rec.Durability(); why != nil {
		f.log.Warn("the configured durability is not possible", zap.Stringer("durability", kept), zap.Error(why))
	}
	f.rec, f.sink = rec, receive.ToFile(rec)
	f.sink.Trusted = true
	return nil
}

// Shutdown closes the recorder if no other exporter uses it. The file is then finished.
func (f *files) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	rec := f.rec
	f.rec, f.sink = nil, nil
	f.mu.Unlock()
	if rec == nil {
		return nil
	}
	return rec.Close(ctx)
}

// record encodes a request as OTLP and records it, as "entrace receive" does. When record returns, the records are as
// safe as the durability guarantees. If record returns an error, nothing was recorded, and the sender may try again.
// If single records cannot be recorded, record logs their number and returns nil.
func (f *files) record(ctx context.Context, signal codec.Signal, marshal func() ([]byte, error)) error {
	f.mu.Lock()
	sink := f.sink
	f.mu.Unlock()
	if sink == nil {
		return recorder.ErrClosed
	}
	return safecall.Run(func() error {
		b, err := marshal()
		if err != nil {
			return err
		}
		done, err := sink.Take(ctx, signal, codec.Protobuf, b)
		if damage, ok := errors.AsType[*receive.DamageError](err); ok {
			done.Why, err = cmp.Or(done.Why, damage.Err), nil
		}
		if done.Why != nil {
			f.log.Warn("some records were refused, and are lost", zap.Int("taken", done.Taken), zap.Int("lost", done.Refused), zap.Error(done.Why))
		}
		return err
	})
}

// ConsumeTraces records spans.
func (f *files) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	return f.record(ctx, codec.Spans, func() ([]byte, error) { return (&ptrace.ProtoMarshaler{}).MarshalTraces(td) })
}

// ConsumeLogs records log records.
func (f *files) ConsumeLogs(ctx context.Context, ld plog.Logs) error {
	return f.record(ctx, codec.Logs, func() ([]byte, error) { return (&plog.ProtoMarshaler{}).MarshalLogs(ld) })
}
