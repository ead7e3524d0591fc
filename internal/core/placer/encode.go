package placer

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// ErrTooLarge says that an entry was dropped because it is too large even after cutting.
var ErrTooLarge = errors.New("the entry is too large")

const (
	// MaxAttributes is the largest number of attributes of an entry.
	MaxAttributes = 1 << 16
	// maxLinks is the largest number of attributes that name the trace, span or parent of an entry.
	maxLinks = 2
	// minShare is the least number of bytes that remain of a text in a cut entry. An id has fewer bytes, so it is
	// never cut.
	minShare = 64
)

// links are attributes of an entry that is not below its span or parent. They name the trace, the span or the
// parent instead.
type links struct {
	trace, span, parent []byte // ids; nil: the attribute is not needed
	end                 bool   // omit our own attributes that a span's end does not have
}

// An encoder encodes the entries of records as entries of a trace. It caches encodings.
type encoder struct {
	wire.Encoder
	*definitionCache // shared with the encoder of the next file

	maxSize int // the largest size of an entry

	// State of the entry that is being encoded.
	twice   map[string]int
	jsons   []string // names of attributes that are JSON texts
	anys    []string // names of attributes that are AnyValue texts
	durs    []string // names of attributes that are durations
	durText textOf   // durs of the last entry with durations, and its encoding
	path    path
	prefix  []byte // the prefix of the open groups, used if path is unknownPath
	groups  []group
	scratch []byte
	times   timeEncoder
	share   int // the number of bytes that remain of each text; 0: all
	left    int // with share > 0: how many more optional attributes are allowed
	cut     bool
}

// A textOf holds a list of names, and an encoded value with the list as JSON.
type textOf struct {
	names []string
	value []byte
}

// A group is an open group of attributes. It holds the path and the prefix length to restore when the group ends.
type group struct {
	path   path
	prefix int
}

// entry appends the current entry of c to e.B, below the entry parent. h is the head of the current entry. Even if
// entry returns an error, it reads c to the end of the current entry.
func (e *encoder) entry(c *record.Cursor, h *record.Head, parent uint32, l *links) error {
	e.trim()
	start := len(e.B)
	first := *c
	e.share, e.cut = 0, false
	e.encode(c, h, parent, l)
	size := len(e.B) - start
	if size <= e.maxSize && e.Count() <= MaxAttributes {
		if size <= minEntry && wire.IsZero(e.B[start:]) {
			// A reader would mistake an entry of zeros for zeros that a crash has left.
			e.B = e.B[:start]
			named := record.Head{Name: record.Text{Text: "(empty)"}}
			e.encode(&first, &named, parent, l)
		}
		return nil
	}
	e.left = min(MaxAttributes-maxLinks-3, e.maxSize/(8*minShare))
	e.share = max(e.maxSize/2/(2*min(e.Count(), e.left)+8), minShare)
	e.B, e.cut = e.B[:start], true
	e.encode(&first, h, parent, l)
	if len(e.B)-start > e.maxSize || e.Count() > MaxAttributes {
		e.B = e.B[:start]
		return ErrTooLarge
	}
	return nil
}

// minEntry is an upper bound for the size of the smallest entry.
const minEntry = 10

func (e *encoder) encode(c *record.Cursor, h *record.Head, parent uint32, l *links) {
	e.B = wire.AppendUint(e.B, uint64(parent))
	e.head(h)
	e.Begin()
	if l.trace != nil {
		e.Name(attrTraceID)
		e.Hex(l.trace)
	}
	if l.span != nil {
		e.Name(attrSpanID)
		e.Hex(l.span)
	}
	if l.parent != nil {
		e.Name(attrParentSpanID)
		e.Hex(l.parent)
	}
	e.entries++
	e.jsons, e.anys, e.durs = e.jsons[:0], e.anys[:0], e.durs[:0]
	e.path, e.prefix, e.groups = 0, e.prefix[:0], e.groups[:0]
	if len(e.twice) > 0 {
		clear(e.twice)
	}
	e.items(c, l)
	e.list(mapping.AttrJSON, e.jsons)
	e.list(mapping.AttrAnyValue, e.anys)
	if len(e.durs) > 0 { // cached, because entries often have the same list
		if !slices.Equal(e.durs, e.durText.names) {
			text := wire.ValidText(string(jsontext.AppendStrings(nil, e.durs)))
			e.durText = textOf{slices.Clone(e.durs), wire.AppendString([]byte{wire.KindString}, text)}
		}
		e.EncodedName(mapping.AttrDurations, encodedDurations)
		e.B = append(e.B, e.durText.value...)
	}
	if e.cut {
		e.Name(mapping.AttrTruncated)
		e.Bool(true)
	}
	e.End()
}

