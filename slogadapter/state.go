package slogadapter

import (
	"log/slog"
	"maps"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
	"github.com/entrace-go/entrace/internal/scratch"
)

// A state is what it takes to turn one record, or the attributes of one With,
// into an entry. That of a record is used again for the next.
type state struct {
	attrList

	core    *core
	keep    bool // what is made outlives the call
	entry   format.TraceEntry
	each    func(slog.Attr) bool // s.attr, made once
	text    scratch.Text
	fixed   int      // how many of attrs are not the user's
	groups  []string // that attr is in, for ReplaceAttr
	path    []byte   // the same, each with a dot behind it
	depth   int
	visited int // attributes and groups
}

func (c *core) state() *state {
	if s, ok := c.states.Get().(*state); ok {
		return s
	}
	s := &state{core: c}
	s.each = func(a slog.Attr) bool {
		s.attr(a)
		return !s.cut || !s.spent() // go on for what is missing to be noticed
	}
	return s
}

// maxKeepAttrs is how long a list of attributes is kept for later use.
const maxKeepAttrs = 256

func (s *state) release() {
	attrs, jsons := s.attrs, s.jsons
	clear(attrs)
	clear(jsons)
	if cap(attrs) > maxKeepAttrs {
		attrs, jsons = nil, nil
	}
	s.attrList = attrList{attrs: attrs[:0], jsons: jsons[:0]}
	s.entry = format.TraceEntry{}
	s.groups, s.path = s.groups[:0], s.path[:0]
	s.fixed, s.depth, s.visited = 0, 0, 0
	s.text.Reset()
	s.core.states.Put(s)
}

// inherit adds what h has gathered.
func (s *state) inherit(h *Handler) {
	s.attrs = append(s.attrs, h.with.attrs...)
	s.jsons = append(s.jsons, h.with.jsons...)
	s.twice = maps.Clone(h.with.twice)
	s.names |= h.with.names
	s.cut = h.with.cut
}

// enter goes into the groups of h. Its texts count from then on, so that they
// leave the message its room.
func (s *state) enter(h *Handler) {
	s.bytes += h.with.bytes
	s.path = append(s.path, h.prefix...)
	if s.core.replace != nil {
		s.groups = append(s.groups, h.groups...)
	}
}

// builtins maps what every record has.
func (s *state) builtins(r *slog.Record, pos *site, flags trace.TraceFlags) {
	e := &s.entry
	lv, at, message := r.Level, r.Time, r.Message
	levelText := ""
	if s.core.replace != nil {
		at = s.replaceTime(at)
		lv, levelText = s.replaceLevel(lv)
		pos = s.replaceSource(pos, r)
		message = s.replaceMessage(message)
	}
	l, base := level(lv)
	e.Metadata.Level = l
	if levelText == "" && lv != base {
		mark := s.text.Mark() // as lv.String() has it, which allocates
		s.text.B = append(s.text.B, base.String()...)
		if lv > base {
			s.text.B = append(s.text.B, '+')
		}
		s.text.B = strconv.AppendInt(s.text.B, int64(lv-base), 10)
		levelText = s.text.From(mark)
	}
	levelText = s.limit(levelText)
	e.Message = format.Some(s.limit(message))
	e.Metadata.Name, e.Metadata.Target = pos.name, pos.pkg
	if pos.file != "" {
		e.Metadata.File, e.Metadata.Line = format.Some(pos.file), format.Some(pos.line)
	}
	if !at.IsZero() {
		s.attrs = append(s.attrs, format.Attribute{Name: format.AttrTime, Value: format.TimeValue(at)})
		s.fixed++
	}
	if levelText != "" {
		s.attrs = append(s.attrs, format.Attribute{Name: format.AttrLogLevel, Value: format.StringValue(levelText)})
		s.fixed++
	}
	if flags != format.DefaultLogFlags {
		s.attrs = append(s.attrs, format.Attribute{Name: format.AttrTraceFlags, Value: format.U64Value(uint64(flags))})
		s.fixed++
	}
}

