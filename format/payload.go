package format

import (
	"unicode/utf8"
)

// A payload is an entry that is encoded but for what is known only at the moment
// in which it gets its place: the parent, and whether it needs the attributes
// that say where it belongs. It lies in a buffer of its owner.
//
// Invariants: start <= head <= split <= end; optional attributes are in the order
// in which they are stored.
type payload struct {
	start    int // message and metadata
	head     int // version 1: the optional attributes; version 2: the names
	split    int // version 1: the other attributes; version 2: the values
	end      int
	attrs    int // number of attributes that are not optional
	optional [maxOptional]optional
	options  int
}

// maxOptional is how many optional attributes an entry has at most: a trace id
// and a span id.
const maxOptional = 2

// An optional is where an attribute lies that can be left out. In version 1 name
// and value are one, so that value is empty.
type optional struct{ name, value [2]int }

// move makes p refer to a buffer in which everything lies delta bytes earlier.
func (p *payload) move(delta int) {
	p.start, p.head, p.split, p.end = p.start-delta, p.head-delta, p.split-delta, p.end-delta
	for i := range p.options {
		o := &p.optional[i]
		o.name[0], o.name[1] = o.name[0]-delta, o.name[1]-delta
		o.value[0], o.value[1] = o.value[0]-delta, o.value[1]-delta
	}
}

// size returns an upper bound of what appendTo appends.
func (p *payload) size() int { return p.end - p.start + 3*9 }

// appendTo appends the entry that p, which lies in buf, is below parent, with
// its optional attributes or without them.
func (p *payload) appendTo(b []byte, v Version, buf []byte, parent uint32, keep bool) []byte {
	b = append(appendUint(b, uint64(parent)), buf[p.start:p.head]...)
	n := uint64(p.attrs)
	if keep {
		n += uint64(p.options)
	}
	b = appendUint(b, n)
	if !v.hasAttrColumns() {
		if keep {
			return append(b, buf[p.head:p.end]...)
		}
		return append(b, buf[p.split:p.end]...)
	}
	if keep {
		b = appendUint(append(b, buf[p.head:p.split]...), n)
		return append(b, buf[p.split:p.end]...)
	}
	at := p.head
	for i := range p.options {
		o := &p.optional[i].name
		b = append(b, buf[at:o[0]]...)
		at = o[1]
	}
	b = appendUint(append(b, buf[at:p.split]...), n)
	at = p.split
	for i := range p.options {
		o := &p.optional[i].value
		b = append(b, buf[at:o[0]]...)
		at = o[1]
	}
	return append(b, buf[at:p.end]...)
}

// An encoder turns entries into payloads. All text that it lets through is valid
// UTF-8, since other readers refuse a file in which any is not.
type encoder struct {
	version Version
	limit   int // of an entry in bytes
	buf     []byte
	sorted  []Attribute // scratch for version 2
}

// payload appends e, which may have a few optional attributes, to d.buf.
func (d *encoder) payload(e *TraceEntry, opt ...Attribute) (payload, error) {
	if e.Metadata.Level >= numLevels {
		return payload{}, ErrBadLevel
	}
	p := d.encode(e, opt)
	if p.size() <= d.limit && p.attrs <= MaxAttributes-maxOptional {
		return p, nil
	}
	d.buf = d.buf[:p.start]
	p = d.encode(fit(e, d.limit), opt)
	if p.size() > d.limit {
		d.buf = d.buf[:p.start]
		return payload{}, ErrTooLarge
	}
	return p, nil
}

func (d *encoder) encode(e *TraceEntry, opt []Attribute) payload {
	p := payload{start: len(d.buf), attrs: len(e.Attributes), options: len(opt)}
	d.head(e)
	p.head = len(d.buf)
	if !d.version.hasAttrColumns() {
		for i := range opt {
			p.optional[i].name[0] = len(d.buf)
			d.buf = appendString(d.buf, opt[i].Name)
			d.value(&opt[i].Value)
			p.optional[i].name[1] = len(d.buf)
		}
		p.split = len(d.buf)
		for i := range e.Attributes {
			a := &e.Attributes[i]
			d.text(a.Name)
			d.value(&a.Value)
		}
		p.end = len(d.buf)
		return p
	}
	// The optional ones go first among those of their name, and are told from
	// these by that.
	d.sorted = append(append(d.sorted[:0], opt...), e.Attributes...)
	for i := range d.sorted {
		d.sorted[i].Name = validText(d.sorted[i].Name) // before it is sorted
	}
	SortAttributes(d.sorted)
	k := 0
	for i := range d.sorted {
		at := len(d.buf)
		d.buf = appendString(d.buf, d.sorted[i].Name)
		if isOptional(d.sorted, i, opt) {
			p.optional[k].name = [2]int{at, len(d.buf)}
			k++
		}
	}
	p.split = len(d.buf)
	k = 0
	for i := range d.sorted {
		at := len(d.buf)
		d.value(&d.sorted[i].Value)
		if isOptional(d.sorted, i, opt) {
			p.optional[k].value = [2]int{at, len(d.buf)}
			k++
		}
	}
	p.end = len(d.buf)
	clear(d.sorted) // keep nothing of the caller's alive
	return p
}

