package slogadapter

import (
	"log/slog"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/recorder"
)

// An encoder adds the attributes of one record, or of one WithAttrs or WithGroup, to its
// batch.
type encoder struct {
	budget

	shared *shared
	batch  *recorder.Batch
	inside inside.Batch         // of batch
	b      *record.Builder      // of batch
	each   func(slog.Attr) bool // adds an attribute and reports whether more can be added; created once
	groups []string             // the open groups, for ReplaceAttr
	prefix int                  // size of the names of the open groups, including a dot after each name
	depth  int
	extra  []slog.Attr // attributes to add: the results of ReplaceAttr for time, source, level and message
}

func (s *shared) encoder() *encoder {
	if e, ok := s.encoders.Get().(*encoder); ok {
		return e
	}
	e := &encoder{shared: s, batch: s.recorder.Batch()}
	e.inside = inside.OfBatch(e.batch)
	e.b = e.inside.Direct()
	e.each = func(a slog.Attr) bool {
		kind := a.Value.Kind()
		if kind == slog.KindLogValuer || s.replace != nil {
			kind = e.final(&a, kind)
		}
		e.add(&a, kind)
		return !e.cut || !e.spent() // if the budget is spent, go on to the next attribute: it sets cut
	}
	return e
}

func (e *encoder) release() {
	if len(e.groups) > 0 || len(e.extra) > 0 {
		clear(e.extra)
		clear(e.groups)
		e.groups, e.extra = e.groups[:0], e.extra[:0]
	}
	e.prefix, e.depth = 0, 0
	e.inside.Undo() // a panic, or the end of the goroutine, may have left a record unfinished
	e.shared.encoders.Put(e)
}

// begin begins the entry of a record and adds the data that every record has.
func (e *encoder) begin(s *site, l slog.Level, levelText string, at time.Time, message string, flags trace.TraceFlags) {
	lv, base := level(l)
	if levelText == "" && l != base {
		levelText = levelName(l)
	}
	all, left := e.shared.limits.bytes, e.bytes
	e.bytes = all // the attributes of WithAttrs do not count against the message
	levelText = e.text(levelText)
	message = e.text(message)
	e.bytes += left - all
	if s.call != nil {
		e.b.Place(s.call, uint8(lv), message)
	} else {
		m := s.metadata()
		m.Level = lv
		e.batch.Begin(format.Some(message), &m)
	}
	if !at.IsZero() {
		if sec := at.Unix(); sec >= 0 && sec < math.MaxInt64/1_000_000_000 {
			e.b.U64(format.AttrTime, uint64(at.UnixNano()))
		} else {
			v := format.TimeValue(at)
			e.inside.Value(format.AttrTime, &v)
			if year := at.UTC().Year(); year < 1678 || year > 2553 { // nanoseconds since 1970 overflow
				e.b.String(mapping.AttrTime, at.Format(time.RFC3339Nano))
			}
		}
	}
	if levelText != "" {
		e.b.String(mapping.AttrLogLevel, levelText)
	}
	if flags != mapping.DefaultLogFlags {
		e.b.U64(mapping.AttrTraceFlags, uint64(flags))
	}
}

// level returns the format's level for l. It also returns the one of slog's four levels on which l.String() is based,
// such as INFO for INFO+2.
func level(l slog.Level) (format.Level, slog.Level) {
	n := mapping.Level(l)
	return format.Level(n), max(mapping.SlogLevel(n), slog.LevelDebug)
}

// levelNames holds the names of the levels from -32 to 31, so that levelName does not allocate
// for these levels.
var levelNames = func() (names [64]string) {
	for i := range names {
		names[i] = slog.Level(i - len(names)/2).String()
	}
	return names
}()

func levelName(l slog.Level) string {
	if i := int(l) + len(levelNames)/2; i >= 0 && i < len(levelNames) {
		return levelNames[i]
	}
	return l.String()
}

// beginReplaced calls begin with the time, level, source and message of r after ReplaceAttr.
func (e *encoder) beginReplaced(r *slog.Record, flags trace.TraceFlags) {
	at := e.replaceTime(r.Time)
	l, levelText := e.replaceLevel(r.Level)
	s := e.replaceSource(r)
	message := e.replaceMessage(r.Message)
	e.begin(s, l, levelText, at, message, flags)
}

// replaced calls ReplaceAttr. If ReplaceAttr panics, the original value is not recorded, because
// it may be a secret.
func (e *encoder) replaced(groups []string, a slog.Attr) (b slog.Attr) {
	defer func() {
		if p := recover(); p != nil {
			b = slog.String(a.Key, "!PANIC: "+safecall.Text(p))
		}
	}()
	b = e.shared.replace(groups, a)
	b.Value = b.Value.Resolve()
	return b
}

func isEmpty(a slog.Attr) bool { return a.Key == "" && a.Value.Equal(slog.Value{}) }

func (e *encoder) replaceTime(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	a := e.replaced(nil, slog.Time(slog.TimeKey, t))
	if isEmpty(a) {
		return time.Time{}
	}
	if a.Value.Kind() == slog.KindTime {
		return a.Value.Time()
	}
	e.extra = append(e.extra, a) // the result is not a time: record it as an ordinary attribute
	return time.Time{}
}

