package measureme

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/view"
)

// Encode writes the trace v to w as a profile of version 9. Times in it have 48 bits for nanoseconds,
// which are 78 hours, and begin after 1969. If the trace does not fit, the output is unusable.
//
// Spans are put onto lanes, which are the threads of the profile, so that the spans of one lane nest. They
// are written in the order in which they end, as the tools require. Encode needs about 84 bytes of memory
// a span in addition to v, 48 for any other entry, and at most 40 MiB for strings.
func Encode(ctx context.Context, w io.Writer, v *view.View) error {
	e := &encoder{ctx: ctx, v: v, w: bufio.NewWriterSize(w, fullPage), latest: math.MinInt64, earliest: math.MaxInt64}
	e.strings = writeTable{page: func(payload []byte) error { return e.page(tagStrings, payload) }, ids: make(map[string]uint64)}
	metadata, err := e.survey()
	if err == nil {
		_, err = e.w.Write(appendStart(nil, metadata))
	}
	e.strings.next = headerSize + uint64(len(metadata)) + 1
	if err == nil {
		err = e.v.Stored().Each(e.ctx, e.add)
	}
	e.strings.flush()
	if err = cmp.Or(err, e.strings.err); err == nil && !e.complete() {
		err = errRange
	}
	if err == nil {
		e.assign()
		err = e.events()
	}
	return cmp.Or(err, e.w.Flush())
}

// An encoder writes one profile.
type encoder struct {
	ctx     context.Context
	v       *view.View
	w       *bufio.Writer
	strings writeTable
	id, buf []byte // of an event: a label and arguments, and one of them

	// Invariants: records are in the order of their entries until they are written; spans are those of spans;
	// spanOf is the index of a row there, or -1.
	records []record
	spans   []uint32
	spanOf  []int32

	earliest, latest int64
	start            int64
}

// A record becomes an event.
type record struct {
	first, second int64 // times since 1970, or a number; second also says what it is
	kind, id      uint64
	row           view.Row // its rank among the spans, once the texts are made
	thread        uint32
	flags         flags
}

// flags says what a record is, and what it has not.
type flags uint8

const (
	isSpan flags = 1 << iota
	isInteger
	isOpen // it has no end
	isTimeless
	hasThread // the entry names its thread
)

// maxResources bounds how many resources the metadata names.
const maxResources = 64

// survey makes room for the records, finds when the profile starts, and returns the metadata. Metadata of a
// profile stays as it is, unless a row begins before the start in it.
func (e *encoder) survey() (text []byte, err error) {
	var made struct {
		Start     int64  `json:"start_time"`
		ProcessID uint32 `json:"process_id"`
		Command   string `json:"cmd"`
		Counter   struct {
			Name  string   `json:"name"`
			Units [][2]any `json:"units"`
		} `json:"counter"`
		Resources []map[string]string `json:"resources,omitempty"`
	}
	made.Counter.Name, made.Counter.Units = "wall-time", [][2]any{{"ns", 1}, {"μs", 1000}, {"ms", 1000000}, {"s", 1000000000}}
	var old metadata
	spans, all := 0, 0
	e.spanOf = make([]int32, e.v.Len())
	for row := range e.v.Rows() {
		e.spanOf[row] = -1
		switch role := e.v.Role(row); role {
		case view.RoleSpan, view.RoleEvent, view.RoleLog:
			all++
			if role == view.RoleSpan {
				spans++
			}
			if at, ok := e.v.Start(row); ok {
				e.earliest, e.latest = min(e.earliest, at), max(e.latest, at)
			}
		case view.RoleResource:
			if len(made.Resources) == maxResources {
				continue
			}
			r, err := e.v.Entry(row)
			if err != nil {
				return nil, err
			}
			attributes := make(map[string]string)
			for i := range r.Attributes {
				attributes[r.Attributes[i].Name] = string(appendValue(nil, r.Attributes[i].Value))
			}
			if made.Resources == nil {
				made.ProcessID, made.Command = process(r)
				if m, ok := parseMetadata(attributes[attrMetadata]); ok && utf8.ValidString(m.text) {
					old = m
				}
			}
			delete(attributes, attrMetadata)
			made.Resources = append(made.Resources, attributes)
		}
	}
	e.records, e.spans = make([]record, 0, all), make([]uint32, 0, spans)
	timed := e.earliest <= e.latest
	if timed {
		e.start = e.earliest
	}
	if start := int64(old.start); old.text != "" && (!timed || start <= e.earliest && e.latest-start <= maxEnd) {
		if e.start = start; !old.escaped {
			return []byte(old.text), nil
		}
	}
	if e.start < 0 {
		return nil, errRange
	}
	made.Start = e.start
	return json.Marshal(&made)
}

