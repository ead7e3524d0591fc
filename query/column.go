package query

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/view"
)

// A definition describes a field of the query language: its names, and where its values are. The parser, filters,
// groups, completions, errors and docs/query.md are all based on definitions.
type definition struct {
	names  string    // valid everywhere, separated by blanks
	braces string    // TraceQL's name, which is valid only inside braces
	kind   valueKind // the kind of all values; kindNil if the values can have any kind
	idSize int       // for ids, the number of hexadecimal digits
	of     owner
	// role is the only role whose rows have the field, or 0 if rows of several roles have it. A comparison of the
	// field, even with nil, is false for rows of other roles.
	role view.Role

	// One of these fields says where the values are. If row is also set, it is a faster form for a single row.
	flags    func(f view.Flags) Value
	meta     func(m *format.Metadata) Value
	resource func(v *view.View, r view.Row) Value // depends only on the resource of r
	message  bool                                 // the message of the row
	user     bool                                 // the application's attribute that the query names
	stored   string                               // the stored name of the attribute, or its beginning, which the name in the query follows
	row      eval

	inherits bool                                              // a row without the attribute has the value of its resource
	needs    func(m *machine) error                            // prepares the machine for row
	number   func(b *columns.Block) []int64                    // the values as a column of numbers, or nil
	none     int64                                             // the number that stands for no value
	took     func(v *view.View, b *columns.Block, i int) int64 // for durations, a faster form of row; returns columns.NoDuration if there is no value

	value string // the text of docs/query.md about the field. If it is empty, the field is in the line of the field before.
}

// An owner is the row to which a field belongs.
type owner uint8

const (
	ofRow      owner = iota // the selected row
	ofResource              // its resource
	ofEvent                 // an event or log record below it
	ofLink                  // one of its links
)

// scopes are the words that can be before the dot of an attribute.
var scopes = map[string]*definition{
	"":                {user: true, inherits: true},
	"span":            {user: true, role: view.RoleSpan},
	"log":             {user: true, role: view.RoleLog},
	"resource":        {user: true, of: ofResource},
	"event":           {user: true, of: ofEvent},
	"link":            {user: true, of: ofLink},
	"instrumentation": {stored: mapping.AttrScopePrefix},
}

// fieldsOfRows are the fields that all rows can have.
var fieldsOfRows = []*definition{
	{
		names: "name span:name", kind: kindString, value: "the span's or event's name",
		meta: func(m *format.Metadata) Value { return stringValue(m.Name) },
		row:  func(e *env) Value { return stringValue(e.read.Name(e.row)) },
	},
	{names: "message log:message", kind: kindString, message: true, value: "the message"},
	{
		names: "level log:level entry:level", kind: kindLevel,
		value: "`trace` `debug` `info` `warn` `error`; `error` for a failed span. `level >= warn` selects spans and events, too; for log records only, write `kind = log level >= warn`",
		flags: func(f view.Flags) Value { return enumValue(kindLevel, uint8(f.Severity())) },
	},
	{
		names: "target entry:target instrumentation:name", kind: kindString,
		value: "the library that recorded the row (its instrumentation scope); for a slog record, the package that logs",
		meta:  func(m *format.Metadata) Value { return stringValue(m.Target) },
	},
	{
		names: "service", kind: kindString,
		value: "the resource's `service.name`; if it has none, the message of the resource's entry in the file",
		resource: func(v *view.View, r view.Row) Value {
			if s := v.Service(r); s != "" {
				return stringValue(s)
			}
			return Value{}
		},
	},
	{
		names: "start log:time", kind: kindTime, value: "the time at which the row began, as in `start > \"2026-11-22T15:04:05Z\"`",
		number: func(b *columns.Block) []int64 { return b.Start }, none: columns.NoTime,
		row: func(e *env) Value {
			if n, ok := e.m.v.Start(e.row); ok {
				return Value{kind: kindTime, n: n}
			}
			return Value{}
		},
	},
	{
		names: "file entry:file", kind: kindString, value: "the place in the source",
		meta: func(m *format.Metadata) Value {
			if m.File.Valid {
				return stringValue(m.File.Value)
			}
			return Value{}
		},
	},
	{
		names: "line entry:line", kind: kindInt,
		meta: func(m *format.Metadata) Value {
			if m.Line.Valid {
				return intValue(int64(m.Line.Value))
			}
			return Value{}
		},
	},
	{
		names: "depth span:depth", kind: kindInt, value: "the depth in the tree",
		row: func(e *env) Value { return intValue(int64(e.m.v.Depth(e.row))) },
	},
	{
		names: "entry:id", kind: kindInt, value: "the row's number in its file",
		row: func(e *env) Value { _, id := e.m.v.ID(e.row); return intValue(int64(id)) },
	},
	{
		names: "entry:role", kind: kindRole, value: "the row's role: `span` `event` `log` `link` `resource` `recorder` `root` `other`",
		flags: func(f view.Flags) Value { return enumValue(kindRole, uint8(f.Role())) },
	},
	{
		names: "trace:id", kind: kindString, idSize: 32, value: "the id and the duration of the whole trace; the name and the service of its root span",
		row: func(e *env) Value {
			id := e.m.v.TraceID(e.row)
			if id == [16]byte{} {
				return Value{}
			}
			return stringValue(hex.EncodeToString(id[:]))
		},
	},
	{
		names: "trace:duration", braces: "traceDuration", kind: kindDuration, needs: (*machine).findTraces,
		row: func(e *env) Value {
			t := e.m.traceOf(e.row)
			return durationOr(t.last-t.first, t.last >= t.first)
		},
	},
	{
		names: "trace:rootName", braces: "rootName", kind: kindString, needs: (*machine).findTraces,
		row: func(e *env) Value {
			if root := e.m.traceOf(e.row).root; root != 0 {
				return stringValue(e.m.v.Name(root))
			}
			return Value{}
		},
	},
	{
		names: "trace:rootService", braces: "rootServiceName", kind: kindString, needs: (*machine).findTraces,
		row: func(e *env) Value {
			if root := e.m.traceOf(e.row).root; root != 0 {
				return stringValue(e.m.v.Service(root))
			}
			return Value{}
		},
	},
	{
		names: "event:name", kind: kindString, of: ofEvent, value: "an event's name; its time since the span's start",
		row: func(e *env) Value {
			if e.event == 0 {
				return Value{}
			}
			if s, ok := e.m.v.Message(e.event); ok {
				return stringValue(s)
			}
			return stringValue(e.m.v.Name(e.event))
		},
	},
	{
		names: "event:timeSinceStart", kind: kindDuration, of: ofEvent,
		row: func(e *env) Value {
			at, ok := e.m.v.Start(e.event)
			from, ok2 := e.m.v.Start(e.m.v.Owner(e.event))
			return durationOr(at-from, e.event != 0 && ok && ok2)
		},
	},
	{
		names: "link:traceID", kind: kindString, idSize: 32, of: ofLink, value: "the ids in a link",
		stored: mapping.AttrLinkTraceID,
	},
	{names: "link:spanID", kind: kindString, idSize: 16, of: ofLink, stored: mapping.AttrLinkSpanID},
	{names: "instrumentation:version", value: "the version of the scope", stored: mapping.AttrScopeVersion},
}

