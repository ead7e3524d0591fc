package format

import (
	"encoding/binary"
	"unsafe"

	"github.com/entrace-go/entrace/internal/wire"
)

// A scanWorker decodes entries.
type scanWorker struct {
	*scan

	b      *scanBuffer // that is filled
	head   quickHead
	shapes [scanShapes]scanShape
	entry  uint64   // how many were looked at for names
	seen   []uint64 // in which of them there was each of options.Attributes last
}

// A scanShape is what all entries of version 2 have in common that have the same
// names. Programs write few kinds of entries, and each many times.
type scanShape struct {
	names []byte    // the encoding of all, with the count before them; none: of no use
	count int       // how many there are
	hits  []scanHit // those that are wanted, ascending

	missing []int // which of options.Attributes are not there
}

// A scanHit says that attribute attr of an entry is the first that
// options.Attributes[name] asks for.
type scanHit struct{ attr, name int }

// fill decodes the entries that b is for. With an error it has those before the
// one that is damaged. The entries are not copied first: that takes as long as to
// pass over them. So nothing but code of this package may see them, and if they
// change meanwhile it must not fail.
func (w *scanWorker) fill(b *scanBuffer) {
	f := w.file
	w.b = b
	b.batch.Entries, b.err = nil, nil
	if b.text = b.text[:0]; cap(b.text) > scanKeep {
		b.text = nil
	}
	base := f.offsets[b.first]
	size := int64(f.offsets[b.last] - base)
	if err := f.checkSize(b.first, size-f.gap); size > scanSize && err != nil {
		b.err = err
		return
	}
	n := 0
	err := f.view(f.data+int64(base), size, func(v []byte) {
		for id := b.first; id < b.last; id++ {
			raw := v[int64(f.offsets[id]-base)+f.gap : f.offsets[id+1]-base]
			e := &b.entries[n]
			e.ID = id
			if !w.quick(raw, e) {
				if b.err = w.slow(raw, e); b.err != nil {
					return
				}
			}
			n++
		}
	})
	if err != nil {
		b.err = err
		return
	}
	b.batch.Entries = b.entries[:n:n]
}

// slow decodes the entry raw, whatever it is, into e.
func (w *scanWorker) slow(raw []byte, e *ScanEntry) error {
	var t TraceEntry
	if err := w.file.decode(raw, e.ID, &t); err != nil {
		return err
	}
	keep := func(s string) string { return w.keep([]byte(s)) }
	keepOptional := func(o Optional[string]) Optional[string] { return Optional[string]{keep(o.Value), o.Valid} }
	e.Parent, e.Level = t.Parent, t.Metadata.Level
	if w.options.Message {
		e.Message = keepOptional(t.Message)
	}
	if m := &t.Metadata; w.options.Metadata {
		m.Name, m.Target, m.ModulePath, m.File = keep(m.Name), keep(m.Target), keepOptional(m.ModulePath), keepOptional(m.File)
		e.Metadata = *m
	}
	for i, name := range w.options.Attributes {
		v, ok := t.Attribute(name)
		if v.lo > 0 && v.kind <= KindBytes {
			v.text = unsafe.StringData(w.keep(v.Bytes()))
		}
		e.Values[i] = Optional[Value]{Value: v, Valid: ok}
	}
	return nil
}

// quick is slow for the usual entries. It reports whether raw is one.
func (w *scanWorker) quick(raw []byte, e *ScanEntry) bool {
	h := &w.head
	p := h.decode(raw)
	if w.file.version.hasAttrColumns() {
		p = w.columns(raw, p, e)
	} else {
		p = w.pairs(raw, p, e)
	}
	if p != len(raw) || h.parent >= e.ID && h.parent != 0 {
		return false
	}
	e.Parent, e.Level = h.parent, Level(raw[h.level])
	if w.options.Message {
		e.Message = w.keepText(raw, h.message, h.name)
	}
	if m := &e.Metadata; w.options.Metadata {
		m.Name, m.Target = w.keep(textIn(raw, h.name, h.target)), w.keep(textIn(raw, h.target, h.level))
		m.ModulePath, m.File = w.keepText(raw, h.module, h.file), w.keepText(raw, h.file, h.line)
		m.Level, m.Line = e.Level, Optional[uint32]{}
		if raw[h.line] == 1 {
			m.Line.Value, _ = quickUint(raw, h.line+1)
			m.Line.Valid = true
		}
	}
	return true
}

// pairs passes over the attributes of version 1 at p and takes the values that
// are wanted.
func (w *scanWorker) pairs(b []byte, p int, e *ScanEntry) int {
	n, p := quickCount(b, p)
	sizes, missing := w.sizes, len(e.Values)
	w.entry++
	for {
		at, end, left := quickFind(b, p, n, true, sizes, &w.lasts)
		if left == 0 {
			p = end
			break
		}
		n, p = left-1, end
		for _, i := range w.names[b[end-1]] {
			if w.seen[i] != w.entry && w.options.Attributes[i] == string(textIn(b, at, end)) {
				w.seen[i] = w.entry
				p = w.value(b, end, &e.Values[i])
				if missing--; missing == 0 {
					sizes = 0
				}
			}
		}
		if p == end { // it was another name
			p = quickValues(b, p, 1)
		}
	}
	if missing > 0 {
		for i := range e.Values {
			if w.seen[i] != w.entry {
				e.Values[i] = Optional[Value]{}
			}
		}
	}
	return p
}

