package slogadapter

import (
	"encoding/binary"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
)

// A shape is what the records of one call site have in common, encoded once: all
// but message, time and values. A record whose level and keys are those of a shape
// is encoded by copying it and adding its values.
//
// What shapes do not cover goes the long way: groups, values that take code of the
// user's, keys that come twice, ReplaceAttr. A shape is made of a record that went
// that way and turned out to be plain.
type shape struct {
	level slog.Level
	flags trace.TraceFlags // of the span
	with  *withKeys
	rows  []row   // of the attributes
	blob  []byte  // metadata and the number of attributes; version 2: all names, too
	order []int32 // version 2: in which order values come
	count int     // where in the blob the number of attributes is
	names int     // bytes of the names of rows, and of the level
	room  int     // for all but message, texts, and what With has gathered
	pre   []byte  // version 1: the name of the time
	all   []byte  // version 1, when With has gathered nothing: blob and pre
	tail  []byte  // otel.json where values are nil, in version 1 with its name
	// fixed holds the values of log.level and trace_flags if the record has them, in
	// version 1 with their names. ends holds the offset behind each of them.
	fixed []byte
	ends  []int
}

// A row is the name of an attribute. A short one is copied with what is behind it
// in two moves.
type row struct {
	key   string // as it is given
	null  bool   // the value is nil
	size  int    // of the name, encoded
	long  []byte // one that is not short
	short [shortName]byte
}

const shortName = 32

func newRow(key, stored string) row {
	b := format.AppendString(nil, stored)
	r := row{key: key, size: len(b)}
	if copy(r.short[:], b) < len(b) {
		r.long = b
	}
	return r
}

// is reports whether the row is that of key, mostly without a look at it.
func (r *row) is(key string) bool {
	return len(key) == len(r.key) && (unsafe.StringData(key) == unsafe.StringData(r.key) || key == r.key)
}

// The numbers in shape.order for values that are not attributes of the record. The
// values in shape.fixed count down from orderFixed, those of With from orderWith.
const (
	orderTime  = -1
	orderTail  = -2
	orderFixed = -3
	orderWith  = orderFixed - maxFixed
)

// maxFixed is how many values shape.fixed can hold.
const maxFixed = 2

const (
	maxShapes     = 8  // of a call site
	maxShapeAttrs = 32 // of a record
)

// withKeys are the keys that With has gathered and the groups that are open, equal
// ones once in a process: loggers that are made for each request share shapes.
type withKeys struct {
	keys   []string // as they are stored
	prefix string   // of the record's keys
}

var (
	allKeysMu sync.Mutex
	allKeys   = make(map[string]*withKeys)
)

// maxAllKeys bounds what is remembered of programs that make up keys.
const maxAllKeys = 1 << 12

// internKeys returns the one withKeys with these keys, nil if there are too many.
func internKeys(attrs []format.Attribute, prefix string) *withKeys {
	var b strings.Builder
	for i := range attrs {
		b.WriteString(strconv.Itoa(len(attrs[i].Name))) // a name may hold anything
		b.WriteByte(':')
		b.WriteString(attrs[i].Name)
	}
	b.WriteByte('|')
	b.WriteString(prefix)
	key := b.String()
	allKeysMu.Lock()
	defer allKeysMu.Unlock()
	if w := allKeys[key]; w != nil {
		return w
	}
	if len(allKeys) >= maxAllKeys {
		return nil
	}
	w := &withKeys{prefix: prefix}
	for i := range attrs {
		w.keys = append(w.keys, attrs[i].Name)
	}
	allKeys[key] = w
	return w
}

// encoded is what With has gathered, as it is stored.
type encoded struct {
	keys *withKeys
	all  []byte // version 1: names and values; version 2: values
	ends []int  // of the values
}

// encode encodes what With has gathered, unless it is too special for shapes.
func (h *Handler) encode() {
	h.encoded = encoded{}
	if h.core.replace != nil || len(h.with.jsons) > 0 || h.with.cut || h.with.twice != nil || len(h.with.attrs) > 4*maxShapeAttrs {
		return
	}
	e := encoded{keys: internKeys(h.with.attrs, h.prefix)}
	v2 := h.core.v2
	for i := range h.with.attrs {
		a := &h.with.attrs[i]
		if !v2 {
			e.all = format.AppendString(e.all, a.Name)
		}
		if a.Value.Kind() == format.KindString {
			e.all = format.AppendText(e.all, a.Value.Text())
		} else {
			e.all = format.AppendValue(e.all, &a.Value)
		}
		e.ends = append(e.ends, len(e.all))
	}
	h.encoded = e
}