// head encodes the head of the entry: the fields before the attributes, except for the parent.
func (e *encoder) head(h *record.Head) {
	if h.Place == 0 {
		if e.share == 0 && h.Name.Number != 0 && h.Target.Number != 0 && !h.HasMessage && !h.HasModule && !h.HasFile && !h.HasLine {
			e.B = append(append(e.B, 0), e.number(h.Name.Number).encoded...) // usually a span
			e.B = append(e.B, e.number(h.Target.Number).encoded...)
			e.B = append(e.B, h.Level, 0, 0, 0)
			return
		}
		w := e.definitionCache.head(h)
		e.cutHead(&w)
		e.B = w.Append(e.B)
		return
	}
	p := e.place(h.Place)
	if p == nil { // the definition was lost
		w := wire.Head{Name: "place#" + strconv.Itoa(int(h.Place)), Level: h.Level, HasMessage: true, Message: wire.ValidText(h.Message)}
		e.cutHead(&w)
		e.B = w.Append(e.B)
		return
	}
	switch {
	case h.PlaceMessage:
		e.B = append(e.B, p.message...)
	case e.share > 0:
		e.B = wire.AppendString(append(e.B, 1), text.Cut(wire.ValidText(h.Message), e.share))
	default:
		e.B = wire.AppendText(append(e.B, 1), h.Message)
	}
	at := len(e.B) + p.levelAt
	e.B = append(e.B, p.head...)
	e.B[at] = h.Level
}

func (e *encoder) cutHead(w *wire.Head) {
	if e.share == 0 {
		return
	}
	for _, s := range []*string{&w.Message, &w.Name, &w.Target, &w.Module, &w.File} {
		*s = text.Cut(*s, e.share)
	}
}

// items encodes the attributes.
func (e *encoder) items(c *record.Cursor, l *links) {
	var i record.Item
	for {
		if e.path == 0 && e.share == 0 && l.span == nil && l.trace == nil && !l.end {
			e.plain(c, l)
		}
		switch c.Item(&i) {
		case record.CodeEnd:
			return
		case record.CodeAttribute:
			if stored := e.attribute(&i, l); stored != nil {
				e.EncodedName(stored.text, stored.encoded)
				e.value(&i, stored.text)
			}
		case record.CodeGroup:
			e.beginGroup(i.Name)
		case record.CodeGroupEnd:
			e.endGroup()
		case record.CodeTime:
			if !l.end {
				e.EncodedName(attrTime, encodedTime)
				e.U64(i.Lo)
			}
		case record.CodeTruncated:
			e.cut = true
		}
	}
}

// plain encodes attributes until Cursor.Common cannot read the next item. It is for attributes in no group, of an
// entry that is not cut. It has the effect of the methods attribute and value in half their time.
func (e *encoder) plain(c *record.Cursor, l *links) {
	b, appended := e.B, 0
	for {
		number, kind, lo, text := c.Common()
		if number == 0 {
			break
		}
		var n *name
		if int(number) < len(e.byNum) {
			n = e.byNum[number]
		}
		if n == nil || !n.own && n.used == e.entries {
			i := record.Item{Name: record.Text{Number: number}, Kind: kind, Lo: lo, Text: text}
			e.B = b
			n = e.attribute(&i, l)
			e.EncodedName(n.text, n.encoded)
			e.value(&i, n.text)
			b = e.B
			continue
		}
		n.used = e.entries
		if e.Columns {
			e.Column(n.text, len(b))
		} else {
			b = append(b, n.encoded...)
			appended++
		}
		switch kind {
		case record.ValueString:
			stored := wire.KindString
			if !wire.IsValid(text) {
				stored = wire.KindBytes
			}
			b = append(append(b, stored, byte(len(text))), text...) // Common returns only short texts
		case record.ValueBool:
			b = append(b, wire.KindBool, byte(lo))
		case record.ValueFloat:
			b = binary.LittleEndian.AppendUint64(append(b, wire.KindFloat), lo)
		case record.ValueU64:
			b = wire.AppendUint(append(b, wire.KindU64), lo)
		case record.ValueDuration:
			e.durs = append(e.durs, n.text)
			fallthrough
		case record.ValueI64:
			b = wire.AppendInt(append(b, wire.KindI64), int64(lo))
		}
	}
	e.B = b
	e.Appended(appended)
}

var (
	encodedTime      = wire.AppendString(nil, attrTime)
	encodedDurations = wire.AppendString(nil, mapping.AttrDurations)
)

func (e *encoder) beginGroup(t record.Text) {
	e.groups = append(e.groups, group{e.path, len(e.prefix)})
	was := e.path
	e.path = e.enter(was, t.Number)
	if e.path != unknownPath {
		return
	}
	if was != unknownPath {
		e.prefix = append(e.prefix, e.definitionCache.groups[was]...)
	}
	text := t.Text
	if t.Number != 0 {
		text, _ = e.text(t.Number)
	}
	e.prefix = append(append(e.prefix, text...), '.')
}