// columns is pairs for version 2, in which the count of the names comes at p.
func (w *scanWorker) columns(b []byte, p int, e *ScanEntry) int {
	if uint(p)+1 >= uint(len(b)) {
		return nowhere
	}
	s := &w.shapes[(b[p]+5*b[p+1])%scanShapes]
	if n := len(s.names); n > 0 && n <= len(b)-p && string(s.names) == string(b[p:p+n]) {
		p += n
	} else if p = w.learn(b, p, s); p == nowhere {
		return nowhere
	}
	count, p := quickCount(b, p)
	if count != s.count {
		return nowhere
	}
	for _, i := range s.missing {
		e.Values[i] = Optional[Value]{}
	}
	next := 0
	for i, hit := range s.hits {
		if hit.attr < next { // the same name is wanted twice
			e.Values[hit.name] = e.Values[s.hits[i-1].name]
			continue
		}
		p = w.value(b, quickValues(b, p, hit.attr-next), &e.Values[hit.name])
		next = hit.attr + 1
	}
	return quickValues(b, p, count-next)
}

// learn passes over the names at p and makes s of them.
func (w *scanWorker) learn(b []byte, p int, s *scanShape) int {
	s.names, s.hits = s.names[:0], s.hits[:0]
	first := p
	s.count, p = quickCount(b, p)
	left := len(w.options.Attributes)
	w.entry++
	attr := 0
	for ; attr < s.count && left > 0; attr++ {
		at := p
		p = quickText(b, at)
		if w.sizes&(1<<(uint(p-at)&63)) == 0 || uint(p) >= uint(len(b)) {
			continue
		}
		for _, i := range w.names[b[p-1]] {
			if w.seen[i] != w.entry && w.options.Attributes[i] == string(textIn(b, at, p)) {
				w.seen[i] = w.entry
				s.hits = append(s.hits, scanHit{attr, i})
				left--
			}
		}
	}
	p = quickNames(b, p, s.count-attr)
	if uint(p) >= uint(len(b)) {
		return nowhere
	}
	s.missing = s.missing[:0]
	for i := range w.seen {
		if w.seen[i] != w.entry {
			s.missing = append(s.missing, i)
		}
	}
	if p-first <= scanShapeSize {
		s.names = append(s.names, b[first:p]...)
	}
	return p
}

// value reads the value at p.
func (w *scanWorker) value(b []byte, p int, o *Optional[Value]) int {
	if uint(p)+1 >= uint(len(b)) {
		return nowhere
	}
	o.Valid = true
	v := &o.Value
	v.kind, v.text, v.hi = Kind(b[p]), nil, 0
	p++
	switch v.kind {
	case KindString, KindBytes:
		n, at := quickUint(b, p)
		if at == nowhere || uint64(n) > uint64(len(b)-at) {
			return nowhere
		}
		p = at + int(n)
		v.text, v.lo = unsafe.StringData(w.keep(b[at:p])), uint64(n)
	case KindBool:
		if b[p] > 1 {
			return nowhere
		}
		v.lo = uint64(b[p])
		p++
	case KindFloat:
		if len(b)-p < 8 {
			return nowhere
		}
		v.lo = binary.LittleEndian.Uint64(b[p:])
		p += 8
	case KindU64, KindI64, KindU128, KindI128:
		p = v.integer(b, p)
	default:
		return nowhere
	}
	return p
}

// integer reads the number at p, the value of v.
func (v *Value) integer(b []byte, p int) int {
	switch t, rest := b[p], b[p+1:]; {
	case t < wire.Tag16:
		v.lo = uint64(t)
		p++
	case t == wire.Tag16 && len(rest) >= 2:
		v.lo = uint64(binary.LittleEndian.Uint16(rest))
		p += 1 + 2
	case t == wire.Tag32 && len(rest) >= 4:
		v.lo = uint64(binary.LittleEndian.Uint32(rest))
		p += 1 + 4
	case t == wire.Tag64 && len(rest) >= 8:
		v.lo = binary.LittleEndian.Uint64(rest)
		p += 1 + 8
	case t == wire.Tag128 && len(rest) >= 16 && v.kind >= KindU128:
		v.hi, v.lo = binary.LittleEndian.Uint64(rest[8:]), binary.LittleEndian.Uint64(rest)
		p += 1 + 16
	default:
		return nowhere
	}
	switch sign := -(v.lo & 1); v.kind {
	case KindI64:
		v.lo = v.lo>>1 ^ sign
	case KindI128:
		v.hi, v.lo = v.hi>>1^sign, (v.lo>>1|v.hi<<63)^sign
	default: // unsigned
	}
	return p
}

// keep copies b to where it stays until the next batch.
func (w *scanWorker) keep(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	at := len(w.b.text)
	w.b.text = append(w.b.text, b...)
	return unsafe.String(&w.b.text[at], len(b))
}

// keepText is keep for the Optional string from p to end.
func (w *scanWorker) keepText(b []byte, p, end int) Optional[string] {
	if b[p] == 0 {
		return Optional[string]{}
	}
	return Some(w.keep(textIn(b, p+1, end)))
}
