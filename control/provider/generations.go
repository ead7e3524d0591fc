package provider

import (
	"context"
	"errors"

	"github.com/entrace-go/entrace/internal/core/execbatch"
)

// A generations is a writer that accepts an execution trace and keeps the last whole generations that fit into
// most bytes. It keeps a trace in an unknown format as a whole, or not at all.
type generations struct {
	ctx  context.Context
	most int // maximum number of bytes that are kept

	data    []byte // the header and the kept generations
	begins  []int  // the offset of each kept generation in data
	next    int    // the offset of the next batch in data
	last    uint64 // the generation number of the last batch
	skips   bool   // the last generation is larger than most
	unknown bool   // the format is unknown
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

// batch processes the next batch. It returns false if the batch is not complete yet.
func (g *generations) batch() bool {
	if g.next == 0 {
		if len(g.data) < execbatch.HeaderSize {
			return false
		}
		g.next = execbatch.HeaderSize
	}
	size, number, ends, err := execbatch.Next(g.data[g.next:])
	if err != nil {
		g.unknown = !errors.Is(err, execbatch.ErrShort)
		return false
	}
	if size > len(g.data)-g.next {
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

// drop leaves out the first generation. If this generation is still being written, its later batches are left
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

// remove removes data[from:to], which ends with a batch.
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
	if len(g.data) <= execbatch.HeaderSize || len(g.begins) == 0 && !g.unknown {
		return nil
	}
	return g.data
}