// fieldsOfSpans are the fields that only spans have.
var fieldsOfSpans = []*definition{
	{
		names: "duration span:duration", kind: kindDuration, value: "how long the span took; nil while it has not ended",
		number: func(b *columns.Block) []int64 { return b.Duration }, none: columns.NoDuration,
		took: func(_ *view.View, b *columns.Block, i int) int64 {
			if view.Flags(b.Flags[i]).Role() != view.RoleSpan {
				return columns.NoDuration
			}
			return b.Duration[i]
		},
		row: func(e *env) Value {
			d, ok := e.m.v.Duration(e.row)
			return durationOr(int64(d), ok)
		},
	},
	{
		names: "self span:self", kind: kindDuration, value: "the duration without the time in which a child span was open",
		took: func(v *view.View, b *columns.Block, i int) int64 {
			if d, ok := v.SelfTime(view.Row(b.First) + view.Row(i)); ok {
				return int64(d)
			}
			return columns.NoDuration
		},
		row: func(e *env) Value {
			d, ok := e.m.v.SelfTime(e.row)
			return durationOr(int64(d), ok)
		},
	},
	stateField("span:running", "how long the span's goroutine was in this state; nil if the file has no execution trace ([waiting.md](waiting.md))",
		gotrace.Running),
	stateField("span:runnable", "", gotrace.Runnable),
	stateField("span:syscall", "", gotrace.Syscall),
	stateField("span:gc", "", gotrace.GCWork, gotrace.GCWait),
	stateField("span:mutex", "", gotrace.Mutex),
	stateField("span:sync", "", gotrace.Sync),
	stateField("span:chan", "", gotrace.Chan),
	stateField("span:select", "", gotrace.Select),
	stateField("span:net", "", gotrace.Net),
	stateField("span:sleep", "", gotrace.Sleep),
	stateField("span:blocked", "the sum of the fields from `span:mutex` to `span:sleep`, plus waits of other kinds",
		gotrace.Mutex, gotrace.Sync, gotrace.Chan, gotrace.Select, gotrace.Net, gotrace.Sleep, gotrace.Other),
	{
		names: "span:states", kind: kindString, needs: (*machine).findStates,
		value: "how entrace found the span in the execution trace: `marked` `matched` `none`",
		row: func(e *env) Value {
			x, _ := e.m.states.Of(e.row)
			return stringValue(x.Join.String())
		},
	},
	{
		names: "span:goroutine", kind: kindInt, needs: (*machine).findStates,
		value: "the number of the goroutine on which the span began, from the execution trace",
		row: func(e *env) Value {
			if x, ok := e.m.states.Of(e.row); ok {
				return intValue(x.Goroutine)
			}
			return Value{}
		},
	},
	{
		names: "span:open", kind: kindBool, value: "whether the span has not ended",
		flags: func(f view.Flags) Value { return boolValue(f.Open()) },
	},
	{
		names: "span:failed",
		value: "true if the status is error, or if it is unset and the span has an event named `exception`, as after a panic",
		flags: func(f view.Flags) Value { return boolValue(f.Failed()) },
	},
	{
		names: "kind span:kind", kind: kindSpanKind,
		value: "`unspecified` `internal` `server` `client` `producer` `consumer`. `kind = log` means `entry:role = log`; the same holds for other roles that are not kinds of spans",
		flags: func(f view.Flags) Value { return enumValue(kindSpanKind, columns.Kind(uint16(f))) },
	},
	{
		names: "status span:status", kind: kindStatus, value: "`unset` `ok` `error`",
		flags: func(f view.Flags) Value { return enumValue(kindStatus, columns.Status(uint16(f))) },
	},
	{
		names: "span:statusMessage", braces: "statusMessage", kind: kindString, value: "the description of the status",
		stored: mapping.AttrStatusDescription,
	},
	{
		names: "span:id", kind: kindString, idSize: 16, value: "ids in hex",
		row: func(e *env) Value { return hexValue(e.m.v.Ref(e.row).SpanID) },
	},
	{
		names: "span:parentID", kind: kindString, idSize: 16,
		row: func(e *env) Value {
			if up := e.m.v.Parent(e.row); e.m.v.Role(up) == view.RoleSpan {
				return hexValue(e.m.v.Ref(up).SpanID)
			}
			ref, _, _ := e.m.v.Missing(e.row)
			return hexValue(ref.SpanID)
		},
	},
	{
		names: "span:childCount", braces: "childCount", kind: kindInt, value: "the number of child spans",
		row: func(e *env) Value {
			n := int64(0)
			for _, kid := range e.m.v.Children(e.row) {
				if e.m.v.Role(kid) == view.RoleSpan {
					n++
				}
			}
			return intValue(n)
		},
	},
	{
		braces: "parent", // 1 if the row has a span above it in the view, otherwise nil
		row: func(e *env) Value {
			if e.m.v.Role(e.m.v.Parent(e.row)) == view.RoleSpan {
				return intValue(1)
			}
			return Value{}
		},
	},
}

