package provider

import (
	"context"
	"encoding/binary"
	"errors"
)

// The format of an execution trace, as Go 1.23 to 1.27 write it: a header of 16 bytes, and batches. A batch
// is
//
//	type 1, or type 49 and a byte; the uvarints generation, thread, time and size; size bytes
//
// and from Go 1.26 on a byte 52 ends a generation. A generation has its own tables of strings and stacks and
// says anew what each goroutine does, so that a trace without its first generations is whole.
const (
	traceHeader       = 16
	batchEvents       = 1
	batchExperimental = 49
	generationEnd     = 52
)

// A generations is a writer of an execution trace. It keeps the last whole generations that fit into a
// number of bytes. A trace in another format it keeps as a whole, or not at all.
type generations struct {
	ctx  context.Context
	most int // bytes that are kept

	data    []byte // the header and the generations that are kept
	begins  []int  // where each of these begins
	next    int    // where the next batch begins
	last    uint64 // the number of the generation of the last batch
	skips   bool   // the last generation is larger than most
	unknown bool   // the format is another one
	lost    uint64 // bytes that are left out
}

func newGenerations(ctx context.Context, most int) *generations {
	const write = 1 << 17 // more than the runtime writes at once
	return &generations{ctx: ctx, most: most, data: make([]byte, 0, most+write)}
}

func (g *generations) Write(b []byte) (int, error) {
	if g.ctx.Err() != nil {
		return 0, g.ctx.Err()
	}
	if g.unknown && g.lost > 0 {
		g.lost += uint64(len(b))
		return len(b), nil
	}
	g.data = append(g.data, b...)
	for more := true; more && !g.unknown; {
		more = g.batch()
	}
	for len(g.data) > g.most && !g.skips {
		g.drop()
	}
	return len(b), nil
}

// errShort says that a batch is not there as a whole.
var errShort = errors.New("short")

// batch goes over the next batch. It reports false if that is not there as a whole.
func (g *generations) batch() bool {
	if g.next == 0 {
		if len(g.data) < traceHeader {
			return false
		}
		g.next = traceHeader
	}
	size, number, ends, err := nextBatch(g.data[g.next:])
	if err != nil {
		g.unknown = !errors.Is(err, errShort)
		return false
	}
	if !ends && (len(g.begins) == 0 && !g.skips || number != g.last) {
		g.last, g.skips = number, false
		g.begins = append(g.begins, g.next)
	}
	if g.skips {
		g.remove(g.next, g.next+size)
	} else {
		g.next += size
	}
	return true
}

// nextBatch returns the size of the batch at the beginning of b, its generation, and whether it only says
// that a generation ends.
func nextBatch(b []byte) (size int, generation uint64, ends bool, err error) {
	if len(b) == 0 {
		return 0, 0, false, errShort
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
			return 0, 0, false, errShort
		}
		head[i] = x
		at += n
	}
	if head[3] > uint64(len(b)-at) {
		return 0, 0, false, errShort
	}
	return at + int(head[3]), head[0], false, nil
}

// drop leaves out the first generation. If that is the one that is being written, its later batches are left
// out as well.
func (g *generations) drop() {
	switch {
	case g.unknown || len(g.begins) == 0:
		g.unknown = true
		g.lost += uint64(len(g.data))
		g.data = g.data[:0]
	case len(g.begins) == 1:
		g.remove(g.begins[0], g.next)
		g.begins, g.skips = nil, true
	default:
		g.remove(g.begins[0], g.begins[1])
	}
}

// remove leaves out a part of the data, which ends with a batch.
func (g *generations) remove(from, to int) {
	g.lost += uint64(to - from)
	g.data = append(g.data[:from], g.data[to:]...)
	if g.next >= to {
		g.next -= to - from
	}
	for len(g.begins) > 0 && g.begins[0] < to && g.begins[0] >= from {
		g.begins = g.begins[1:]
	}
	for i := range g.begins {
		g.begins[i] -= to - from
	}
}

// trace returns the trace, which is empty if no generation is kept.
func (g *generations) trace() []byte {
	if len(g.data) <= traceHeader || len(g.begins) == 0 && !g.unknown {
		return nil
	}
	return g.data
}