// level returns the format's level for l, and that of slog's four which l is
// named after.
func level(l slog.Level) (format.Level, slog.Level) {
	switch {
	case l < slog.LevelDebug:
		return format.LevelTrace, slog.LevelDebug
	case l < slog.LevelInfo:
		return format.LevelDebug, slog.LevelDebug
	case l < slog.LevelWarn:
		return format.LevelInfo, slog.LevelInfo
	case l < slog.LevelError:
		return format.LevelWarn, slog.LevelWarn
	}
	return format.LevelError, slog.LevelError
}

// replaced calls ReplaceAttr. What a panic leaves of an attribute does not show
// it as it was: it may be a secret.
func (s *state) replaced(groups []string, a slog.Attr) (b slog.Attr) {
	defer func() {
		if p := recover(); p != nil {
			b = slog.String(a.Key, "!PANIC: "+panicText(p))
		}
	}()
	b = s.core.replace(groups, a)
	b.Value = b.Value.Resolve()
	return b
}

func isEmpty(a slog.Attr) bool { return a.Key == "" && a.Value.Equal(slog.Value{}) }

func (s *state) replaceTime(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	a := s.replaced(nil, slog.Time(slog.TimeKey, t))
	if isEmpty(a) {
		return time.Time{}
	}
	if a.Value.Kind() == slog.KindTime {
		return a.Value.Time()
	}
	s.add(a) // it became something else, which is an attribute like others
	return time.Time{}
}

func (s *state) replaceLevel(l slog.Level) (slog.Level, string) {
	a := s.replaced(nil, slog.Any(slog.LevelKey, l))
	if isEmpty(a) {
		return l, ""
	}
	if now, ok := a.Value.Any().(slog.Level); ok {
		return now, ""
	}
	return l, s.replacedText(a)
}

func (s *state) replaceMessage(m string) string {
	a := s.replaced(nil, slog.String(slog.MessageKey, m))
	if isEmpty(a) {
		return ""
	}
	return s.replacedText(a)
}

// replacedText returns what a level or message became, which is not counted yet.
// A group has no text: its attributes become the record's.
func (s *state) replacedText(a slog.Attr) string {
	switch a.Value.Kind() {
	case slog.KindString:
		return a.Value.String()
	case slog.KindGroup:
		s.group(a)
		return ""
	}
	counted := s.bytes
	v, _ := s.value(a.Value)
	s.bytes = counted
	return valueText(v)
}

func (s *state) replaceSource(pos *site, r *slog.Record) *site {
	if r.PC == 0 {
		return pos
	}
	a := s.replaced(nil, slog.Any(slog.SourceKey, &slog.Source{Function: pos.function, File: pos.file, Line: int(pos.line)}))
	if isEmpty(a) {
		return &s.core.sites.none
	}
	if src, ok := a.Value.Any().(*slog.Source); ok && src != nil {
		return newSite(src.Function, src.File, src.Line)
	}
	s.add(a)
	return &s.core.sites.none
}

