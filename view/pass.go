package view

import (
	"context"
	"runtime"
	"sync"
)

// chunksAhead is the number of chunks that may be in progress for each worker.
const chunksAhead = 3

// A pass parses the entries of files on several goroutines. It passes the chunks to take in order, and calls take
// on one goroutine at a time.
type pass struct {
	ctx     context.Context //nolint:containedctx // the context of the one call for which the pass exists
	sources []*source
	until   []uint32 // for each source: the entry before which parsing stops
	take    func(c *chunk) error

	mu    sync.Mutex
	moved sync.Cond // signals changes of turn, busy and err
	file  int
	next  []uint32       // for each source: the first entry that is not in a chunk yet
	count int            // the number of chunks begun so far
	ready map[int]*chunk // parsed chunks that take has not processed yet, by their turn
	turn  int            // the turn of the chunk that take processes now or next
	busy  bool           // whether take is running
	ahead int
	free  []*chunk
	err   error
}

// run parses the entries from p.next to before p.until of each file. Each goroutine uses one parser. At least one
// parser is required.
func (p *pass) run(parsers []*parser) error {
	p.moved.L = &p.mu
	p.ready = make(map[int]*chunk)
	p.ahead = chunksAhead * len(parsers)
	var wg sync.WaitGroup
	for _, w := range parsers[1:] {
		wg.Go(func() { p.parseChunks(w) })
	}
	p.parseChunks(parsers[0])
	wg.Wait()
	return p.err
}

// workersFor returns the number of goroutines to use for a number of entries. The result does not exceed most, or
// GOMAXPROCS if most is not positive.
func workersFor(entries uint64, most int) int {
	if most <= 0 {
		most = runtime.GOMAXPROCS(0)
	}
	return int(min(uint64(most), 1+entries/(chunkEntries/2)))
}

func (p *pass) parseChunks(w *parser) {
	for {
		c, turn := p.begin()
		if c == nil {
			return
		}
		c.parser = w
		p.sources[c.file].parse(w, c)
		p.end(c, turn)
	}
}

// begin returns the next chunk to parse, and its turn. The chunk is nil if no entries are left.
func (p *pass) begin() (*chunk, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil && p.count >= p.turn+p.ahead {
		p.moved.Wait()
	}
	for p.file < len(p.sources) && p.next[p.file] >= p.until[p.file] {
		p.file++
	}
	if p.err != nil || p.file == len(p.sources) {
		return nil, 0
	}
	var c *chunk
	if n := len(p.free); n > 0 {
		c, p.free = p.free[n-1], p.free[:n-1]
	} else {
		c = &chunk{records: make([]record, 0, chunkEntries)}
	}
	first := p.next[p.file]
	c.reset(p.file, first, p.sources[p.file].chunkEnd(first, p.until[p.file]))
	p.next[p.file] = c.last
	p.count++
	return c, p.count - 1
}

// end marks c as parsed. Then it calls take with all parsed chunks whose turn it is. If another goroutine is already
// doing so, that goroutine also calls take with c.
func (p *pass) end(c *chunk, turn int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready[turn] = c
	for !p.busy && p.ready[p.turn] != nil && p.err == nil {
		c := p.ready[p.turn]
		delete(p.ready, p.turn)
		p.busy = true
		p.mu.Unlock()
		err := p.ctx.Err()
		if err == nil {
			err = p.take(c)
		}
		p.mu.Lock()
		if p.err == nil {
			p.err = err
		}
		p.free = append(p.free, c)
		p.busy = false
		p.turn++
		p.moved.Broadcast()
	}
}
