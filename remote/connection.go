package remote

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
)

const (
	// prefixSize is the size of the length before an entry. It is part of the protocol.
	prefixSize = 8
	// maxSteps is the maximum number of ancestors that place tries.
	maxSteps = 64
	// maxResources is the number of resources that are kept to be sent again.
	maxResources = 16
	// fullAt is the number of entries after which the sender makes a new connection.
	fullAt = math.MaxUint32 - 1<<20
)

// A numbering assigns ids to the entries of a connection. Each connection is a separate trace. If an entry's parent
// was not sent on this connection, the numbering selects another parent for the entry.
type numbering struct {
	nodes     nodes
	resources []resource // the latest resource is last
	version   format.Version
	trace     uint32 // number of the recorder's file
	conn      uint32
	next      uint64 // id of the next entry on the connection
	moved     uint64 // number of entries that were sent below another parent

	entry format.TraceEntry
	hex   []byte
	raw   []byte
}

// A resource is the entry of a resource, kept so that it can be sent again.
type resource struct {
	id   uint32 // in the recorder's file
	raw  []byte
	conn uint32
	sent uint32 // the resource's id on the connection conn
}

// begin prepares n for another file of the recorder.
func (n *numbering) begin(trace uint32, v format.Version) {
	n.trace, n.version = trace, v
	n.resources = nil
}

// connect prepares n for a new connection. It appends the first bytes of the connection to b: the magic, the root,
// and the latest resource, if any.
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

// frame appends the entry raw after its length, and returns the id of the entry.
func (n *numbering) frame(b, raw []byte) ([]byte, uint32) {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(raw)))
	n.next++
	return append(b, raw...), uint32(n.next - 1)
}

// sendResource returns the id that r has on the connection. If r was not sent on this connection yet, sendResource
// appends it to b.
func (n *numbering) sendResource(b []byte, r *resource) ([]byte, uint32) {
	if r.conn == n.conn {
		return b, r.sent
	}
	b, r.sent = n.frame(b, r.raw)
	r.conn = n.conn
	return b, r.sent
}

// resource returns the kept resource with this id in the recorder's file, or nil.
func (n *numbering) resource(id uint32) *resource {
	for i := range n.resources {
		if n.resources[i].id == id {
			return &n.resources[i]
		}
	}
	return nil
}

// keepResource keeps the resource raw, if it is not kept already, and returns it.
func (n *numbering) keepResource(id uint32, raw []byte) *resource {
	if r := n.resource(id); r != nil {
		return r
	}
	if len(n.resources) == maxResources {
		n.resources = slices.Delete(n.resources, 0, 1)
	}
	n.resources = append(n.resources, resource{id: id, raw: slices.Clone(raw)})
	return &n.resources[len(n.resources)-1]
}

// add appends a record, with its length, as an entry of the connection. The caller holds n.nodes.mu.
func (n *numbering) add(b []byte, r *record) []byte {
	if r.resource {
		b, _ = n.sendResource(b, n.keepResource(r.id, r.raw))
		return b
	}
	x := node{parent: r.parent, conn: n.conn, ref: r.ref}
	b, parent, direct := n.parentID(b, r.parent)
	raw := r.raw
	if !direct {
		n.moved++
		raw = n.encodeBelow(r, parent)
	} else if parent != r.parent {
		raw = n.moveTo(r, parent)
	}
	b, x.id = n.frame(b, raw)
	n.nodes.put(key{n.trace, r.id}, x)
	return b
}

// parentID returns the id on this connection of the entry below which a child of parent is sent. The result direct
// reports whether this entry is the parent itself. If the entry is a resource that was not sent yet, parentID appends
// it to b.
func (n *numbering) parentID(b []byte, parent uint32) (_ []byte, id uint32, direct bool) {
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

// encodeBelow returns the encoding of r below the entry parent, which is not the parent of r in the recorder's file.
// It adds the ids of the trace and of the span to which r belongs as attributes.
func (n *numbering) encodeBelow(r *record, parent uint32) []byte {
	e := &n.entry
	if _, err := format.DecodeTraceEntry(r.raw, n.version, e); err != nil {
		// This does not happen, because the recorder has encoded the record. If it does, at least correct the parent.
		return n.moveTo(r, parent)
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
	// A log record gets the id of its span as span_id, another record as parent_span_id. The end of a span gets
	// neither attribute, because it already has its span_id.
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
	if len(n.raw) > format.DefaultMaxEntrySize { // readers would reject it
		return n.moveTo(r, parent)
	}
	return n.raw
}

// moveTo returns the encoding of r below the entry parent, without further attributes.
func (n *numbering) moveTo(r *record, parent uint32) []byte {
	n.raw = wire.AppendMoved(n.raw[:0], r.raw, parent)
	return n.raw
}

// attribute adds an id to n.entry if the entry has no attribute called name.
func (n *numbering) attribute(name string, id []byte) {
	if _, ok := n.entry.Attribute(name); ok {
		return
	}
	n.hex = wire.AppendHex(n.hex[:0], id)
	n.entry.Add(name, format.StringValue(string(n.hex)))
}
