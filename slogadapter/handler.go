package slogadapter

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/write/bothways"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/recorder"
)

var _ slog.Handler = (*Handler)(nil)

// Options change how a [Handler] works. The zero value means defaults.
type Options struct {
	// Level is the lowest level that is recorded. It is read for every record. The default is slog.LevelInfo, or
	// slog.LevelDebug if the recorder is a flight recorder.
	Level slog.Leveler
	// ReplaceAttr is called like slog.HandlerOptions.ReplaceAttr: for every attribute that is not a group, and for
	// time, level, msg and source, with an empty list of groups. The source is a *slog.Source. ReplaceAttr cannot
	// remove the level and the message. If the new level has another type, it is stored as log.level. A removed
	// message is stored as an empty text. If the result is a group, its members are stored as attributes. If
	// ReplaceAttr panics, the value is "!PANIC: …". Data that ReplaceAttr removes is never written, not even to the
	// journal.
	ReplaceAttr func(groups []string, a slog.Attr) slog.Attr
	// MaxAttrs is the maximum number of attributes of a record. The default is 1000.
	MaxAttrs int
	// MaxBytes is the maximum number of bytes of text in a record. The default is 1 MiB.
	MaxBytes int
}

const (
	defaultMaxAttrs = 1000
	defaultMaxBytes = 1 << 20
	maxDepth        = 32
)

// A Handler is a slog.Handler that writes to a recorder. It is safe for
// concurrent use.
type Handler struct {
	shared *shared

	// These fields hold the attributes and groups of WithAttrs and WithGroup. They
	// never change.
	with   *record.Attributes // nil: no attributes and groups
	left   budget             // the room that these attributes leave
	groups []string           // copies of the groups' names, only if ReplaceAttr is set
	prefix int                // size of the names of the groups, including a dot after each name
}

// shared holds the data that a handler shares with all handlers derived from
// it.
type shared struct {
	recorder *recorder.Recorder
	level    slog.Leveler
	replace  func([]string, slog.Attr) slog.Attr
	limits   budget
	sites    siteCache
	encoders sync.Pool // of *encoder
}

// New returns a handler that records to r. A nil o means the defaults.
func New(r *recorder.Recorder, o *Options) *Handler {
	if o == nil {
		o = &Options{}
	}
	s := &shared{recorder: r, level: o.Level, replace: o.ReplaceAttr}
	if v, ok := s.level.(*slog.LevelVar); s.level == nil || ok && v == nil {
		s.level = slog.LevelInfo
		if inside.Of(r).IsRing() {
			s.level = slog.LevelDebug
		}
	}
	attrs, bytes := o.MaxAttrs, o.MaxBytes
	if attrs <= 0 {
		attrs = defaultMaxAttrs
	}
	if bytes <= 0 {
		bytes = defaultMaxBytes
	}
	s.limits = newBudget(attrs, bytes)
	return &Handler{shared: s, left: s.limits}
}

// Enabled reports whether records of level l are recorded.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool {
	return l >= h.shared.level.Level() && h.shared.recorder.TakesLogs()
}

// WithAttrs returns a handler whose records also have attrs. It resolves the values of attrs
// now, and neither keeps nor changes the slice.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 || h.shared.recorder.Discards() {
		return h
	}
	c := *h
	e := h.shared.encoder()
	defer e.release()
	e.budget, e.prefix, e.groups = h.left, h.prefix, append(e.groups, h.groups...)
	c.with = e.b.Attributes(h.with, func() {
		e.all(attrs)
		if e.cut && !h.left.cut {
			e.b.Truncated()
		}
	})
	if e.attrs == h.left.attrs && e.cut == h.left.cut {
		return h // all attrs were empty
	}
	c.left = e.budget
	return &c
}

// WithGroup returns a handler that puts later attributes into a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" || h.shared.recorder.Discards() {
		return h
	}
	c := *h
	if h.shared.replace != nil {
		c.groups = append(slices.Clip(h.groups), strings.Clone(name)) // cloned: name may be a part of a large string
	}
	e := h.shared.encoder()
	defer e.release()
	e.budget, e.prefix = h.left, h.prefix
	name = e.groupName(name)
	c.prefix, c.left.cut = h.prefix+len(name)+1, e.cut
	c.with = e.b.Attributes(h.with, func() {
		e.b.Group(name)
		if e.cut && !h.left.cut {
			e.b.Truncated()
		}
	})
	return &c
}

// Handle records r, whatever the level of r. It uses ctx only to get the span; ctx
// may be done.
func (h *Handler) Handle(ctx context.Context, r slog.Record) (err error) {
	s := h.shared
	if !s.recorder.TakesLogs() || s.recorder.Discards() {
		return nil
	}
	e := s.encoder()
	defer e.release()
	defer recovered(&err)
	b := e.b
	var ref format.SpanRef
	flags := trace.TraceFlags(mapping.DefaultLogFlags) // the default flags are not stored
	if span := trace.SpanFromContext(ctx); span != noSpan {
		ref, flags = refOf(span)
	}
	at := int64(0)
	if !r.Time.IsZero() {
		at = mapping.UnixNano(r.Time)
	}
	e.batch.Log(ref, at)
	e.budget = h.left
	if s.replace == nil {
		e.begin(s.sites.of(s.recorder, r.PC, r.Message), r.Level, "", r.Time, r.Message, flags)
	} else {
		e.beginReplaced(&r, flags)
	}
	b.User()
	for _, a := range e.extra { // extra attributes are in no group
		e.add(&a, a.Value.Kind())
	}
	e.prefix, e.groups = h.prefix, append(e.groups, h.groups...)
	if h.with != nil {
		b.Add(h.with)
	}
	r.Attrs(e.each)
	if e.cut && !h.left.cut {
		b.Truncated()
	}
	b.End()
	err = e.batch.Write()
	if at != 0 && err == nil {
		bothways.Slog(s.recorder, ref.SpanID, at, r.Message)
	}
	return err
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("slogadapter: panic while recording: %s", safecall.Text(p))
	}
}

// noSpan is the span that SpanFromContext returns for a context without a span.
var noSpan = trace.SpanFromContext(context.Background())

// refOf returns the ids and the flags of a span.
func refOf(span trace.Span) (format.SpanRef, trace.TraceFlags) {
	sc := span.SpanContext()
	ref := format.SpanRef{TraceID: sc.TraceID(), SpanID: sc.SpanID()}
	if ref.SpanID == ([8]byte{}) {
		return ref, mapping.DefaultLogFlags
	}
	return ref, sc.TraceFlags()
}
