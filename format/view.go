package format

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/jsontext"
	"github.com/entrace-go/entrace/internal/wire"
)

// A Role is what an entry is in the logical view.
type Role uint8

// The roles of entries.
const (
	RoleOther    Role = iota // none of the others; what another program wrote
	RoleRoot                 // entry 0
	RoleResource             // what local root spans hang below
	RoleSpan                 // an OpenTelemetry span
	RoleSpanEnd              // the end of a span, which the view folds into it
	RoleEvent                // a span event
	RoleLink                 // a span link
	RoleLog                  // a log record
	RoleRecorder             // the recorder's own, such as entrace.end
)

var roleNames = [...]string{"other", "root", "resource", "span", "span end", "event", "link", "log", "recorder"}

// String returns the role in words.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "unknown"
}

// A View is the logical view of a trace, in which it does not matter how it was
// recorded: the end of a span is part of the span, trace ids that a parent
// implies are there, spans and log records hang below the span they belong to
// even where that was written later, and children are in the order of time,
// links first.
//
// A View takes about 34 bytes an entry and 100 more a span. It is safe for concurrent use. It is of
// no use any more when its File is closed.
type View struct {
	f *File

	// Invariants, for n entries: parents[i] is the parent in the view; the
	// view's tree has no cycle. ends[i] is the entry that ends the span i, or 0.
	// traces[i] is an index of ids, 0 for none. kids[first[i]:first[i+1]] are
	// the children of i in the view; a folded entry is nobody's child.
	roles   []Role
	parents []uint32
	times   []int64
	ends    []uint32
	traces  []uint32
	ids     [][16]byte
	spans   map[SpanRef]uint32
	refs    map[uint32][8]byte // span ids of spans
	owners  []uint32           // the span that an entry is or is below, or 0
	first   []uint32
	kids    []uint32
}

// noTime is the time of an entry that has none.
const noTime = math.MinInt64

// NewView builds the view of f by reading through it once.
func NewView(f *File) (*View, error) {
	n := f.Len()
	v := &View{
		f: f, roles: make([]Role, n), parents: make([]uint32, n), times: make([]int64, n), ends: make([]uint32, n),
		traces: make([]uint32, n), ids: make([][16]byte, 1), spans: make(map[SpanRef]uint32), refs: make(map[uint32][8]byte),
	}
	b := viewBuilder{View: v, traceOf: make(map[[16]byte]uint32), wanted: make(map[uint32]SpanRef)}
	if err := f.Walk(0, b.entry); err != nil {
		return nil, err
	}
	b.hang()
	b.order()
	b.own()
	return v, nil
}

type viewBuilder struct {
	*View

	traceOf map[[16]byte]uint32
	wanted  map[uint32]SpanRef // entries that say which span they belong below
}

// entry takes in one entry. Parents come before children.
func (b *viewBuilder) entry(id uint32, e *TraceEntry) error {
	var attrs struct {
		trace, span, parent string
		event, linkTrace    bool
	}
	b.parents[id], b.times[id] = b.f.Parent(id), noTime
	for i := range e.Attributes {
		a := &e.Attributes[i]
		switch a.Name {
		case AttrTraceID:
			attrs.trace = a.Value.Text()
		case AttrSpanID:
			attrs.span = a.Value.Text()
		case AttrParentSpanID:
			attrs.parent = a.Value.Text()
		case AttrTime:
			b.times[id] = valueTime(a.Value)
		case AttrEvent:
			attrs.event = a.Value.Bool()
		case AttrLinkTraceID:
			attrs.linkTrace = true
		}
	}
	parent := b.parents[id]
	b.traces[id] = b.traces[parent]
	if t, ok := parseID[[16]byte](attrs.trace); ok {
		b.traces[id] = b.trace(t)
	}
	span, hasSpan := parseID[[8]byte](attrs.span)
	role := b.role(id, e, hasSpan)
	switch {
	case attrs.event && role == RoleOther:
		role = RoleEvent
	case attrs.linkTrace && e.Metadata.Name == NameLink && role == RoleOther:
		role = RoleLink
	}
	b.roles[id] = role
	switch role {
	case RoleSpan:
		ref := SpanRef{b.ids[b.traces[id]], span}
		b.spans[ref] = id
		b.refs[id] = span
		if up, ok := parseID[[8]byte](attrs.parent); ok {
			b.wanted[id] = SpanRef{ref.TraceID, up}
		}
	case RoleSpanEnd:
		b.ends[parent] = id
	case RoleLog:
		if hasSpan {
			b.wanted[id] = SpanRef{b.ids[b.traces[id]], span}
		}
	}
	return nil
}