// process returns what the tools look for in a resource.
func process(r *format.TraceEntry) (pid uint32, command string) {
	if v, ok := r.Attribute(attrPID); ok {
		pid, _ = threadOf(v)
	}
	if v, ok := r.Attribute(attrCommand); ok {
		command = v.Text()
	}
	service := r.Message.Value
	if v, ok := r.Attribute(attrService); ok {
		service = v.Text()
	}
	if service != "" && !strings.Contains(command, crateFlag) {
		command += crateFlag + strings.ReplaceAll(service, " ", "_") + " "
	}
	return pid, command
}

// add makes the record of a row, and its texts.
func (e *encoder) add(row view.Row, t *format.TraceEntry) (err error) {
	r := record{row: row}
	switch e.v.Role(row) {
	case view.RoleSpan:
		r.flags = isSpan | isOpen
		if e.v.Stored().HasEnd(row) {
			if t, err = e.v.Entry(row); err != nil {
				return err
			}
		}
		e.spanOf[row] = int32(len(e.spans))
		e.spans = append(e.spans, uint32(len(e.records)))
	case view.RoleEvent, view.RoleLog:
	default:
		return nil
	}
	e.numbers(&r, t)
	if err := e.texts(&r, t); err != nil {
		return err
	}
	e.records = append(e.records, r)
	return e.strings.err
}

// numbers takes times and numbers from the entry of r.
func (e *encoder) numbers(r *record, t *format.TraceEntry) {
	at, timed := e.v.Start(r.row)
	if r.first, r.second = at, at; !timed {
		r.flags |= isTimeless
	}
	if v, ok := t.Attribute(format.AttrDuration); ok && r.flags&isSpan != 0 {
		if n, ok := v.U64(); ok {
			r.flags &^= isOpen
			r.second += int64(min(n, uint64(math.MaxInt64)-uint64(max(at, 0))))
		}
	}
	if v, ok := t.Attribute(attrThread); ok {
		if n, ok := threadOf(v); ok {
			r.flags |= hasThread
			r.thread = n
		}
	}
	if v, ok := t.Attribute(attrValue); ok && !timed {
		if n, ok := v.U64(); ok && n <= maxNano {
			r.flags ^= isTimeless | isInteger
			r.first = int64(n)
		}
	}
}

func threadOf(v format.Value) (uint32, bool) {
	n, ok := v.U64()
	return uint32(n), ok && n <= math.MaxUint32
}

