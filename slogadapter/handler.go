package slogadapter

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
)

var _ slog.Handler = (*Handler)(nil)

// Options change how a [Handler] works. The zero value means defaults.
type Options struct {
	// Level is the lowest level that is recorded, read for every record. The
	// default is slog.LevelInfo.
	Level slog.Leveler
	// ReplaceAttr is called for every attribute that is no group, and for time,
	// level, msg and source with no groups, as slog.HandlerOptions has it. The
	// source is a *slog.Source. Level and message cannot be removed: a level
	// that became something else is stored as log.level, a message that was
	// removed is empty, a group becomes attributes. A panic leaves "!PANIC: …"
	// as the value.
	ReplaceAttr func(groups []string, a slog.Attr) slog.Attr
	// MaxAttrs is how many attributes of a record are kept. The default is 1000.
	MaxAttrs int
	// MaxBytes is how many bytes of text a record keeps. The default is 1 MiB.
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
	core *core

	// What With and WithGroup have gathered. Invariants: with is not changed any
	// more, and nothing is appended in its place; prefix is the names in groups,
	// each with a dot behind it.
	with   attrList
	groups []string
	prefix string

	encoded encoded // the same, for shapes
}

// A core is what a handler shares with those that are made of it.
type core struct {
	recorder *format.Recorder
	level    slog.Leveler
	replace  func([]string, slog.Attr) slog.Attr
	maxAttrs int
	maxBytes int
	sites    siteCache
	states   sync.Pool // of *state
	v2       bool      // of the format
}

// An attrList is attributes as they are stored, and what is to be known of them.
type attrList struct {
	attrs []format.Attribute
	jsons []string       // names of those that are JSON texts
	twice map[string]int // how often a name came that came twice
	names uint64         // a filter: has the bit of every name
	bytes int            // of text
	cut   bool           // something is missing
}

// New returns a handler that records to r. A nil o means defaults.
func New(r *format.Recorder, o *Options) *Handler {
	if o == nil {
		o = &Options{}
	}
	c := &core{recorder: r, level: o.Level, replace: o.ReplaceAttr, maxAttrs: o.MaxAttrs, maxBytes: o.MaxBytes}
	if c.level == nil {
		c.level = slog.LevelInfo
	}
	if c.maxAttrs <= 0 {
		c.maxAttrs = defaultMaxAttrs
	}
	if c.maxBytes <= 0 {
		c.maxBytes = defaultMaxBytes
	}
	c.sites.none.name = eventName
	c.v2 = r != nil && r.Version() == format.V2
	h := &Handler{core: c}
	h.encode()
	return h
}

// Enabled reports whether records of level l are recorded.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool {
	return l >= h.core.level.Level() && h.core.recorder.Takes(format.ProviderLogs)
}

// WithAttrs returns a handler whose records have attrs, too. Their values are
// resolved now; attrs is neither kept nor changed.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	s := state{core: h.core, keep: true}
	s.inherit(h)
	s.enter(h)
	for _, a := range attrs {
		s.attr(a)
	}
	if len(s.attrs) == len(h.with.attrs) && s.cut == h.with.cut {
		return h
	}
	c := *h
	c.with = s.attrList // with its texts, as nobody uses s again
	c.encode()
	return &c
}

// WithGroup returns a handler that puts later attributes into a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	c := *h
	c.groups = append(slices.Clip(h.groups), name)
	c.prefix = h.prefix + name + "."
	c.encode()
	return &c
}

// Handle records r, whatever its level. The context is only asked for its span:
// one that is done records, too.
func (h *Handler) Handle(ctx context.Context, r slog.Record) (err error) {
	c := h.core
	if !c.recorder.Takes(format.ProviderLogs) {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("slogadapter: panic: %s", panicText(p))
		}
	}()
	pos := c.sites.of(r.PC)
	var ref format.SpanRef
	flags := trace.TraceFlags(format.DefaultLogFlags) // which are not stored
	if span := trace.SpanFromContext(ctx); span != noSpan {
		ref, flags = refOf(span)
	}
	if c.replace == nil {
		if done, err := h.quick(pos, &r, &ref, flags); done {
			return err
		}
	}
	return h.slowly(pos, &r, ref, flags)
}

// slowly records r whatever is in it.
func (h *Handler) slowly(pos *site, r *slog.Record, ref format.SpanRef, flags trace.TraceFlags) (err error) {
	c := h.core
	s := c.state()
	defer s.release()
	s.inherit(h)
	s.builtins(r, pos, flags)
	s.enter(h)
	r.Attrs(s.each)
	s.end()
	s.entry.Attributes = s.attrs
	b := c.recorder.Batch()
	b.Entry(&s.entry)
	at := int64(0)
	if !r.Time.IsZero() {
		at = r.Time.UnixNano()
	}
	b.Log(ref, at)
	err = b.Write()
	h.learn(pos, r, s, flags)
	return err
}

// noSpan is what a context without a span has.
var noSpan = trace.SpanFromContext(context.Background())

// refOf returns the ids and the flags of a span.
func refOf(span trace.Span) (format.SpanRef, trace.TraceFlags) {
	sc := span.SpanContext()
	ref := format.SpanRef{TraceID: sc.TraceID(), SpanID: sc.SpanID()}
	if ref.SpanID == ([8]byte{}) {
		return ref, format.DefaultLogFlags
	}
	return ref, sc.TraceFlags()
}