// learn makes a shape of a record that became s, if that is plain.
func (h *Handler) learn(pos *site, r *slog.Record, s *state, flags trace.TraceFlags) {
	n := r.NumAttrs()
	attrs := s.attrs
	var tail *format.Attribute
	if len(s.jsons) > 0 && len(attrs) > 0 {
		tail = &attrs[len(attrs)-1]
		attrs = attrs[:len(attrs)-1]
	}
	if h.encoded.keys == nil || r.Time.IsZero() || s.cut || s.twice != nil || n > maxShapeAttrs ||
		len(attrs) != len(h.with.attrs)+s.fixed+n || !utf8.ValidString(pos.name+pos.pkg+pos.file) {
		return
	}
	sh := &shape{level: r.Level, flags: flags, with: h.encoded.keys}
	plain := true
	own := attrs[len(attrs)-n:]
	nulls, errs := 0, 0
	r.Attrs(func(a slog.Attr) bool {
		name := own[len(sh.rows)].Name
		plain = plain && a.Value.Kind() != slog.KindGroup && a.Value.Kind() != slog.KindLogValuer && len(a.Key) <= len(name)
		if a.Value.Kind() == slog.KindAny && a.Value.Any() != nil {
			_, isError := a.Value.Any().(error)
			if errs++; !isError || errs > maxErrors {
				plain = false // a shape would never fit
			}
		}
		row := newRow(a.Key, name)
		sh.names += len(name)
		if row.null = isNil(&a.Value); row.null {
			nulls++
		}
		sh.rows = append(sh.rows, row)
		return true
	})
	if !plain || nulls != len(s.jsons) { // others are JSON, too
		return
	}
	if tail != nil {
		if !h.core.v2 {
			sh.tail = format.AppendString(nil, tail.Name)
		}
		sh.tail = format.AppendValue(sh.tail, &tail.Value)
	}
	sh.blob = appendMetadata(nil, &s.entry.Metadata)
	sh.count = len(sh.blob)
	sh.blob = format.AppendUint(sh.blob, uint64(len(s.attrs)))
	fixed := attrs[len(h.with.attrs) : len(attrs)-n]
	for i := range fixed[1:] {
		a := &fixed[1+i]
		if !h.core.v2 {
			sh.fixed = format.AppendString(sh.fixed, a.Name)
		}
		sh.fixed = format.AppendValue(sh.fixed, &a.Value)
		sh.ends = append(sh.ends, len(sh.fixed))
	}
	if !h.core.v2 {
		sh.pre = format.AppendString(sh.pre, fixed[0].Name) // the time, which is there
		sh.pre = append(sh.pre, byte(format.KindU64))
		if len(h.with.attrs) == 0 {
			sh.all = append(slices.Clone(sh.blob), sh.pre...)
		}
	} else {
		sh.columns(s.attrs, len(h.with.attrs), len(fixed), n)
	}
	sh.names += len(sh.fixed)
	sh.room = len(sh.blob) + len(sh.pre) + len(sh.fixed) + len(sh.tail) + (n+2)*roomAttr
	for i := range sh.rows {
		sh.room += len(sh.rows[i].long)
	}
	pos.mu.Lock()
	defer pos.mu.Unlock()
	var shapes []*shape
	if old := pos.shapes.Load(); old != nil {
		shapes = *old
	}
	if len(shapes) < maxShapes {
		shapes = append(slices.Clip(shapes), sh)
		pos.shapes.Store(&shapes)
	}
}

// columns sorts the names of version 2, and notes where the values are.
func (sh *shape) columns(attrs []format.Attribute, with, fixed, own int) {
	type column struct {
		name string
		from int32
	}
	columns := make([]column, len(attrs))
	for i := range attrs {
		from := int32(i - with - fixed)
		switch {
		case i < with:
			from = orderWith - int32(i)
		case i == with:
			from = orderTime
		case i < with+fixed:
			from = orderFixed - int32(i-with-1)
		case i == with+fixed+own:
			from = orderTail
		}
		columns[i] = column{attrs[i].Name, from}
	}
	slices.SortStableFunc(columns, func(a, b column) int { return strings.Compare(a.name, b.name) })
	for _, c := range columns {
		sh.blob = format.AppendString(sh.blob, c.name)
		sh.order = append(sh.order, c.from)
	}
	sh.blob = format.AppendUint(sh.blob, uint64(len(columns)))
}