// texts makes the strings of one record.
func (e *encoder) texts(r *record, t *format.TraceEntry) error {
	label, kind := t.Metadata.Name, "event"
	switch {
	case r.flags&isSpan != 0:
		kind = "internal"
		if v, ok := t.Attribute(mapping.AttrKind); ok {
			kind = v.Text()
		}
	case t.Message.Valid:
		label, kind = t.Message.Value, "log"
	}
	v, native := t.Attribute(attrKind)
	if native = native && v.Kind() == format.KindString; native {
		kind = v.Text()
	}
	r.kind = e.strings.intern([]byte(printable(cmp.Or(kind, unnamed))))
	e.id = e.reference(e.id[:0], append(e.buf[:0], printable(cmp.Or(label, unnamed))...))
	args := 0
	for v, ok := t.Attribute(argName(0)); ok && v.Kind() == format.KindString; v, ok = t.Attribute(argName(args)) {
		e.arg("", v, true)
		args++
	}
	unique := false
	if !native {
		var err error
		if unique, err = e.context(r.row, t); err != nil {
			return err
		}
	}
	if r.flags&isOpen != 0 {
		e.arg(attrOpen+"=", format.BoolValue(true), true)
	}
	for i := range t.Attributes {
		a := &t.Attributes[i]
		switch a.Name {
		case format.AttrTime, format.AttrDuration, mapping.AttrEvent, mapping.AttrJSON, mapping.AttrAnyValue, attrKind, attrMadeIDs, attrOpen:
			continue // it is elsewhere in the event, or means nothing there
		case format.AttrTraceID, format.AttrSpanID, format.AttrParentSpanID:
			if native || e.v.Ref(r.row).IsValid() {
				continue
			}
		case mapping.AttrKind:
			if !native {
				continue
			}
		case attrThread:
			if _, ok := threadOf(a.Value); ok && native { // what is not from a profile may be on another lane
				continue
			}
		case attrValue:
			if r.flags&isInteger != 0 {
				continue
			}
		}
		if digits, ok := strings.CutPrefix(a.Name, attrArg); ok {
			if n, err := strconv.Atoi(digits); err == nil && n >= 0 && n < args {
				continue
			}
		}
		e.arg(a.Name+"=", a.Value, true)
	}
	if unique {
		r.id = e.strings.add(e.id)
	} else {
		r.id = e.strings.intern(e.id)
	}
	return nil
}

// context adds the ids of a span, or of the span of a log record, the targets of links, the scope and the
// level. It reports whether it added an id that hardly another record has.
func (e *encoder) context(row view.Row, t *format.TraceEntry) (unique bool, err error) {
	hex := func(name string, id []byte, often bool) {
		e.arg(name, format.StringValue(string(wire.AppendHex(nil, id))), often)
	}
	ref, isSpan := e.v.Ref(row), e.v.Role(row) == view.RoleSpan
	if made, ok := t.Attribute(attrMadeIDs); (!ok || !made.Bool()) && ref.IsValid() && (isSpan || e.v.Role(row) == view.RoleLog) {
		unique = true
		hex("trace_id=", ref.TraceID[:], true)
		hex("span_id=", ref.SpanID[:], false)
		if up := e.v.Parent(row); isSpan && e.v.Role(up) == view.RoleSpan {
			parent := e.v.Ref(up).SpanID
			hex("parent_span_id=", parent[:], false)
		} else if v, ok := t.Attribute(format.AttrParentSpanID); ok && isSpan {
			e.arg("parent_span_id=", v, false)
		}
	}
	for _, kid := range e.v.Children(row) {
		if !isSpan || e.v.Role(kid) != view.RoleLink {
			break // links come first
		}
		link, err := e.v.Entry(kid)
		if err != nil {
			return unique, err
		}
		traceID, _ := link.Attribute(mapping.AttrLinkTraceID)
		spanID, _ := link.Attribute(mapping.AttrLinkSpanID)
		e.arg("otel.link=", format.StringValue(traceID.Text()+"-"+spanID.Text()), false)
	}
	if t.Metadata.Target != "" {
		e.arg("otel.scope.name=", format.StringValue(t.Metadata.Target), true)
	}
	if !isSpan && t.Message.Valid {
		e.arg("level=", format.StringValue(t.Metadata.Level.String()), true)
	}
	return unique, nil
}

// arg adds an argument to the id of an event: as a reference if it comes often.
func (e *encoder) arg(key string, v format.Value, often bool) {
	e.buf = append(e.buf[:0], printable(key)...)
	if v.Kind() == format.KindString {
		e.buf = append(e.buf, printable(v.Text())...)
	} else {
		e.buf = appendValue(e.buf, v)
	}
	if e.id = append(e.id, separator); often {
		e.id = e.reference(e.id, e.buf)
	} else {
		e.id = append(e.id, e.buf...)
	}
}