func (e *encoder) replaceLevel(l slog.Level) (slog.Level, string) {
	a := e.replaced(nil, slog.Any(slog.LevelKey, l))
	if isEmpty(a) {
		return l, ""
	}
	if now, ok := a.Value.Any().(slog.Level); ok {
		return now, ""
	}
	return l, e.replacedText(a)
}

func (e *encoder) replaceMessage(m string) string {
	a := e.replaced(nil, slog.String(slog.MessageKey, m))
	if isEmpty(a) {
		return ""
	}
	return e.replacedText(a)
}

// replacedText returns the text of a, the result of ReplaceAttr for a level or message. A
// group has no text: its attributes are added to the record.
func (e *encoder) replacedText(a slog.Attr) string {
	switch a.Value.Kind() {
	case slog.KindString:
		return a.Value.String()
	case slog.KindGroup:
		e.extra = append(e.extra, a)
		return ""
	}
	return valueText(a.Value)
}

// replaceSource returns the site of r after ReplaceAttr. ReplaceAttr may hide a part of the message or the source, so
// a Place gets only data that ReplaceAttr has returned: never the message, and the source only if ReplaceAttr
// keeps it.
func (e *encoder) replaceSource(r *slog.Record) *site {
	sites, pc := &e.shared.sites, r.PC
	if pc != 0 {
		s := sites.source(pc)
		own := slog.Source{Function: s.function, File: s.file, Line: int(s.line)}
		given := own // a copy, because ReplaceAttr may change it
		a := e.replaced(nil, slog.Any(slog.SourceKey, &given))
		if src, ok := a.Value.Any().(*slog.Source); !ok || src == nil {
			if !isEmpty(a) {
				e.extra = append(e.extra, a)
			}
			pc = 0
		} else if *src != own {
			return newSite(src.Function, src.File, src.Line)
		}
	}
	return sites.of(e.shared.recorder, pc, "")
}

// final resolves the value of a and calls ReplaceAttr. It returns the kind of the final value.
func (e *encoder) final(a *slog.Attr, kind slog.Kind) slog.Kind {
	if kind == slog.KindLogValuer {
		a.Value = a.Value.Resolve()
		kind = a.Value.Kind()
	}
	if e.shared.replace != nil && kind != slog.KindGroup {
		*a = e.replaced(e.groups, *a)
		kind = a.Value.Kind()
	}
	return kind
}

// add adds an attribute. The value must be resolved and of the given kind, and ReplaceAttr must have been called.
func (e *encoder) add(a *slog.Attr, kind slog.Kind) {
	if kind == slog.KindGroup {
		e.group(a.Key, a.Value.Group())
		return
	}
	key, b := a.Key, e.b
	if key == "" && a.Value.Equal(slog.Value{}) {
		return
	}
	if !e.visit() {
		return
	}
	e.attrs--
	e.bytes -= e.prefix
	if utf8.UTFMax*len(key) > e.bytes {
		key = e.longKey(key)
	} else {
		e.bytes -= len(key)
	}
	switch kind {
	case slog.KindInt64:
		b.I64(key, a.Value.Int64())
	case slog.KindUint64:
		b.U64(key, a.Value.Uint64())
	case slog.KindFloat64:
		b.Float(key, math.Float64bits(a.Value.Float64()))
	case slog.KindBool:
		b.Bool(key, a.Value.Bool())
	case slog.KindDuration:
		b.Duration(key, a.Value.Duration())
	case slog.KindTime:
		e.time(key, a.Value.Time())
	case slog.KindAny:
		e.any(key, a.Value.Any())
	default:
		b.String(key, e.text(a.Value.String()))
	}
}

// longKey returns the part of the key of an attribute that fits.
func (e *encoder) longKey(key string) string { return e.text(wire.ValidText(key)) }

func (e *encoder) group(key string, attrs []slog.Attr) {
	if len(attrs) == 0 || !e.visit() {
		return
	}
	if e.depth == maxDepth {
		e.cut = true
		return
	}
	e.depth++
	prefix, groups := e.prefix, len(e.groups)
	if key != "" {
		name := e.groupName(key)
		e.b.Group(name)
		e.prefix += len(name) + 1
		if e.shared.replace != nil {
			e.groups = append(e.groups, key)
		}
	}
	e.all(attrs)
	if key != "" {
		e.b.EndGroup()
	}
	e.prefix, e.groups = prefix, e.groups[:groups]
	e.depth--
}

// all calls each for all attributes that can be added.
func (e *encoder) all(attrs []slog.Attr) {
	for _, a := range attrs {
		if !e.each(a) {
			return
		}
	}
}

// groupName returns the name of a group, cut to the remaining bytes of the record.
func (e *encoder) groupName(name string) string {
	const key = 8 // room for the key of an attribute
	room := e.bytes - e.prefix - key
	if utf8.UTFMax*len(name) <= room {
		return name
	}
	name = wire.ValidText(name)
	if len(name) > room {
		e.cut = true
		name = text.Cut(name, max(room, len("…")))
	}
	return name
}

// valueText returns the text of v, a value that ReplaceAttr returned for a level or message.
func valueText(v slog.Value) string {
	switch v.Kind() {
	case slog.KindDuration:
		return strconv.FormatInt(int64(v.Duration()), 10)
	case slog.KindTime:
		return v.Time().Format(time.RFC3339Nano)
	case slog.KindAny:
		return anyText(v.Any())
	}
	return v.String()
}
