package deadtrace

import (
	"encoding/binary"
	"io"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
)

// TailSize is how many of its last bytes tell one IET from another.
const TailSize = 64

// A Tail is the last bytes of a file. Those before a shorter one are zero.
type Tail [TailSize]byte

// Add makes t the tail of the file when b is written behind it.
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

// A Checkpoint says how much of a journal is in which file. Its data are:
//
//	size      uint64   // of the IET
//	tail      [64]byte // its last bytes
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
	Size    int64 // of the IET; -1: there is no checkpoint
	Tail    Tail
	Version format.Version
	Moved   bool      // entry ids and positions of parked spans are those of another IET
	Anchor  uint32    // see Recorder.AppendAnchor; 0 without one
	Parked  [2]uint64 // between them lie the records of pending spans
	// Positions are where each stream of a shard goes on that is not in the IET.
	Positions []uint64
	Entries   uint64 // of the IET; 0: unknown
	// Unsaved is how many entries were in IETs that were removed while they grew, and are in no other
	// file yet.
	Unsaved uint64
}

const checkpointHead = 8 + TailSize + 8 + 16 + 8

// Append appends the data of c to b.
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

// ParseCheckpoint returns the checkpoint of data that Append has made.
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
	if len(b) >= 16 { // older ones end here
		c.Entries, c.Unsaved = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	}
	return c
}

// position returns where a stream goes on that is not in the IET.
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