// role tells what e is, as far as attributes other than its ids do not matter.
func (b *viewBuilder) role(id uint32, e *TraceEntry, hasSpan bool) Role {
	name, parent := e.Metadata.Name, b.parents[id]
	switch {
	case id == 0:
		return RoleRoot
	case e.Message.Valid && strings.HasPrefix(name, "event"):
		return RoleLog
	case hasSpan && !e.Message.Valid && b.times[id] != noTime:
		return RoleSpan
	case hasSpan && name == NameSpanEnd && b.roles[parent] == RoleSpan && b.times[id] == noTime:
		return RoleSpanEnd
	case parent == 0 && name == NameResource:
		return RoleResource
	case parent == 0 && strings.HasPrefix(name, "entrace."):
		return RoleRecorder
	}
	return RoleOther
}

func (b *viewBuilder) trace(id [16]byte) uint32 {
	t, ok := b.traceOf[id]
	if !ok {
		t = uint32(len(b.ids))
		b.ids = append(b.ids, id)
		b.traceOf[id] = t
	}
	return t
}

// hang puts entries below the spans that they name.
func (b *viewBuilder) hang() {
	type move struct{ id, to uint32 }
	var moves []move
	for id, ref := range b.wanted {
		if to, ok := b.spans[ref]; ok && to != id && to != b.parents[id] {
			moves = append(moves, move{id, to})
		}
	}
	if len(moves) == 0 {
		return
	}
	slices.SortFunc(moves, func(x, y move) int { return cmp.Compare(x.id, y.id) })
	// An entry that moves below a later one can close a cycle. So take out those
	// that move, each with what is below it, and put them back one by one: tops
	// leads from an entry up to the top of the piece that it is in by now.
	tops := slices.Clone(b.parents)
	for _, m := range moves {
		tops[m.id] = m.id
	}
	top := func(id uint32) uint32 {
		for tops[id] != id {
			tops[id] = tops[tops[id]]
			id = tops[id]
		}
		return id
	}
	for _, m := range moves {
		to := m.to
		if top(to) == m.id {
			to = b.parents[m.id]
		}
		if top(to) == m.id {
			to = 0
		}
		b.parents[m.id], tops[m.id] = to, to
	}
}

// order builds the lists of children.
func (b *viewBuilder) order() {
	n := len(b.parents)
	counts := make([]uint32, n+1)
	for i := 1; i < n; i++ {
		if b.roles[i] != RoleSpanEnd {
			counts[b.parents[i]+1]++
		}
	}
	for i := range n {
		counts[i+1] += counts[i]
	}
	b.first = slices.Clone(counts)
	b.kids = make([]uint32, counts[n])
	for i := 1; i < n; i++ {
		if p := b.parents[i]; b.roles[i] != RoleSpanEnd {
			b.kids[counts[p]] = uint32(i)
			counts[p]++
		}
	}
	for i := range n {
		b.sort(b.kids[b.first[i]:b.first[i+1]])
	}
}

// own notes which span each entry is or is below.
func (b *viewBuilder) own() {
	b.owners = make([]uint32, len(b.parents))
	for next := []uint32{0}; len(b.parents) > 0 && len(next) > 0; {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		if b.roles[id] == RoleSpan {
			b.owners[id] = id
		} else {
			b.owners[id] = b.owners[b.parents[id]]
		}
		next = append(next, b.kids[b.first[id]:b.first[id+1]]...)
	}
}

// sort puts siblings, which are in the order of ids, in that of the view. An
// entry without a time stays behind the one before it.
func (b *viewBuilder) sort(kids []uint32) {
	type key struct {
		link int
		time int64
		id   uint32
	}
	sorted := true
	keys := make([]key, 0, 16)
	last := int64(noTime)
	for i, id := range kids {
		k := key{link: 1, time: b.times[id], id: id}
		if b.roles[id] == RoleLink {
			k.link, k.time = 0, noTime
		} else if k.time == noTime {
			k.time = last
		} else {
			last = k.time
		}
		keys = append(keys, k)
		if i > 0 && (k.link < keys[i-1].link || k.link == keys[i-1].link && k.time < keys[i-1].time) {
			sorted = false
		}
	}
	if sorted {
		return
	}
	slices.SortFunc(keys, func(x, y key) int {
		return cmp.Or(cmp.Compare(x.link, y.link), cmp.Compare(x.time, y.time), cmp.Compare(x.id, y.id))
	})
	for i := range kids {
		kids[i] = keys[i].id
	}
}