// definitions are all fields that have names of their own, in the order of docs/query.md.
var definitions = slices.Concat(fieldsOfRows, onlySpans(fieldsOfSpans))

func onlySpans(list []*definition) []*definition {
	for _, d := range list {
		d.role = view.RoleSpan
	}
	return list
}

// The names of fields: without a colon, with a colon, and names that are only valid inside braces.
var bareNames, scopedNames, braceNames = namesOf(definitions)

func namesOf(list []*definition) (bare, scoped, braces map[string]*definition) {
	bare, scoped, braces = make(map[string]*definition), make(map[string]*definition), make(map[string]*definition)
	for _, d := range list {
		for name := range strings.FieldsSeq(d.names) {
			if strings.Contains(name, ":") {
				scoped[name] = d
			} else {
				bare[name] = d
			}
		}
		if d.braces != "" {
			braces[d.braces] = d
		}
	}
	return bare, scoped, braces
}

// A storage is the column of a block that has a code for each row.
type storage uint8

const (
	elsewhere storage = iota
	inFlags
	inMeta
	inResource
)

// A column reads a field in a view. Rows with the same code have the same value.
type column struct {
	row   eval
	in    storage
	width int                                            // all codes are less than width; for other codes, call row
	value func(code int) Value                           // the value of a code
	short func(b *columns.Block) []uint16                // the codes of a block, or nil
	long  func(e *env, k int, b *columns.Block) []uint32 // if short is nil, the codes of block k, which are valid until the next call
}

// hasCodes reports whether the code of a row determines the row's value of the field f. If f has a role, only flags
// determine the value, because other codes do not say which role the row has.
func (c *column) hasCodes(f *field) bool { return c.width > 0 && (f.role == 0 || c.in == inFlags) }

// usedFlags is greater than all flags on which a field depends. Greater flags only say whether the view has all data of
// a row.
const usedFlags = 1 << 14

