package journal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// ErrNotJournal is returned for a file that is not a journal.
var ErrNotJournal = errors.New("not a journal")

// A LayoutError is the error for a journal whose layout this package cannot read.
type LayoutError struct{ Version, SegmentSize uint32 }

func (e *LayoutError) Error() string {
	return fmt.Sprintf("unsupported journal layout %d with segments of %d bytes: this program reads layout %d", e.Version, e.SegmentSize, Version)
}

// A Dead holds the content of a journal file whose process is dead.
type Dead struct {
	// Checkpoint is the data of the last checkpoint, or nil if the journal has no checkpoint.
	Checkpoint []byte
	// Damaged counts the segments in use that cannot be read completely. The cause is a power failure, a bad disk,
	// or another program that changed the file.
	Damaged int

	sequence uint64 // sequence number of the checkpoint
	parts    []deadPart
}

type deadPart struct {
	stream uint32
	Part
	mem []byte
}

// ReadDead reads the file of a journal. It calls the function from with the data of the last checkpoint. The result
// of from is a function which returns, for each stream, the position of the first record to read. The errors are
// [ErrNotJournal], [*LayoutError] and errors of r for the header. Segments that r cannot read count as damaged.
func ReadDead(r io.ReaderAt, size int64, from func(checkpoint []byte) func(stream uint32) uint64) (*Dead, error) {
	var head [headerSize]byte
	if size < headerSize {
		return nil, ErrNotJournal // the process died before the header was complete
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if [8]byte(head[:8]) != magic {
		return nil, ErrNotJournal
	}
	v, n := binary.LittleEndian.Uint32(head[8:]), binary.LittleEndian.Uint32(head[12:])
	if v != Version || n != SegmentSize {
		return nil, &LayoutError{v, n}
	}
	d := new(Dead)
	d.sequence, d.Checkpoint = newestCheckpoint(head[:])
	begin := from(d.Checkpoint)
	buf := make([]byte, SegmentSize)
	for off := int64(headerSize); off < size; off += SegmentSize {
		m, err := r.ReadAt(buf[:min(SegmentSize, size-off)], off)
		clear(buf[m:])
		p, whole := parseSegment(buf)
		if !whole || err != nil && !errors.Is(err, io.EOF) {
			d.Damaged++
		}
		if p.End <= First || p.Base+uint64(p.End) <= begin(p.stream) {
			continue
		}
		p.mem = slices.Clone(buf[:p.End])
		d.parts = append(d.parts, p)
	}
	slices.SortFunc(d.parts, func(a, b deadPart) int { return cmp.Compare(a.Base, b.Base) })
	for i := range d.parts {
		p := &d.parts[i]
		p.Read = func([]byte, int, int) ([]byte, error) { return p.mem, nil }
	}
	return d, nil
}

// parseSegment finds the offset at which the records of the segment b end. The result whole reports whether every
// record that was begun is readable.
func parseSegment(b []byte) (p deadPart, whole bool) {
	base, stream := binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	w := binary.LittleEndian.Uint64(b)
	if w != commitWord(checksum(b[8:First]), place(stream, base), First) || stream > math.MaxUint32 {
		return deadPart{}, w == 0
	}
	p = deadPart{stream: uint32(stream), Part: Part{Base: base, End: First}}
	for p.End+8 <= SegmentSize {
		n, chain, ok := partAt(b, p.End, SegmentSize)
		if !ok || !isCommitted(b, p.End, n, chain, stream, base) {
			return p, binary.LittleEndian.Uint64(b[p.End:]) == 0
		}
		p.End += n
	}
	return p, true
}

// IsEmpty reports whether a journal file has no records of entries. Such a file has only zeros after its header, and
// segments of StreamDefinitions and StreamLeft.
func IsEmpty(r io.ReaderAt, size int64) (bool, error) {
	buf, zeros := make([]byte, SegmentSize), make([]byte, SegmentSize)
	for off := int64(headerSize); off < size; off += SegmentSize {
		m, err := r.ReadAt(buf[:min(SegmentSize, size-off)], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if bytes.Equal(buf[:m], zeros[:m]) {
			continue
		}
		clear(buf[m:])
		if p, whole := parseSegment(buf); !whole || p.stream != StreamDefinitions && p.stream != StreamLeft {
			return false, nil
		}
	}
	return true, nil
}

// newestCheckpoint returns the valid checkpoint with the greatest sequence number.
func newestCheckpoint(head []byte) (newest uint64, data []byte) {
	for i := range numSlots {
		at := slotAt + i*slotSize
		n := int(binary.LittleEndian.Uint32(head[at:]))
		if n < 16 || n > slotSize || n%8 != 0 ||
			binary.LittleEndian.Uint64(head[at:]) != commitWord(checksum(head[at+8:at+n]), uint64(at), n) {
			continue
		}
		if s := binary.LittleEndian.Uint64(head[at+8:]); s > newest {
			newest, data = s, slices.Clone(head[at+16:at+n])
		}
	}
	return newest, data
}

// ReplaceCheckpoint makes data the checkpoint in f, the file from which d was read.
func (d *Dead) ReplaceCheckpoint(f io.WriterAt, data []byte) error {
	if len(data) > MaxCheckpoint {
		return ErrFull
	}
	sequence := d.sequence + 1
	at := slotAt + int64(sequence%numSlots)*slotSize
	if _, err := f.WriteAt(encodeCheckpoint(sequence, data, int(at)), at); err != nil {
		return err
	}
	d.sequence, d.Checkpoint = sequence, slices.Clone(data)
	return nil
}

// Parts returns the segments of a stream that ReadDead has read, the oldest first.
func (d *Dead) Parts(stream uint32) (parts []Part) {
	for i := range d.parts {
		if d.parts[i].stream == stream {
			parts = append(parts, d.parts[i].Part)
		}
	}
	return parts
}

// Shards returns the streams of the shards, for NewMerge.
func (d *Dead) Shards() [][]Part {
	streams := make([][]Part, 1+maxLeaves)
	for i := range streams {
		streams[i] = d.Parts(StreamSpans + uint32(i))
	}
	return streams
}

// Each calls fn for each record of a stream, in order, with the position of the record. The bytes of the records
// are valid as long as d is in use.
func (d *Dead) Each(stream uint32, fn func(position uint64, e *Entry)) {
	var m Merge
	c := Cursor{stream: stream, parts: d.Parts(stream), at: First, key: math.MinInt64, m: &m}
	for c.advance(); c.ok; c.advance() {
		fn(c.position(), &c.rec)
		c.consume()
	}
}