// isOptional reports whether the attribute i of a is one of opt.
func isOptional(a []Attribute, i int, opt []Attribute) bool {
	if i > 0 && a[i-1].Name == a[i].Name {
		return false
	}
	for j := range opt {
		if opt[j].Name == a[i].Name {
			return true
		}
	}
	return false
}

func (d *encoder) head(e *TraceEntry) {
	m := &e.Metadata
	name := m.Name
	if name == "" && !e.Message.Valid && len(e.Attributes) == 0 {
		// An entry of zeros alone would be read as the mark of a crash.
		name = "(empty)"
	}
	d.optionalText(e.Message)
	d.text(name)
	d.text(m.Target)
	d.buf = append(d.buf, byte(m.Level))
	d.optionalText(m.ModulePath)
	d.optionalText(m.File)
	if !m.Line.Valid {
		d.buf = append(d.buf, 0)
		return
	}
	d.buf = appendUint(append(d.buf, 1), uint64(m.Line.Value))
}

func (d *encoder) text(s string) { d.buf = appendString(d.buf, validText(s)) }

func (d *encoder) optionalText(s Optional[string]) {
	s.Value = validText(s.Value)
	d.buf = appendOptionalString(d.buf, s)
}

func (d *encoder) value(v *Value) {
	if v.kind == KindString && !utf8.ValidString(v.Text()) {
		w := BytesValue(v.Bytes())
		v = &w
	}
	d.buf = appendValue(d.buf, v)
}

// validText returns s with U+FFFD for each byte that is not UTF-8.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// AttrTruncated is the attribute, Bool true, of an entry of which something was
// cut off.
const AttrTruncated = "!TRUNCATED"

// fit returns a copy of e that is cut to about limit bytes and marked. What tells
// where an entry belongs stays whole.
func fit(e *TraceEntry, limit int) *TraceEntry {
	c := *e
	c.Attributes = make([]Attribute, 0, min(len(e.Attributes), MaxAttributes))
	// As many of the user's as get a readable share each.
	users := MaxAttributes - maxOptional - 1
	for i := range e.Attributes {
		if _, user := UserName(e.Attributes[i].Name); !user {
			users--
		}
	}
	users = min(users, limit/(8*minShare))
	for _, a := range e.Attributes {
		if _, user := UserName(a.Name); user {
			if users--; users < 0 {
				continue
			}
		}
		c.Attributes = append(c.Attributes, a)
	}
	// Half of the limit is for the longest texts, shared evenly: that leaves
	// the short ones whole.
	share := max(limit/2/(2*len(c.Attributes)+8), minShare)
	c.Message.Value = Cut(c.Message.Value, share)
	c.Metadata.Name = Cut(c.Metadata.Name, share)
	c.Metadata.Target = Cut(c.Metadata.Target, share)
	c.Metadata.ModulePath.Value = Cut(c.Metadata.ModulePath.Value, share)
	c.Metadata.File.Value = Cut(c.Metadata.File.Value, share)
	for i := range c.Attributes {
		a := &c.Attributes[i]
		if _, user := UserName(a.Name); user {
			a.Name = Cut(a.Name, share)
		}
		switch a.Value.kind {
		case KindString:
			if s := a.Value.Text(); len(s) > share {
				a.Value = StringValue(Cut(validText(s[:share])+ellipsis, share))
			}
		case KindBytes:
			a.Value = BytesValue(a.Value.Bytes()[:min(share, int(a.Value.lo))])
		}
	}
	if _, marked := e.Attribute(AttrTruncated); !marked {
		c.Attributes = append(c.Attributes, Attribute{Name: AttrTruncated, Value: BoolValue(true)})
	}
	return &c
}

// minShare is what every text keeps: an id is whole in it.
const minShare = 64

// ellipsis ends a text that was cut.
const ellipsis = "…"

// Cut returns s, or when it is longer than n bytes its beginning and "…", in at
// most n bytes and never ending within a rune.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len(ellipsis)
	if n < 0 {
		return ""
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + ellipsis
}
