package deadtrace

import (
	"encoding/binary"
	"io"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
)

// TailSize is the number of last bytes that identify an IET.
const TailSize = 64

// A Tail holds the last bytes of a file, after zeros if the file is shorter than TailSize.
type Tail [TailSize]byte

// Add updates t after b has been appended to the file.
func (t *Tail) Add(b []byte) {
	if len(b) >= TailSize {
		copy(t[:], b[len(b)-TailSize:])
		return
	}
	copy(t[:], t[len(b):])
	copy(t[TailSize-len(b):], b)
}

// TailOf returns the tail of the first size bytes of f.
func TailOf(f io.ReaderAt, size int64) (t Tail, err error) {
	buf := make([]byte, min(size, TailSize))
	if _, err := f.ReadAt(buf, size-int64(len(buf))); err != nil {
		return t, err
	}
	t.Add(buf)
	return t, nil
}

// A Checkpoint says which records of a journal are in the IET, and identifies the IET. Its encoding is:
//
//	size      uint64   // of the IET
//	tail      [64]byte // the last bytes of the IET
//	version   uint8    // of the format
//	moved     uint8
//	reserved  uint16
//	anchor    uint32
//	parked    [2]uint64 // from, to
//	streams   uint64
//	positions [streams]uint64
//	entries   uint64
//	unsaved   uint64
type Checkpoint struct {
	Size    int64 // size of the IET in bytes; -1: the journal has no checkpoint
	Tail    Tail
	Version format.Version
	Moved   bool      // the anchor and the positions of parked spans belong to another IET
	Anchor  uint32    // id of the entry of Recorder.AppendAnchor; 0: there is none
	Parked  [2]uint64 // the stream of parked spans, from and to: copies of the spans that wait for their parents
	// Positions has an item for the stream of each shard: the position of the first record that is not in
	// the IET.
	Positions []uint64
	Entries   uint64 // number of entries of the IET; 0: unknown
	// Unsaved is the number of entries that were only in IETs which were removed while they grew, and that
	// are not saved in another file yet.
	Unsaved uint64
}

const checkpointHead = 8 + TailSize + 8 + 16 + 8

// Append appends the encoding of c to b.
func (c *Checkpoint) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Size))
	b = append(b, c.Tail[:]...)
	moved := byte(0)
	if c.Moved {
		moved = 1
	}
	b = binary.LittleEndian.AppendUint32(append(b, byte(c.Version), moved, 0, 0), c.Anchor)
	for _, n := range [...]uint64{c.Parked[0], c.Parked[1], uint64(len(c.Positions))} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	for _, p := range c.Positions {
		b = binary.LittleEndian.AppendUint64(b, p)
	}
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, c.Entries), c.Unsaved)
}

// ParseCheckpoint returns the checkpoint with the encoding b.
func ParseCheckpoint(b []byte) (c Checkpoint) {
	if len(b) < checkpointHead {
		return Checkpoint{Size: -1}
	}
	c.Size = int64(binary.LittleEndian.Uint64(b))
	copy(c.Tail[:], b[8:])
	b = b[8+TailSize:]
	c.Version, c.Moved, c.Anchor = format.Version(b[0]), b[1] != 0, binary.LittleEndian.Uint32(b[4:])
	c.Parked = [2]uint64{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
	n := binary.LittleEndian.Uint64(b[24:])
	for b = b[32:]; n > 0 && len(b) >= 8; n-- {
		c.Positions = append(c.Positions, binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	if len(b) >= 16 { // earlier versions do not write these fields
		c.Entries, c.Unsaved = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	}
	return c
}

// position returns the position in a stream of the first record that is not in the IET.
func (c *Checkpoint) position(stream uint32) uint64 {
	switch {
	case stream == journal.StreamDefinitions, stream == journal.StreamLeft:
		return 0
	case stream == journal.StreamParked:
		return c.Parked[0]
	case int(stream) < len(c.Positions):
		return c.Positions[stream]
	}
	return 1<<64 - 1
}