// column returns the column of a field. It does not look at f.parent.
func (m *machine) column(f *field) (*column, error) {
	c, v := &column{row: f.row}, m.v
	var err error
	switch {
	case f.needs != nil:
		err = f.needs(m)
	case f.message:
		return m.messageColumn(), nil
	case f.user || f.stored != "":
		c, err = m.attributeColumn(f)
	case f.flags != nil:
		c = &column{in: inFlags, width: 1 << 16, short: func(b *columns.Block) []uint16 { return b.Flags }}
		c.value = func(code int) Value {
			if flags := view.Flags(code); f.role == 0 || flags.Role() == f.role {
				return f.flags(flags)
			}
			return Value{}
		}
		c.row = func(e *env) Value { return c.value(int(v.Flags(e.row))) }
		return c, nil
	case f.meta != nil:
		metas := columns.Of(v).Metas()
		c.in, c.width, c.short = inMeta, len(metas), func(b *columns.Block) []uint16 { return b.Meta }
		c.value = func(code int) Value { return f.meta(&metas[code]) }
		if c.row == nil {
			c.row = func(e *env) Value {
				meta := v.Metadata(e.row)
				return f.meta(&meta)
			}
		}
	case f.resource != nil:
		resources := columns.Of(v).Resources()
		c = m.resourceColumn(func(code int) Value {
			if code == 0 { // no resource
				return Value{}
			}
			return f.resource(v, view.Row(resources[code]))
		})
		c.row = func(e *env) Value { return f.resource(v, e.row) }
	}
	if err == nil && f.role != 0 {
		row := c.row
		c.row = func(e *env) Value {
			if v.Role(e.row) != f.role {
				return Value{}
			}
			return row(e)
		}
	}
	return c, err
}

// resourceColumn returns a column, still without row, of values that depend on the resource of a row.
func (m *machine) resourceColumn(value func(code int) Value) *column {
	return &column{in: inResource, width: len(m.columns.Resources()), value: value, short: func(b *columns.Block) []uint16 { return b.Resource }}
}

// messageColumn returns the column of the message.
func (m *machine) messageColumn() *column {
	messages := m.columns.Messages()
	none := uint32(len(messages)) // the code of rows without a message
	return &column{
		width: len(messages) + 1,
		row: func(e *env) Value {
			if s, ok := m.v.Message(e.row); ok {
				return stringValue(s)
			}
			return Value{}
		},
		value: func(code int) Value {
			if code == int(none) {
				return Value{}
			}
			return stringValue(messages[code])
		},
		long: func(e *env, _ int, b *columns.Block) []uint32 {
			codes, texts := e.buffer(len(b.Flags)), b.Text[:len(b.Flags)]
			for i, f := range b.Flags {
				code := texts[i]
				if !view.Flags(f).HasMessage() {
					code = none
				}
				codes[i] = code
			}
			return codes
		},
	}
}

// attributeColumn returns the column of a field that is stored as an attribute.
func (m *machine) attributeColumn(f *field) (*column, error) {
	a, err := m.attribute(f.stored + f.name)
	if err != nil {
		return nil, err
	}
	switch f.of {
	case ofResource:
		c := m.resourceColumn(func(code int) Value { return a.resources[code] })
		c.row = func(e *env) Value { return a.resource(e.row) }
		return c, nil
	case ofEvent:
		return &column{row: func(e *env) Value { return a.ofBound(e.event) }}, nil
	case ofLink:
		return &column{row: func(e *env) Value { return a.ofBound(e.link) }}, nil
	}
	c := &column{row: func(e *env) Value { return a.own(e.row) }}
	if f.inherits {
		c.row = func(e *env) Value {
			if x := a.own(e.row); x.kind != kindNil {
				return x
			}
			return a.resource(e.row)
		}
	}
	if len(a.parts) != 1 || a.parts[0].column == nil {
		return c, nil
	}
	p := a.parts[0]
	c.width = len(p.values)
	c.value = func(code int) Value { return p.values[code] }
	c.long = func(_ *env, k int, _ *columns.Block) []uint32 { return p.column.Block(k) }
	if f.inherits && slices.ContainsFunc(a.resources, func(v Value) bool { return v.kind != kindNil }) {
		own := c.width // the code of a row without the attribute is own plus the number of the row's resource
		c.width += len(a.resources)
		c.value = func(code int) Value {
			if code < own {
				return p.values[code]
			}
			return a.resources[code-own]
		}
		c.long = func(e *env, k int, b *columns.Block) []uint32 {
			codes := e.buffer(len(b.Resource))
			for i, code := range p.column.Block(k) {
				if code == 0 {
					code = uint32(own) + uint32(b.Resource[i])
				}
				codes[i] = code
			}
			return codes
		}
	}
	return c, nil
}

func durationOr(d int64, ok bool) Value {
	if !ok {
		return Value{}
	}
	return durationValue(d)
}

func hexValue(id [8]byte) Value {
	if id == [8]byte{} {
		return Value{}
	}
	return stringValue(hex.EncodeToString(id[:]))
}
