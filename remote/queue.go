package remote

import (
	"encoding/binary"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

// chunkSize is the maximum size of a chunk. Only a chunk with a single entry may be larger.
const chunkSize = 64 << 10

// recordHead is the size of the fields that precede an entry in a chunk:
//
//	id, parent, size uint32
//	flags            uint32
//	ref              [24]byte
const recordHead = 16 + 24

const flagResource = 1

// A chunk holds entries of one trace, in order.
type chunk struct {
	buf     []byte
	records int
	trace   uint32 // number of the recorder's file
	version format.Version
}

// A record is an entry in a chunk, with the fields that precede it.
type record struct {
	id, parent uint32
	resource   bool
	ref        format.SpanRef
	raw        []byte
}

func (c *chunk) add(e *recorder.TeeEntry) {
	b := c.buf
	b = binary.LittleEndian.AppendUint32(b, e.ID)
	b = binary.LittleEndian.AppendUint32(b, e.Parent)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Raw)))
	flags := uint32(0)
	if e.Resource {
		flags = flagResource
	}
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = append(b, e.Ref.TraceID[:]...)
	b = append(b, e.Ref.SpanID[:]...)
	c.buf = append(b, e.Raw...)
	c.records++
}

// next returns the first record of b, and the bytes after it.
func next(b []byte) (r record, rest []byte) {
	size := int(binary.LittleEndian.Uint32(b[8:]))
	r.id, r.parent = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	r.resource = binary.LittleEndian.Uint32(b[12:])&flagResource != 0
	copy(r.ref.TraceID[:], b[16:])
	copy(r.ref.SpanID[:], b[32:])
	r.raw = b[recordHead : recordHead+size]
	return r, b[recordHead+size:]
}

// A queue holds the entries to be sent, in chunks of complete entries.
type queue struct {
	chunks []*chunk
	spare  *chunk
	size   int // total size of all added entries whose chunks are not done
}

// put adds an entry of a trace.
func (q *queue) put(e *recorder.TeeEntry, trace uint32, v format.Version) {
	size := recordHead + len(e.Raw)
	n := len(q.chunks)
	if n == 0 || q.chunks[n-1].trace != trace || len(q.chunks[n-1].buf)+size > chunkSize {
		c := q.spare
		q.spare = nil
		if c == nil {
			c = &chunk{buf: make([]byte, 0, size)} // the buffer grows if needed
		}
		c.trace, c.version = trace, v
		q.chunks = append(q.chunks, c)
		n++
	}
	q.chunks[n-1].add(e)
	q.size += size
}

// take removes and returns the oldest chunk. It returns nil if the queue is empty.
func (q *queue) take() *chunk {
	if len(q.chunks) == 0 {
		return nil
	}
	c := q.chunks[0]
	q.chunks[0] = nil
	q.chunks = q.chunks[1:]
	if len(q.chunks) == 0 {
		q.chunks = nil // so that the array of chunks does not grow without bound
	}
	return c
}

// done says that a chunk from take is no longer needed.
func (q *queue) done(c *chunk) {
	q.size -= len(c.buf)
	if cap(c.buf) <= chunkSize {
		c.buf, c.records = c.buf[:0], 0
		q.spare = c
	}
}