func (e *encoder) endGroup() {
	if n := len(e.groups); n > 0 {
		g := e.groups[n-1]
		e.path, e.prefix, e.groups = g.path, e.prefix[:g.prefix], e.groups[:n-1]
	}
}

// attribute returns the stored name of the attribute i, or nil if the attribute is omitted.
func (e *encoder) attribute(i *record.Item, l *links) *name {
	var n *name
	number := i.Name.Number
	switch {
	case number != 0:
		n = e.number(number)
		switch {
		case n.own || e.path == 0:
		case e.path != unknownPath:
			n = e.definitionCache.attribute(e.path, number)
		default:
			n = e.userName(e.join(i.Name))
		}
	case i.Own:
		n = e.ownName(wire.ValidText(strings.Clone(i.Name.Text)))
	default:
		n = e.userName(e.join(i.Name))
	}
	if n.own {
		switch {
		case l.span != nil && n.text == attrSpanID, l.trace != nil && n.text == attrTraceID:
			return nil // encode has written it already
		case l.end && !ofEnd(n.text):
			return nil
		case e.share > 0 && !mapping.Reserved(n.text):
			return e.cutName(n)
		}
		return n
	}
	if e.share > 0 {
		n = e.cutName(n)
		if n == nil {
			return nil
		}
	}
	if n.used == e.entries {
		n = e.again(n.text)
	}
	n.used = e.entries
	return n
}

// cutName returns the stored name of an attribute of a cut entry, or nil if the attribute is omitted.
func (e *encoder) cutName(n *name) *name {
	e.left--
	if e.left < 0 {
		return nil
	}
	if len(n.text) > e.share {
		return e.stored(text.Cut(n.text, e.share))
	}
	return n
}

// join returns the name t of an attribute or group, with the prefix of the open groups. It is for names that have
// no number or are in groups without a path. The result is valid until the next call.
func (e *encoder) join(t record.Text) []byte {
	text := t.Text
	if t.Number != 0 {
		text, _ = e.text(t.Number)
	}
	b := e.scratch[:0]
	if e.path != unknownPath {
		b = append(b, e.definitionCache.groups[e.path]...)
	} else {
		b = append(b, e.prefix...)
	}
	e.scratch = append(b, text...)
	return e.scratch
}

// again returns another name for an attribute whose name the entry already has: key, "#" and a number.
func (e *encoder) again(key string) *name {
	if e.twice == nil {
		e.twice = make(map[string]int)
	}
	for {
		n := max(e.twice[key], 1) + 1
		e.twice[key] = n
		if again := e.stored(key + "#" + strconv.Itoa(n)); again.used != e.entries {
			return again
		}
	}
}

// value encodes the value of an attribute.
func (e *encoder) value(i *record.Item, stored string) {
	switch i.Kind {
	case record.ValueString:
		e.cutString(i.Text)
	case record.ValueBytes:
		b := i.Text
		if e.share > 0 {
			b = b[:min(len(b), e.share)]
		}
		e.Bytes(b)
	case record.ValueBool:
		e.Bool(i.Lo != 0)
	case record.ValueFloat:
		e.Float(i.Lo)
	case record.ValueU64:
		e.U64(i.Lo)
	case record.ValueDuration:
		e.durs = append(e.durs, stored)
		e.I64(int64(i.Lo))
	case record.ValueI64:
		e.I64(int64(i.Lo))
	case record.ValueU128:
		e.U128(i.Hi, i.Lo)
	case record.ValueI128:
		e.I128(i.Hi, i.Lo)
	case record.ValueTime:
		e.scratch = e.times.append(e.scratch[:0], i)
		e.Text(e.scratch)
	case record.ValueJSON, record.ValueAnyValue:
		if e.share > 0 && len(i.Text) > e.share {
			e.cutString(i.Text) // a cut text is no longer JSON
			return
		}
		if i.Kind == record.ValueJSON {
			e.jsons = append(e.jsons, stored)
		} else {
			e.anys = append(e.anys, stored)
		}
		e.String(i.Text)
	case record.ValueHex:
		e.scratch = append(e.scratch[:0], i.Text...)
		e.Hex(e.scratch)
	}
}

func (e *encoder) cutString(s string) {
	if e.share > 0 && len(s) > e.share {
		s = text.Cut(wire.ValidText(s[:e.share])+"…", e.share)
	}
	e.String(s)
}

// list adds an attribute that is a JSON array of names.
func (e *encoder) list(attr string, list []string) {
	if len(list) > 0 {
		e.scratch = jsontext.AppendStrings(e.scratch[:0], list)
		e.Name(attr)
		e.Text(e.scratch)
	}
}