func appendMetadata(b []byte, m *format.Metadata) []byte {
	b = format.AppendString(b, m.Name)
	b = format.AppendString(b, m.Target)
	b = append(b, byte(m.Level), 0)
	if m.File.Valid {
		b = format.AppendString(append(b, 1), m.File.Value)
		return format.AppendUint(append(b, 1), uint64(m.Line.Value))
	}
	return append(b, 0, 0)
}

// quick records r if a shape fits, and reports whether it did.
func (h *Handler) quick(pos *site, r *slog.Record, ref *format.SpanRef, flags trace.TraceFlags) (done bool, err error) {
	shapes := pos.shapes.Load()
	n := r.NumAttrs()
	if shapes == nil || h.encoded.keys == nil || n > min(maxShapeAttrs, h.core.maxAttrs) {
		return false, nil
	}
	if sec := r.Time.Unix(); sec < 0 || sec >= math.MaxInt64/1_000_000_000 || !isPlain(r.Message) {
		return false, nil // without a time, too
	}
	front, back, ok := attrsOf(r)
	if !ok {
		return h.quickCopy(*shapes, r, ref, flags)
	}
	return h.quickly(*shapes, r, ref, flags, &fields{front: front, back: back})
}

// quickCopy is quick where the attributes cannot be had in place.
func (h *Handler) quickCopy(shapes []*shape, r *slog.Record, ref *format.SpanRef, flags trace.TraceFlags) (done bool, err error) {
	var attrs [maxShapeAttrs]slog.Attr
	n := 0
	r.Attrs(func(a slog.Attr) bool {
		attrs[n%maxShapeAttrs] = a
		n++
		return true
	})
	return h.quickly(shapes, r, ref, flags, &fields{front: attrs[:n]})
}

func (h *Handler) quickly(shapes []*shape, r *slog.Record, ref *format.SpanRef, flags trace.TraceFlags, f *fields) (done bool, err error) {
	for _, sh := range shapes {
		if sh.level != r.Level || sh.flags != flags || sh.with != h.encoded.keys || !sh.has(f) {
			continue
		}
		texts, ok := sh.render(f)
		if !ok {
			continue
		}
		if len(r.Message)+h.with.bytes+sh.names+texts+len(sh.rows)*maxNumber > h.core.maxBytes {
			return false, nil // it may have to be cut
		}
		size := len(r.Message) + len(h.encoded.all) + texts + sh.room
		return true, h.core.recorder.LogRaw(ref, r.Time.UnixNano(), size, func(buf []byte) (n, attributes int) {
			return h.fill(buf, sh, r, f)
		})
	}
	return false, nil
}

// has reports whether the attributes have the keys of sh, and nil where that has
// it.
func (sh *shape) has(f *fields) bool {
	rows := sh.rows
	return len(rows) == len(f.front)+len(f.back) && haveKeys(rows, f.front) && haveKeys(rows[len(f.front):], f.back)
}

func haveKeys(rows []row, attrs []slog.Attr) bool {
	for i := range attrs {
		row := &rows[i]
		if !row.is(attrs[i].Key) || row.null && !isNil(&attrs[i].Value) {
			return false
		}
	}
	return true
}

// render asks errors for their texts, and returns the size of all texts. It takes
// no code of the user's but Error, and reports false where that is not enough, or
// a value is nil that is not in sh.
func (sh *shape) render(f *fields) (texts int, ok bool) {
	f.errors = 0
	front, ok := f.render(sh.rows, f.front)
	if !ok {
		return 0, false
	}
	back, ok := f.render(sh.rows[len(f.front):], f.back)
	return front + back, ok
}

// fill encodes r as sh has it into buf, which has room.
func (h *Handler) fill(buf []byte, sh *shape, r *slog.Record, f *fields) (n, attributes int) {
	f.errors = 0
	buf[0] = 1
	n = putUint(buf, 1, uint64(len(r.Message)))
	n += copy(buf[n:], r.Message)
	attributes = n + sh.count
	if h.core.v2 {
		return h.fillColumns(buf, n, sh, r, f), attributes
	}
	return h.fillRows(buf, n, sh, r, f), attributes
}

// maxNumber is how many bytes a value other than a text takes at most: a time.
const maxNumber = 40

