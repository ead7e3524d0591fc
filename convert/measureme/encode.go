package measureme

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/view"
)

// Encode writes the trace v to w as a profile of version 9. The format has 48 bits for times in nanoseconds, which
// is 78 hours, and no times before 1970. If the trace does not fit, Encode returns an error, and the output is
// unusable.
//
// Spans are assigned to lanes, on which spans nest. The lanes are the threads of the profile. Spans are written in
// the order in which they end, as the tools require. In memory, Encode keeps the order of all rows (about 6 bytes
// for each), all spans that are open at the same time, and at most 40 MiB of strings.
func Encode(ctx context.Context, w io.Writer, v *view.View) error {
	t, err := timeline.NewTimeline(ctx, v)
	if err != nil {
		return err
	}
	e := &encoder{ctx: ctx, v: v, t: t, w: bufio.NewWriterSize(w, fullPage), open: make(map[view.Row]event)}
	e.strings = writeTable{page: func(payload []byte) error { return e.page(tagStrings, payload) }, ids: make(map[string]uint64)}
	metadata, err := e.metadata()
	if err != nil {
		return err
	}
	if t.First < 0 || uint64(t.Last)-uint64(e.start) > maxEnd {
		return errRange
	}
	if _, err := e.w.Write(appendStart(nil, metadata)); err != nil {
		return err
	}
	e.strings.next = headerSize + uint64(len(metadata)) + 1
	err = t.Detailed(ctx, e.moment)
	if err == nil {
		err = e.integers()
	}
	e.strings.flush()
	return cmp.Or(err, e.strings.err, e.flush(), e.w.Flush())
}

// An encoder writes one profile.
type encoder struct {
	ctx     context.Context
	v       *view.View
	t       *timeline.Timeline
	w       *bufio.Writer
	start   int64
	strings writeTable
	first   []uint32           // for each process, the thread number of its first lane
	open    map[view.Row]event // spans that have begun but not ended
	events  []byte             // the events of the current page
	id, buf []byte             // buffers for an event: id for the label and the arguments, buf for one argument
	args    []argument
}

// An argument is an argument that an entry has kept from the event of a profile.
type argument struct {
	number int
	text   string
}

const (
	// maxResources is the maximum number of resources in the metadata.
	maxResources = 64
	// firstLane is the first thread number for lanes. Threads of profiles have smaller numbers.
	firstLane = 1 << 24
)