// valueText returns what a value reads like.
func valueText(v format.Value) string {
	switch v.Kind() {
	case format.KindString, format.KindBytes:
		return v.Text()
	case format.KindBool:
		return strconv.FormatBool(v.Bool())
	case format.KindFloat:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return string(v.AppendDecimal(nil))
}

// spent reports whether the record has had all it may.
func (s *state) spent() bool {
	return len(s.attrs)-s.fixed >= s.core.maxAttrs || s.visited > 4*s.core.maxAttrs || s.bytes >= s.core.maxBytes
}

// attr adds an attribute, of a group those in it.
func (s *state) attr(a slog.Attr) {
	a.Value = a.Value.Resolve()
	if s.core.replace != nil && a.Value.Kind() != slog.KindGroup {
		a = s.replaced(s.groups, a)
	}
	s.add(a)
}

// add is attr for one that is resolved and replaced.
func (s *state) add(a slog.Attr) {
	if a.Key == "" && isEmpty(a) {
		return
	}
	if a.Value.Kind() == slog.KindGroup {
		s.group(a)
		return
	}
	s.put(a)
}

func (s *state) group(a slog.Attr) {
	attrs := a.Value.Group()
	if len(attrs) == 0 {
		return
	}
	// What is counted is every visit: a LogValuer can return groups of itself
	// that hold nothing at all.
	s.visited++
	if s.depth == maxDepth || s.spent() {
		s.cut = true
		return
	}
	s.depth++
	path, groups := len(s.path), len(s.groups)
	if a.Key != "" {
		s.path = append(append(s.path, a.Key...), '.')
		if s.core.replace != nil {
			s.groups = append(s.groups, a.Key)
		}
	}
	for _, a := range attrs {
		if s.spent() {
			s.cut = true
			break
		}
		s.attr(a)
	}
	s.path, s.groups = s.path[:path], s.groups[:groups]
	s.depth--
}

// put adds an attribute that is no group.
func (s *state) put(a slog.Attr) {
	s.visited++
	if s.spent() {
		s.cut = true
		return
	}
	name := s.name(a.Key)
	v, isJSON := s.value(a.Value)
	if isJSON {
		s.jsons = append(s.jsons, name)
	}
	s.attrs = append(s.attrs, format.Attribute{Name: name, Value: v})
}

// name returns the name under which key is stored.
func (s *state) name(key string) string {
	if len(s.path) > 0 {
		mark := s.text.Mark()
		s.text.B = append(append(s.text.B, s.path...), key...)
		key = s.text.From(mark)
	}
	if !utf8.ValidString(key) {
		key = string([]rune(key)) // as the recorder would, before names are compared
	}
	key = s.limit(key)
	if format.Reserved(key) {
		key = format.EscapeName(key)
	}
	if bit := nameBit(key); s.names&bit == 0 {
		s.names |= bit
		return key
	}
	for i := range s.attrs {
		if s.attrs[i].Name == key {
			return s.again(key)
		}
	}
	return key
}

// nameBit is the bit of a name in a filter of names.
func nameBit(name string) uint64 {
	if name == "" {
		return 1
	}
	n := len(name)
	return 1 << ((uint(name[0])*7 + uint(name[n-1])*31 + uint(name[n/2])*3 + uint(n)) & 63)
}

// again returns a name for a key that came before.
func (s *state) again(key string) string {
	if s.twice == nil {
		s.twice = make(map[string]int)
	}
	for {
		n := max(s.twice[key], 1) + 1
		s.twice[key] = n
		name := key + "#" + strconv.Itoa(n)
		free := true
		for i := range s.attrs {
			free = free && s.attrs[i].Name != name
		}
		if free {
			s.names |= nameBit(name)
			return name
		}
	}
}

// limit returns as much of a text as the record has room for. One that is cut
// takes all that is left, and the mark of a cut has room always.
func (s *state) limit(text string) string {
	room := max(s.core.maxBytes-s.bytes, len("…"))
	if len(text) > room {
		s.cut = true
		s.bytes = max(s.bytes, s.core.maxBytes)
		return format.Cut(text, room)
	}
	s.bytes += len(text)
	return text
}

// end adds what tells a reader about the attributes.
func (s *state) end() {
	if len(s.jsons) > 0 {
		mark := s.text.Mark()
		s.text.B = jsontext.AppendStrings(s.text.B, s.jsons)
		s.attrs = append(s.attrs, format.Attribute{Name: format.AttrJSON, Value: format.StringValue(s.text.From(mark))})
	}
	if s.cut {
		s.attrs = append(s.attrs, format.Attribute{Name: format.AttrTruncated, Value: format.BoolValue(true)})
	}
}
