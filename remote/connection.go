package remote

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/wire"
)

const (
	// prefixSize is the size of the length before an entry. Part of the protocol.
	prefixSize = 8
	// maxSteps is how far up an ancestor is looked for.
	maxSteps = 64
	// maxResources is how many resources are kept to be sent again.
	maxResources = 16
	// fullAt is when a connection has so many entries that another one must follow.
	fullAt = math.MaxUint32 - 1<<20
)

// A numbering gives entries their ids on a connection, which is a trace of its
// own, and finds a place there for those whose parents are not in it.
type numbering struct {
	nodes     nodes
	resources []resource // the latest last
	version   format.Version
	trace     uint32 // the recorder's file
	conn      uint32
	next      uint64 // id of the next entry on the connection
	moved     uint64 // entries that were put elsewhere on it

	entry format.TraceEntry
	hex   []byte
	raw   []byte
}

// A resource is kept to be sent again.
type resource struct {
	id   uint32 // in the recorder's file
	raw  []byte
	conn uint32
	sent uint32 // its id there
}

// begin begins another of the recorder's files.
func (n *numbering) begin(trace uint32, v format.Version) {
	n.trace, n.version = trace, v
	n.resources = nil
}

// connect begins a connection and appends what every one begins with: magic,
// root, and the resource if there is one.
func (n *numbering) connect(b []byte) []byte {
	n.conn++
	n.next, n.moved = 0, 0
	b = wire.AppendMagic(b, n.version, format.IETPrefix)
	b, _ = n.frame(b, format.AppendTraceEntry(n.raw[:0], n.version, format.Root()))
	if k := len(n.resources); k > 0 {
		b, _ = n.sendResource(b, &n.resources[k-1])
	}
	return b
}

// frame appends an entry behind its length and returns its id.
func (n *numbering) frame(b, raw []byte) ([]byte, uint32) {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(raw)))
	n.next++
	return append(b, raw...), uint32(n.next - 1)
}

// sendResource appends a resource unless the connection has it, and returns its id.
func (n *numbering) sendResource(b []byte, r *resource) ([]byte, uint32) {
	if r.conn == n.conn {
		return b, r.sent
	}
	b, r.sent = n.frame(b, r.raw)
	r.conn = n.conn
	return b, r.sent
}

// resource returns the resource that is the entry id, nil if it is none.
func (n *numbering) resource(id uint32) *resource {
	for i := range n.resources {
		if n.resources[i].id == id {
			return &n.resources[i]
		}
	}
	return nil
}

// learn keeps a resource.
func (n *numbering) learn(id uint32, raw []byte) *resource {
	if r := n.resource(id); r != nil {
		return r
	}
	if len(n.resources) == maxResources {
		n.resources = slices.Delete(n.resources, 0, 1)
	}
	n.resources = append(n.resources, resource{id: id, raw: slices.Clone(raw)})
	return &n.resources[len(n.resources)-1]
}

// add appends a record as an entry of the connection, with its length. n.nodes is
// locked.
func (n *numbering) add(b []byte, r *record) []byte {
	if r.resource {
		b, _ = n.sendResource(b, n.learn(r.id, r.raw))
		return b
	}
	x := node{parent: r.parent, conn: n.conn, ref: r.ref}
	b, parent, direct := n.place(b, r.parent)
	raw := r.raw
	if !direct {
		n.moved++
		raw = n.mark(r, parent)
	} else if parent != r.parent {
		n.raw = n.moveTo(r, parent)
		raw = n.raw
	}
	b, x.id = n.frame(b, raw)
	n.nodes.put(key{n.trace, r.id}, x)
	return b
}

// place returns the id of the entry below which a child of parent goes, and
// whether that is the parent itself.
func (n *numbering) place(b []byte, parent uint32) (_ []byte, id uint32, direct bool) {
	at := parent
	for range maxSteps {
		if at == 0 {
			return b, 0, parent == 0
		}
		if r := n.resource(at); r != nil {
			b, id = n.sendResource(b, r)
			return b, id, at == parent
		}
		x, ok := n.nodes.get(key{n.trace, at})
		if !ok {
			break
		}
		if x.conn == n.conn {
			return b, x.id, at == parent
		}
		at = x.parent
	}
	if k := len(n.resources); k > 0 {
		b, id = n.sendResource(b, &n.resources[k-1])
	}
	return b, id, false
}

// mark returns the encoding of a record below another parent than its own, with
// the ids that tell where it belongs.
func (n *numbering) mark(r *record, parent uint32) []byte {
	e := &n.entry
	if _, err := format.DecodeTraceEntry(r.raw, n.version, e); err != nil {
		// It was encoded by the recorder, so this is not to be. Its parent at
		// least can be put right.
		n.raw = n.moveTo(r, parent)
		return n.raw
	}
	e.Parent = parent
	up, _ := n.nodes.get(key{n.trace, r.parent})
	trace := r.ref.TraceID
	if trace == ([16]byte{}) {
		trace = up.ref.TraceID
	}
	if trace != ([16]byte{}) {
		n.attribute(format.AttrTraceID, trace[:])
	}
	// A log record names its span as that, and a span's end has that already.
	name := format.AttrParentSpanID
	if e.Message.Valid && strings.HasPrefix(e.Metadata.Name, "event") {
		name = format.AttrSpanID
	}
	if span := up.ref.SpanID; span != ([8]byte{}) && e.Metadata.Name != format.NameSpanEnd {
		n.attribute(name, span[:])
	}
	if n.version == format.V2 {
		format.SortAttributes(e.Attributes)
	}
	n.raw = format.AppendTraceEntry(n.raw[:0], n.version, e)
	if len(n.raw) > format.DefaultMaxEntrySize { // which nobody would read
		n.raw = n.moveTo(r, parent)
	}
	return n.raw
}

// moveTo returns the encoding of a record below another parent.
func (n *numbering) moveTo(r *record, parent uint32) []byte {
	return wire.AppendMoved(n.raw[:0], r.raw, parent)
}

// attribute adds an id to the entry unless an attribute has that name.
func (n *numbering) attribute(name string, id []byte) {
	if _, ok := n.entry.Attribute(name); ok {
		return
	}
	n.hex = wire.AppendHex(n.hex[:0], id)
	n.entry.Attributes = append(n.entry.Attributes, format.Attribute{Name: name, Value: format.StringValue(string(n.hex))})
}