// roomAttr is how much room an attribute takes at most beyond a text: for a name
// that is short, and for a value or a length. One of them is left behind the last,
// as short names are copied with what is behind them.
const roomAttr = shortName + 64

// fillRows puts what comes behind the message in version 1.
func (h *Handler) fillRows(b []byte, n int, sh *shape, r *slog.Record, f *fields) int {
	if sh.all != nil {
		n += copy(b[n:], sh.all)
	} else {
		n += copy(b[n:], sh.blob)
		n += copy(b[n:], h.encoded.all)
		n += copy(b[n:], sh.pre)
	}
	n = putUint(b, n, uint64(r.Time.UnixNano()))
	if len(sh.fixed) > 0 {
		n += copy(b[n:], sh.fixed)
	}
	n = f.put(b, n, sh.rows, f.front)
	n = f.put(b, n, sh.rows[len(f.front):], f.back)
	return n + copy(b[n:], sh.tail)
}

// null is the value nil as it is stored.
var null = format.AppendText(nil, "null")

func isNil(v *slog.Value) bool { return v.Kind() == slog.KindAny && v.Any() == nil }

// fillColumns puts what comes behind the message in version 2.
func (h *Handler) fillColumns(b []byte, n int, sh *shape, r *slog.Record, f *fields) int {
	var errors [maxShapeAttrs]uint8 // which of the texts, as they come in another order
	f.number(&errors)
	n += copy(b[n:], sh.blob)
	for _, from := range sh.order {
		switch {
		case from >= 0:
			f.errors = int(errors[from]) //nolint:gosec // G602: shapes have at most maxShapeAttrs rows
			n = f.value(b, n, &f.at(int(from)).Value)
		case from == orderTail:
			n += copy(b[n:], sh.tail)
		case from == orderTime:
			b[n] = byte(format.KindU64)
			n = putUint(b, n+1, uint64(r.Time.UnixNano()))
		case from > orderWith:
			n += copy(b[n:], nthValue(sh.fixed, sh.ends, orderFixed-from))
		default:
			n += copy(b[n:], nthValue(h.encoded.all, h.encoded.ends, orderWith-from))
		}
	}
	return n
}

// nthValue returns the value k of those in b, which end at ends.
func nthValue(b []byte, ends []int, k int32) []byte {
	begin := 0
	if k > 0 {
		begin = ends[k-1]
	}
	return b[begin:ends[k]]
}

// putUint is format.AppendUint into b, which has room.
func putUint(b []byte, n int, v uint64) int {
	if v <= 250 {
		b[n] = byte(v)
		return n + 1
	}
	return putLong(b, n, v)
}

func putLong(b []byte, n int, v uint64) int {
	b = b[n : n+9]
	switch {
	case v <= math.MaxUint16:
		b[0] = 251
		binary.LittleEndian.PutUint16(b[1:], uint16(v))
		return n + 3
	case v <= math.MaxUint32:
		b[0] = 252
		binary.LittleEndian.PutUint32(b[1:], uint32(v))
		return n + 5
	}
	b[0] = 253
	binary.LittleEndian.PutUint64(b[1:], v)
	return n + 9
}

// putText is format.AppendText into b, which has room.
func putText(b []byte, n int, s string) int {
	kind := byte(format.KindString)
	if !isPlain(s) {
		kind = byte(format.KindBytes)
	}
	b[n] = kind
	n = putUint(b, n+1, uint64(len(s)))
	return n + copy(b[n:], s)
}

func zigzag(n int64) uint64 { return uint64(n<<1) ^ uint64(n>>63) }

// errorText returns what an error says, and false if it panics.
func errorText(err error) (text string, ok bool) {
	defer func() {
		if !ok {
			_ = recover() // the long way tells of it
		}
	}()
	return err.Error(), true
}

// isPlain reports whether s is valid UTF-8, ASCII mostly.
func isPlain(s string) bool {
	for t := s; ; t = t[8:] {
		if len(t) < 8 {
			c := byte(0)
			for i := range len(t) {
				c |= t[i]
			}
			return c < utf8.RuneSelf || utf8.ValidString(s)
		}
		if (uint64(t[0])|uint64(t[1])<<8|uint64(t[2])<<16|uint64(t[3])<<24|
			uint64(t[4])<<32|uint64(t[5])<<40|uint64(t[6])<<48|uint64(t[7])<<56)&0x8080808080808080 != 0 {
			return utf8.ValidString(s)
		}
	}
}
