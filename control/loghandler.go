package control

import (
	"context"
	"log/slog"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/write/ring"
)

// LogHandler returns a handler that passes records to next, and requests a trace for records that the
// triggers log and panic match. Use it only if no handler records to the control's ring: log records in the
// ring already make requests.
func (c *Control) LogHandler(next slog.Handler) slog.Handler {
	if c == nil {
		return next
	}
	return logHandler{next, c}
}

type logHandler struct {
	slog.Handler

	c *Control
}

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if text, is := ring.ServedPanic(r.Message); is {
		h.c.firePanic(text, "panic: "+text, format.SpanRef{})
	}
	if f := h.c.rules.Load(); format.Level(mapping.Level(r.Level)) >= f.noticed {
		h.c.Fire(Request{Trigger: TriggerLog, Key: r.Message, Reason: r.Level.String() + ": " + r.Message, Level: r.Level})
	}
	return err
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs), h.c}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.c}
}