// metadata returns the metadata, and sets the start of the profile and the thread numbers. If the trace has the
// metadata of a profile, this is used, except if a row begins before its start_time.
func (e *encoder) metadata() ([]byte, error) {
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
	next := uint32(1)
	for i := range e.t.Processes {
		p := &e.t.Processes[i]
		e.first = append(e.first, next)
		next += uint32(p.Lanes) + 1
		if p.Row == 0 || len(made.Resources) == maxResources {
			continue
		}
		r, err := e.v.Entry(p.Row)
		if err != nil {
			return nil, err
		}
		attributes := make(map[string]string)
		for i := range r.Attributes {
			attributes[r.Attributes[i].Name] = r.Attributes[i].Value.String()
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
	e.start = e.t.First
	start := int64(old.start)
	if old.text != "" {
		for i := range e.first {
			e.first[i] += firstLane
		}
		if timed := e.t.First != e.t.Last || e.t.First != 0; !timed || start <= e.start && e.t.Last-start <= maxEnd {
			e.start, e.t.Last = start, max(e.t.Last, start)
			if !old.escaped {
				return []byte(old.text), nil
			}
		}
	}
	made.Start = e.start
	return json.Marshal(&made)
}

// process returns the process id and the command of a resource. The tools expect both in the metadata.
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

func threadOf(v format.Value) (uint32, bool) {
	n, ok := v.U64()
	return uint32(n), ok && n <= math.MaxUint32
}

// moment writes an instant or the end of a span. It skips integers.
func (e *encoder) moment(m *timeline.Moment, d *timeline.Details) error {
	at := uint64(m.Time - e.start)
	if m.Kind == timeline.Ends {
		ev := e.open[m.Row]
		delete(e.open, m.Row)
		ev.setPayload(ev.first(), at)
		return e.add(&ev)
	}
	ev, number := e.event(d, e.first[m.Group]+uint32(m.Lane))
	switch {
	case m.Kind == timeline.Begins:
		ev.setPayload(at, 0)
		e.open[m.Row] = ev
		return e.strings.err
	case number != nil:
		return nil
	}
	ev.setPayload(at, markInstant)
	return e.add(&ev)
}

// integers writes the log records that have an integer and no time.
func (e *encoder) integers() error {
	d := new(timeline.Details)
	for r := range e.v.Rows() {
		if _, timed := e.v.Start(r); timed || e.v.Role(r) != view.RoleLog {
			continue
		}
		if err := e.t.Details(r, d); err != nil {
			return err
		}
		ev, number := e.event(d, 0)
		if number == nil {
			continue
		}
		ev.setPayload(*number, markInteger)
		if err := e.add(&ev); err != nil {
			return err
		}
	}
	return nil
}

// event returns the event of an entry, without times. The result number is not nil if the event is an integer.
func (e *encoder) event(d *timeline.Details, lane uint32) (ev event, number *uint64) {
	ev.thread = lane
	kind, native, made := d.Category, false, false
	e.args = e.args[:0]
	for i := range d.Args {
		a := &d.Args[i]
		switch {
		case a.Name == attrKind:
			kind, native = a.Value.Text(), true
		case a.Name == attrMadeIDs:
			made = a.Value.Bool()
		case strings.HasPrefix(a.Name, attrArg):
			n, _ := strconv.Atoi(a.Name[len(attrArg):])
			e.args = append(e.args, argument{n, a.Value.Text()})
		}
	}
	slices.SortStableFunc(e.args, func(a, b argument) int { return cmp.Compare(a.number, b.number) })
	e.id = e.reference(e.id[:0], append(e.buf[:0], printable(cmp.Or(d.Name, unnamed))...))
	for _, a := range e.args {
		e.arg("", a.text, true)
	}
	for i := range d.Args {
		a := &d.Args[i]
		often := true
		switch a.Name {
		case "kind", attrKind, attrMadeIDs:
			continue
		case format.AttrTraceID, format.AttrSpanID, format.AttrParentSpanID:
			often = a.Name == format.AttrTraceID
			if native || made {
				continue
			}
		case "level":
			if native {
				continue
			}
		case attrThread:
			if n, ok := threadOf(a.Value); ok && native {
				ev.thread = n
				continue
			}
		case attrValue:
			if n, ok := a.Value.U64(); ok && n <= maxNano {
				number = &n
				continue
			}
		}
		if strings.HasPrefix(a.Name, attrArg) {
			continue
		}
		v := a.Any()
		e.arg(a.Name+"=", v.Display(), often)
	}
	if d.Links.Kind == otel.List {
		e.arg("links=", d.Links.Display(), false)
	}
	ev.kind = e.strings.intern([]byte(printable(cmp.Or(kind, unnamed))))
	if native || made {
		ev.id = e.strings.intern(e.id)
	} else {
		ev.id = e.strings.add(e.id)
	}
	return ev, number
}

// arg adds an argument to the id of an event. If often is set, the argument is stored once and the id refers to it.
func (e *encoder) arg(key, text string, often bool) {
	e.buf = append(append(e.buf[:0], printable(key)...), printable(text)...)
	e.id = append(e.id, separator)
	if often {
		e.id = e.reference(e.id, e.buf)
	} else {
		e.id = append(e.id, e.buf...)
	}
}

// reference appends a text to an id, or a reference to the text if this is shorter.
func (e *encoder) reference(id, text []byte) []byte {
	e.buf = text
	if len(text) <= 1+idSize {
		return append(id, text...)
	}
	return binary.LittleEndian.AppendUint64(append(id, reference), e.strings.intern(text))
}

// unnamed is the label of an event without a name. The tools do not accept an empty label.
const unnamed = "<unnamed>"

// printable returns s with U+FFFD instead of invalid UTF-8, and of control characters that the tools do not accept.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\f' || r == 0x7f {
			return utf8.RuneError
		}
		return r
	}, s)
}

// add writes a complete event.
func (e *encoder) add(ev *event) error {
	e.events = ev.appendTo(e.events)
	if len(e.events) < fullPage {
		return e.strings.err
	}
	return cmp.Or(e.strings.err, e.flush())
}

// flush writes the current page of events.
func (e *encoder) flush() error {
	if len(e.events) == 0 {
		return nil
	}
	err := e.page(tagEvents, e.events)
	e.events = e.events[:0]
	return err
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

// appendStart appends a file without events: the header of the file, and for each stream a page with its header.
// The only string is the metadata.
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
	// maxInterned is the maximum size of all interned strings. Beyond it, a string is written each time it is used.
	maxInterned      = 16 << 20
	maxInternedTexts = 1 << 18
)

// A writeTable writes the stream of string data.
type writeTable struct {
	page     func(payload []byte) error // writes a page of the stream
	next     uint64                     // address of the next string
	buf      []byte                     // data that was not yet passed to page
	ids      map[string]uint64
	interned int
	err      error
}

// add appends a string. b is its encoding without the terminator.
func (t *writeTable) add(b []byte) (id uint64) {
	id = t.next + firstRegular
	t.buf = append(append(t.buf, b...), terminator)
	t.next += uint64(len(b)) + 1
	if len(t.buf) >= stringPage {
		t.flush()
	}
	return id
}

// flush passes the buffered data to page. A page of strings never has the size of a full page of events, so that
// the size of a hole in the file shows which kind of page is missing.
func (t *writeTable) flush() {
	for part := range slices.Chunk(t.buf, fullPage/2) {
		if t.err == nil {
			t.err = t.page(part)
		}
	}
	t.buf = t.buf[:0]
}

// intern returns the id of the encoded string b, which it adds if necessary, and remembers the id.
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
