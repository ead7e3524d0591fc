package slogadapter

import (
	"encoding/binary"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

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
	with  *withKeys
	rows  []row   // of the attributes
	blob  []byte  // metadata and the number of attributes; version 2: all names, too
	order []int32 // version 2: in which order values come
	count int     // where in the blob the number of attributes is
	pre   []byte  // version 1: the name of the time
	all   []byte  // version 1, when With has gathered nothing: blob and pre
	tail  []byte  // otel.json where values are nil, in version 1 with its name
	// levelText is the log.level, if there is one, in version 1 with its name.
	levelText []byte
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

// How shape.order names a value that is no attribute of the record: those of With
// are the numbers below.
const (
	orderTime  = -1
	orderLevel = -2
	orderTail  = -3
	orderWith  = -4
)

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
		b.WriteString(attrs[i].Name)
		b.WriteByte(0)
	}
	b.WriteByte(0)
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
func (h *Handler) learn(pos *site, r *slog.Record, s *state) {
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
	sh := &shape{level: r.Level, with: h.encoded.keys}
	plain := true
	own := attrs[len(attrs)-n:]
	nulls := 0
	r.Attrs(func(a slog.Attr) bool {
		name := own[len(sh.rows)].Name
		plain = plain && a.Value.Kind() != slog.KindGroup && a.Value.Kind() != slog.KindLogValuer && len(a.Key) <= len(name)
		row := newRow(a.Key, name)
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
	if len(fixed) > 1 {
		if !h.core.v2 {
			sh.levelText = format.AppendString(nil, fixed[1].Name)
		}
		sh.levelText = format.AppendValue(sh.levelText, &fixed[1].Value)
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
			from = orderLevel
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
func (h *Handler) quick(pos *site, r *slog.Record, ref *format.SpanRef) (done bool, err error) {
	shapes := pos.shapes.Load()
	if shapes == nil || h.encoded.keys == nil || r.Time.IsZero() {
		return false, nil
	}
	n := r.NumAttrs()
	for _, sh := range *shapes {
		if sh.level != r.Level || sh.with != h.encoded.keys || len(sh.rows) != n {
			continue
		}
		b := h.core.recorder.Batch()
		if at, ok := h.fill(b, sh, r); ok {
			return true, b.WriteLog(ref, at)
		}
		b.Undo()
		_ = b.Write() // it is empty
	}
	return false, nil
}

// fill encodes r as sh has it, unless it is of another shape.
func (h *Handler) fill(b *format.Batch, sh *shape, r *slog.Record) (at int64, ok bool) {
	if sec := r.Time.Unix(); sec < 0 || sec >= math.MaxInt64/1_000_000_000 || !isPlain(r.Message) {
		return 0, false
	}
	at = r.Time.UnixNano()
	// Here is room for all but texts.
	rest := len(sh.blob) + len(sh.pre) + len(sh.levelText) + len(sh.tail) + len(h.encoded.all) + (len(sh.rows)+1)*room
	buf := b.Raw(len(r.Message) + 16 + rest)
	start := len(buf)
	buf = format.AppendString(append(buf, 1), r.Message)
	head := len(buf)
	if h.core.v2 {
		buf, ok = h.fillColumns(buf, sh, r, at)
	} else {
		buf, ok = h.fillRows(buf, sh, r, at)
	}
	if !ok || len(buf)-start-len(sh.blob) > h.core.maxBytes || len(sh.rows) > h.core.maxAttrs {
		return 0, false
	}
	b.EndRaw(buf, head+sh.count)
	return at, true
}

// room is how much room there is in a buffer before each attribute: for a name
// and any value but a text.
const room = shortName + 64

// grown returns buf with room for n bytes behind the first used ones.
func grown(buf []byte, used, n int) []byte {
	buf = slices.Grow(buf[:used], n)
	return buf[:cap(buf)]
}

// fillRows appends what comes behind the message in version 1. buf has room for
// all but texts.
func (h *Handler) fillRows(buf []byte, sh *shape, r *slog.Record, at int64) ([]byte, bool) {
	if sh.all != nil {
		buf = append(buf, sh.all...)
	} else {
		buf = append(append(append(buf, sh.blob...), h.encoded.all...), sh.pre...)
	}
	n := len(buf)
	buf = buf[:cap(buf)]
	n = putUint(buf, n, uint64(at))
	if len(sh.levelText) > 0 {
		n += copy(buf[n:], sh.levelText)
	}
	rows, ok := sh.rows, true
	r.Attrs(func(a slog.Attr) bool {
		b, k := buf, n // in registers, as what is shared with the closure is not
		if len(b)-k < room {
			b = grown(b, k, 4*room)
		}
		row := &rows[0]
		rows = rows[1:]
		if !row.is(a.Key) {
			ok = false
			return false
		}
		if row.long == nil {
			*(*[shortName]byte)(b[k:]) = row.short
			k += row.size
		} else {
			b = append(b[:k], row.long...)
			k = len(b)
			b = grown(b, k, room)
		}
		if row.null || isNil(&a.Value) {
			if ok = row.null && isNil(&a.Value); ok {
				k += copy(b[k:], null)
			}
			buf, n = b, k
			return ok
		}
		if a.Value.Kind() == slog.KindInt64 {
			b[k] = byte(format.KindI64)
			n = putUint(b, k+1, zigzag(a.Value.Int64()))
			buf = b
			return true
		}
		buf, n, ok = putValue(b, k, &a.Value)
		return ok
	})
	if len(sh.tail) > 0 {
		return append(buf[:n], sh.tail...), ok && len(rows) == 0
	}
	return buf[:n], ok
}

// null is the value nil as it is stored.
var null = format.AppendText(nil, "null")

func isNil(v *slog.Value) bool { return v.Kind() == slog.KindAny && v.Any() == nil }

// fillColumns appends what comes behind the message in version 2.
func (h *Handler) fillColumns(buf []byte, sh *shape, r *slog.Record, at int64) ([]byte, bool) {
	buf = append(buf, sh.blob...)
	var attrs [maxShapeAttrs]slog.Value
	i, ok := 0, true
	r.Attrs(func(a slog.Attr) bool {
		if !sh.rows[i].is(a.Key) {
			ok = false
			return false
		}
		attrs[i] = a.Value
		i++
		return true
	})
	n := len(buf)
	buf = buf[:cap(buf)]
	for _, from := range sh.order {
		if len(buf)-n < room {
			buf = grown(buf, n, 4*room)
		}
		switch {
		case !ok:
			return buf[:n], false
		case from >= 0 && (sh.rows[from].null || isNil(&attrs[from])):
			if ok = sh.rows[from].null && isNil(&attrs[from]); ok {
				n += copy(buf[n:], null)
			}
		case from >= 0:
			buf, n, ok = putValue(buf, n, &attrs[from])
		case from == orderTail:
			buf = append(buf[:n], sh.tail...)
			n = len(buf)
			buf = buf[:cap(buf)]
		case from == orderTime:
			buf[n] = byte(format.KindU64)
			n = putUint(buf, n+1, uint64(at))
		case from == orderLevel:
			n += copy(buf[n:], sh.levelText) // it is short
		default:
			k := orderWith - from
			begin := 0
			if k > 0 {
				begin = h.encoded.ends[k-1]
			}
			buf = append(buf[:n], h.encoded.all[begin:h.encoded.ends[k]]...)
			n = len(buf)
			buf = buf[:cap(buf)]
		}
	}
	return buf[:n], ok
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

// putText is format.AppendText into b, which has room for a length.
func putText(b []byte, n int, s string) ([]byte, int) {
	if len(s) > 250 || len(b)-n-2 < len(s) {
		b = format.AppendText(b[:n], s)
		return b[:cap(b)], len(b)
	}
	b[n], b[n+1] = byte(format.KindString), byte(len(s))
	if copy(b[n+2:], s); !isPlain(s) {
		b[n] = byte(format.KindBytes)
	}
	return b, n + 2 + len(s)
}

// putValue puts a value at n that takes no code of the user's but Error. There is
// room for all but a text.
func putValue(b []byte, n int, v *slog.Value) ([]byte, int, bool) {
	switch v.Kind() {
	case slog.KindString:
		b, n = putText(b, n, v.String())
	case slog.KindInt64:
		b[n] = byte(format.KindI64)
		n = putUint(b, n+1, zigzag(v.Int64()))
	case slog.KindDuration:
		b[n] = byte(format.KindI64)
		n = putUint(b, n+1, zigzag(int64(v.Duration())))
	case slog.KindUint64:
		b[n] = byte(format.KindU64)
		n = putUint(b, n+1, v.Uint64())
	case slog.KindFloat64:
		b[n] = byte(format.KindFloat)
		binary.LittleEndian.PutUint64(b[n+1:], math.Float64bits(v.Float64()))
		n += 9
	case slog.KindBool:
		b[n], b[n+1] = byte(format.KindBool), 0
		if v.Bool() {
			b[n+1] = 1
		}
		n += 2
	case slog.KindTime:
		b[n] = byte(format.KindString)
		end := len(appendTime(b[:n+2], v.Time())) // some 40 at most
		b[n+1] = byte(end - n - 2)
		n = end
	case slog.KindAny:
		err, ok := v.Any().(error)
		if !ok {
			return b, n, false
		}
		var text string
		if text, ok = errorText(err); !ok {
			return b, n, false
		}
		b, n = putText(b, n, text)
	default:
		return b, n, false
	}
	return b, n, true
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