// reference appends a text to an id, or a reference to it if that is shorter.
func (e *encoder) reference(id, text []byte) []byte {
	if e.buf = text; len(text) <= 1+idSize {
		return append(id, text...)
	}
	return binary.LittleEndian.AppendUint64(append(id, reference), e.strings.intern(text))
}

const (
	attrOpen = "entrace.open"
	// unnamed is the label of what has none: the tools refuse an empty one.
	unnamed = "<unnamed>"
)

// printable returns s with U+FFFD for what is not UTF-8, and for the control characters that the tools refuse.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\f' || r == 0x7f {
			return utf8.RuneError
		}
		return r
	}, s)
}

// appendValue appends a value as a text.
func appendValue(b []byte, v format.Value) []byte {
	switch v.Kind() {
	case format.KindString:
		return append(b, v.Text()...)
	case format.KindBytes:
		return base64.StdEncoding.AppendEncode(b, v.Bytes())
	case format.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case format.KindFloat:
		return strconv.AppendFloat(b, v.Float(), 'g', -1, 64)
	}
	return v.AppendDecimal(b)
}

// complete gives an end to what has none, and a time. It reports whether all is
// within what the format can hold.
func (e *encoder) complete() bool {
	for i := range e.records {
		if r := &e.records[i]; r.flags&(isInteger|isTimeless|isOpen) == 0 {
			e.latest = max(e.latest, r.second)
		}
	}
	if e.earliest <= e.latest && uint64(e.latest)-uint64(e.start) > maxEnd {
		return false
	}
	for i := range e.records {
		r := &e.records[i]
		switch {
		case r.flags&isTimeless != 0:
			r.first = e.start
			if up := e.spanAround(r); up != nil {
				r.first = up.first
			}
			r.second = r.first
		case r.flags&isOpen != 0:
			r.second = e.latest
		}
	}
	return true
}

// spanAround returns the record of the span that r is below, or nil.
func (e *encoder) spanAround(r *record) *record {
	if at := e.spanOf[e.v.Parent(r.row)]; at >= 0 {
		return &e.records[e.spans[at]]
	}
	return nil
}

// assign gives each record its thread: a lane of the spans of a resource that name the same thread, or none.
// The first lane has the number that they name, each other one a number that no record names.
func (e *encoder) assign() {
	type group struct {
		resource view.Row
		thread   int64 // -1 for none
	}
	type lane struct{ group, lane int32 }
	groups := make(map[group]int32)
	numbers := make(map[lane]uint32)
	wanted, taken := make(map[uint32]bool), make(map[uint32]bool)
	groupOf := func(r *record) int32 {
		g := group{e.v.Resource(r.row), -1}
		if r.flags&hasThread != 0 {
			g.thread = int64(r.thread)
		}
		n, ok := groups[g]
		if !ok {
			n = int32(len(groups))
			groups[g] = n
			if g.thread >= 0 && !taken[r.thread] {
				numbers[lane{n, 0}] = r.thread
				taken[r.thread] = true
			}
		}
		return n
	}
	free := uint32(0)
	number := func(l lane) uint32 {
		n, ok := numbers[l]
		if !ok {
			for free++; wanted[free]; {
				free++
			}
			n = free
			numbers[l] = n
		}
		return n
	}
	intervals := make([]timeline.Interval, len(e.spans))
	for i := range e.records {
		wanted[e.records[i].thread] = true
	}
	for i, at := range e.spans {
		r := &e.records[at]
		intervals[i] = timeline.Interval{Start: r.first, End: r.second, Parent: e.spanOf[e.v.Parent(r.row)], Group: groupOf(r)}
	}
	lanes, order := timeline.Lanes(intervals)
	for i, at := range e.spans {
		e.records[at].thread = number(lane{intervals[i].Group, lanes[i]})
	}
	for i := range e.records {
		r := &e.records[i]
		if r.flags&isSpan != 0 {
			continue
		}
		if up := e.spanAround(r); up != nil {
			r.thread = up.thread
		} else {
			r.thread = number(lane{groupOf(r), 0})
		}
	}
	for rank, i := range order {
		e.records[e.spans[i]].row = view.Row(rank)
	}
}