// File returns the file that v is a view of.
func (v *View) File() *File { return v.f }

// Len returns the number of raw entries. Their ids are below it.
func (v *View) Len() int { return len(v.roles) }

// Role returns what entry id is. The entry must exist.
func (v *View) Role(id uint32) Role { return v.roles[id] }

// Parent returns the id of the parent of entry id in the view, which may be
// larger. The entry must exist.
func (v *View) Parent(id uint32) uint32 { return v.parents[id] }

// Children returns the ids of the children of entry id in the view, in its
// order. The entry must exist; the slice must not be changed.
func (v *View) Children(id uint32) []uint32 {
	a, b := v.first[id], v.first[id+1]
	return v.kids[a:b:b]
}

// Ref returns the span that entry id is, or is below, with its trace. The entry
// must exist.
func (v *View) Ref(id uint32) SpanRef {
	owner := v.owners[id]
	if v.roles[id] == RoleSpanEnd {
		owner = v.parents[id]
	}
	return SpanRef{TraceID: v.ids[v.traces[id]], SpanID: v.refs[owner]}
}

// Span returns the entry of a span, and whether it is in the file.
func (v *View) Span(ref SpanRef) (id uint32, ok bool) {
	id, ok = v.spans[ref]
	return id, ok
}

// Missing returns the span that entry id says it belongs below, a span's parent or
// a log record's span, where that is not in the file. The entry must exist.
func (v *View) Missing(id uint32) (ref SpanRef, missing bool, err error) {
	name := AttrParentSpanID
	switch {
	case v.roles[v.parents[id]] == RoleSpan:
		return ref, false, nil
	case v.roles[id] == RoleLog:
		name = AttrSpanID
	case v.roles[id] != RoleSpan:
		return ref, false, nil
	}
	said, _, err := v.f.Attribute(id, name)
	if err != nil {
		return ref, false, err
	}
	ref.TraceID = v.ids[v.traces[id]]
	ref.SpanID, _ = parseID[[8]byte](said.Text())
	return ref, ref.IsValid(), nil
}

// Time returns the time of entry id, and whether it has one: of a span the start.
// The entry must exist.
func (v *View) Time(id uint32) (time.Time, bool) {
	if v.times[id] == noTime {
		return time.Time{}, false
	}
	return time.Unix(0, v.times[id]).UTC(), true
}

// Ended returns whether the span id says how long it took. The entry must exist.
func (v *View) Ended(id uint32) (time.Duration, bool, error) {
	at := id
	if v.ends[id] != 0 {
		at = v.ends[id]
	}
	d, ok, err := v.f.Attribute(at, AttrDuration)
	if err != nil || !ok {
		return 0, false, err
	}
	n, ok := d.U64()
	return time.Duration(min(n, math.MaxInt64)), ok, nil
}

// Entry returns entry id as it is in the view. The caller owns it. Of a span it
// has the later values of its end and the trace id, and the parent's span id only
// where the parent is not there. Of a log record it has the ids of its span.
func (v *View) Entry(id uint32) (*TraceEntry, error) {
	e, err := v.f.Entry(id)
	if err != nil {
		return nil, err
	}
	if v.ends[id] != 0 {
		end, err := v.f.Entry(v.ends[id])
		if err != nil {
			return nil, err
		}
		fold(e, end)
	}
	e.Parent = v.parents[id]
	role := v.roles[id]
	if role != RoleSpan && role != RoleLog {
		return e, nil
	}
	ref := v.Ref(id)
	if up := v.Ref(e.Parent); role == RoleSpan && v.roles[e.Parent] == RoleSpan && up.TraceID == ref.TraceID {
		// Whatever order they were written in: the parent says it now.
		e.Attributes = slices.DeleteFunc(e.Attributes, func(a Attribute) bool {
			return a.Name == AttrParentSpanID && a.Value.Text() == string(wire.AppendHex(nil, up.SpanID[:]))
		})
	}
	addMissing(e, AttrTraceID, ref.TraceID[:])
	if role == RoleLog {
		addMissing(e, AttrSpanID, ref.SpanID[:])
	}
	if v.f.version.hasAttrColumns() {
		SortAttributes(e.Attributes)
	}
	return e, nil
}

func addMissing(e *TraceEntry, name string, id []byte) {
	if _, has := e.Attribute(name); !has && !isZero(id) {
		e.Attributes = append(e.Attributes, Attribute{name, textValue(wire.AppendHex(nil, id))})
	}
}

