// Package execbatch finds the batches and generations of Go's execution traces without decoding them.
//
// Go 1.23 to 1.27 write a header of 16 bytes, and then batches. A batch is
//
//	type 1, or type 49 and a byte; the uvarints generation, thread, time and size; size bytes
//
// From Go 1.26 on, a byte 52 ends a generation. Each generation has its own tables of strings and stacks, and
// describes the state of every goroutine again. So a trace is complete even if its first generations are missing.
package execbatch

import (
	"encoding/binary"
	"errors"
)

// HeaderSize is the number of bytes before the first batch.
const HeaderSize = 16

// MaxHead is the largest number of bytes of a batch before its data.
const MaxHead = 2 + 4*binary.MaxVarintLen64

const (
	batchEvents       = 1
	batchExperimental = 49
	generationEnd     = 52
)

// ErrShort says that the head of a batch is incomplete.
var ErrShort = errors.New("short")

// Next returns the size and the generation of the batch at the beginning of b. The result ends is true if b begins
// with the mark of a generation's end, which has no generation number. b must have at least MaxHead bytes, unless
// it ends with this batch.
func Next(b []byte) (size int, generation uint64, ends bool, err error) {
	if len(b) == 0 {
		return 0, 0, false, ErrShort
	}
	at := 1
	switch b[0] {
	case generationEnd:
		return 1, 0, true, nil
	case batchEvents:
	case batchExperimental:
		at = 2
	default:
		return 0, 0, false, errors.New("not a batch")
	}
	var head [4]uint64 // generation, thread, time, size
	for i := range head {
		x, n := binary.Uvarint(b[min(at, len(b)):])
		if n < 0 {
			return 0, 0, false, errors.New("not a number")
		}
		if n == 0 {
			return 0, 0, false, ErrShort
		}
		head[i] = x
		at += n
	}
	if head[3] > 1<<30 {
		return 0, 0, false, errors.New("the batch is too large")
	}
	return at + int(head[3]), head[0], false, nil
}