// events writes the records in the order in which they end, what is contained
// before what contains it, and numbers at the end.
func (e *encoder) events() error {
	slices.SortFunc(e.records, func(a, b record) int {
		if n := cmp.Or(cmp.Compare(a.flags&isInteger, b.flags&isInteger), cmp.Compare(a.second, b.second), cmp.Compare(b.first, a.first),
			cmp.Compare(a.flags&isSpan, b.flags&isSpan)); n != 0 || a.flags&isSpan == 0 {
			return cmp.Or(n, cmp.Compare(a.row, b.row))
		}
		return cmp.Compare(b.row, a.row)
	})
	page := make([]byte, 0, fullPage)
	for i := range e.records {
		r := &e.records[i]
		ev := event{kind: r.kind, id: r.id, thread: r.thread}
		switch {
		case r.flags&isInteger != 0:
			ev.setPayload(uint64(r.first), markInteger)
		case r.flags&isSpan != 0:
			ev.setPayload(uint64(r.first-e.start), uint64(r.second-e.start))
		default:
			ev.setPayload(uint64(r.first-e.start), markInstant)
		}
		if page = ev.appendTo(page); len(page) == fullPage || i == len(e.records)-1 {
			if err := e.page(tagEvents, page); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	return nil
}

func (e *encoder) page(tag byte, payload []byte) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	var head [pageHeaderSize]byte
	if _, err := e.w.Write(appendPageHeader(head[:0], tag, len(payload))); err != nil {
		return err
	}
	_, err := e.w.Write(payload)
	return err
}

// appendStart appends a whole file without events: its header, and a page of each
// kind with the header of the stream. The only string is the metadata.
func appendStart(b, metadata []byte) []byte {
	b = appendHeader(b, magicFile)
	b = appendHeader(appendPageHeader(b, tagEvents, headerSize), magicEvents)
	b = appendHeader(appendPageHeader(b, tagStrings, headerSize+len(metadata)+1), magicStrings)
	b = append(append(b, metadata...), terminator)
	b = appendHeader(appendPageHeader(b, tagIndex, headerSize+indexSize), magicIndex)
	b = binary.LittleEndian.AppendUint64(b, metadataID)
	return binary.LittleEndian.AppendUint64(b, metadataOffset)
}

const (
	// maxInterned bounds the memory that interning takes. What comes when it is
	// full is written again each time.
	maxInterned      = 16 << 20
	maxInternedTexts = 1 << 18
)

// A writeTable makes the stream of string data.
type writeTable struct {
	page     func(payload []byte) error // takes a part of the stream
	next     uint64                     // address of the next string
	buf      []byte                     // what page has not got yet
	ids      map[string]uint64
	interned int
	err      error
}

// add appends a string of which b is the encoding, without its end.
func (t *writeTable) add(b []byte) (id uint64) {
	id = t.next + firstRegular
	t.buf = append(append(t.buf, b...), terminator)
	if t.next += uint64(len(b)) + 1; len(t.buf) >= stringPage {
		t.flush()
	}
	return id
}

// flush hands on what there is. No page of string data has the size of a full
// page of events, so that a hole in the file tells what it was.
func (t *writeTable) flush() {
	for part := range slices.Chunk(t.buf, fullPage/2) {
		if t.err == nil {
			t.err = t.page(part)
		}
	}
	t.buf = t.buf[:0]
}

// intern returns the id of b, which is encoded, and keeps it for later.
func (t *writeTable) intern(b []byte) uint64 {
	if id, ok := t.ids[string(b)]; ok {
		return id
	}
	id := t.add(b)
	if t.interned+len(b) <= maxInterned && len(t.ids) < maxInternedTexts {
		t.ids[string(b)] = id
		t.interned += len(b)
	}
	return id
}
