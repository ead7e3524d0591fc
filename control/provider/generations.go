package provider

import (
	"context"
	"errors"

	"github.com/entrace-go/entrace/internal/core/execbatch"
)

// A generations is a writer for an execution trace. It keeps as many of the last generations as fit into maxBytes. A
// generation is a part of a trace that can be read alone. If the format of the trace is unknown, it keeps the whole
// trace or nothing.
type generations struct {
	ctx      context.Context
	maxBytes int // the maximum size of the kept data

	data    []byte // the header and the kept generations
	begins  []int  // offset in data of each kept generation
	next    int    // offset in data of the next batch
	last    uint64 // generation number of the last batch
	skips   bool   // the current generation is larger than maxBytes, and is left out
	unknown bool   // the format of the trace is unknown
	lost    uint64 // number of bytes that are left out
}

func newGenerations(ctx context.Context, maxBytes int) *generations {
	const write = 1 << 17 // the runtime never writes as much at once
	return &generations{ctx: ctx, maxBytes: maxBytes, data: make([]byte, 0, maxBytes+write)}
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
	for len(g.data) > g.maxBytes && !g.skips {
		g.drop()
	}
	return len(b), nil
}

// batch handles the next batch. If the batch is not complete yet, it returns false.
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

// drop removes the first generation. If this is the current generation, its later batches are left out as well.
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

// remove removes data[from:to], which ends at the end of a batch.
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

// trace returns the kept trace, or nil if no generation is kept.
func (g *generations) trace() []byte {
	if len(g.data) <= execbatch.HeaderSize || len(g.begins) == 0 && !g.unknown {
		return nil
	}
	return g.data
}