// statusError is the AttrStatusCode of a span that failed.
const statusError = "ERROR"

// fold puts what end says into its span e.
func fold(e, end *TraceEntry) {
	if end.Message.Valid {
		e.Metadata.Name = end.Message.Value
	}
	if status, ok := end.Attribute(AttrStatusCode); ok {
		// The status is one thing: nothing of an earlier one stays.
		if status.Text() != statusError {
			e.Metadata.Level = LevelInfo
		}
		e.Attributes = slices.DeleteFunc(e.Attributes, func(a Attribute) bool { return a.Name == AttrStatusDescription })
	}
	if end.Metadata.Level == LevelError {
		e.Metadata.Level = LevelError
	}
	if m := &end.Metadata; m.File.Valid {
		e.Metadata.File = m.File
	}
	if m := &end.Metadata; m.Line.Valid {
		e.Metadata.Line = m.Line
	}
	if m := &end.Metadata; m.ModulePath.Valid {
		e.Metadata.ModulePath = m.ModulePath
	}
	later := make(map[string]bool, len(end.Attributes))
	for _, a := range end.Attributes {
		later[a.Name] = true
	}
	// The marks are of the attributes beside them: one that has another value
	// now has other marks, too.
	marks := make(map[string]Value)
	for _, mark := range marksOfNames {
		old, _ := e.Attribute(mark)
		now, _ := end.Attribute(mark)
		names := slices.DeleteFunc(markedNames(old), func(s string) bool { return later[s] })
		if names = append(names, markedNames(now)...); len(names) > 0 {
			marks[mark] = StringValue(string(jsontext.AppendStrings(nil, names)))
		}
	}
	at := make(map[string]int, len(e.Attributes))
	for i, a := range slices.Backward(e.Attributes) {
		at[a.Name] = i // the first of its name
	}
	for _, a := range end.Attributes {
		switch a.Name {
		case AttrJSON, AttrAnyValue, AttrDurations, AttrSpanID:
			continue
		}
		if i, ok := at[a.Name]; ok {
			e.Attributes[i].Value = a.Value
		} else {
			at[a.Name] = len(e.Attributes)
			e.Attributes = append(e.Attributes, a)
		}
	}
	e.Attributes = slices.DeleteFunc(e.Attributes, func(a Attribute) bool { return slices.Contains(marksOfNames, a.Name) })
	for _, mark := range marksOfNames {
		if m, ok := marks[mark]; ok {
			e.Attributes = append(e.Attributes, Attribute{mark, m})
		}
	}
}

// marksOfNames are the attributes that name others.
var marksOfNames = []string{AttrJSON, AttrAnyValue, AttrDurations}

func markedNames(v Value) []string {
	var names []string
	if json.Unmarshal(v.Bytes(), &names) != nil {
		return nil
	}
	return names
}

// SkipChildren is what the function of [View.Walk] returns to pass over what is
// below an entry.
var SkipChildren = errors.New("skip the children") //nolint:revive,staticcheck // named as fs.SkipDir, and as that no error

// Walk calls fn for entry id and all below it, parents first, with the depth
// below id and whether the entry is its parent's last child, until fn returns an
// error. It does not recurse, however deep the tree is.
func (v *View) Walk(id uint32, fn func(id uint32, depth int, last bool) error) error {
	if int64(id) >= int64(v.Len()) {
		return nil
	}
	type level struct{ left []uint32 }
	err := fn(id, 0, true)
	if err != nil {
		if errors.Is(err, SkipChildren) {
			return nil
		}
		return err
	}
	stack := []level{{v.Children(id)}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.left) == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		kid := top.left[0]
		top.left = top.left[1:]
		switch err := fn(kid, len(stack), len(top.left) == 0); {
		case err == nil:
			stack = append(stack, level{v.Children(kid)})
		case !errors.Is(err, SkipChildren):
			return err
		}
	}
	return nil
}

func valueTime(v Value) int64 {
	if n, ok := v.I64(); ok && n != noTime {
		return n
	}
	if n, ok := v.U64(); ok && n > math.MaxInt64 {
		return math.MaxInt64
	}
	return noTime
}

// parseID reads an id of 16 or 8 bytes from hex digits.
func parseID[T [16]byte | [8]byte](s string) (id T, ok bool) {
	var b [16]byte
	if len(s) == 0 || len(s) != 2*len(id) {
		return id, false
	}
	if _, err := hex.Decode(b[:], []byte(s)); err != nil {
		return id, false
	}
	for i := range len(id) {
		id[i] = b[i]
	}
	return id, true
}
