package view

import (
	"context"
	"runtime"
	"sync"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
)

const (
	// chunkSize is the approximate size of a chunk in bytes. It fits into the cache of a processor core.
	chunkSize = 1 << 20
	// chunkEntries is the maximum number of entries of a chunk.
	chunkEntries = 1 << 14
	// chunksAhead is the number of chunks that may be in progress for each worker.
	chunksAhead = 3
)

// A source is a file of a view, with access to its encoded entries.
type source struct {
	file    *format.File
	entries entrybytes.Entries
}

// chunkEnd returns the end of a chunk that begins with entry first. The chunk does not include the entry at the
// end. The end is at most limit.
func (s *source) chunkEnd(first, limit uint32) uint32 {
	n := min(limit-first, chunkEntries)
	from := s.entries.Offset(first)
	for n > 1 && s.entries.Offset(first+n)-from > chunkSize {
		n = n/2 + n/8
	}
	return first + max(n, 1)
}

// attributeID parses an attribute of an entry as a span id. It returns 0 if the attribute is not a span id.
func (s *source) attributeID(id uint32, name string) (uint64, error) {
	a, _, err := s.file.Attribute(id, name)
	if err != nil || len(a.Text()) != 16 {
		return 0, err
	}
	if n, ok := hexDigits([]byte(a.Text())); ok {
		return n, nil
	}
	return 0, nil
}

// parse fills c with the records of its entries. If c.err is nil afterwards, c has a record of every entry.
func (s *source) parse(w *parser, c *chunk) {
	e, gap, columns := s.entries, s.entries.Gap(), s.entries.Columns()
	ahead := uint32(chunkEntries) // after an entry that is not in the usual form, use small steps
	for id := c.first; id < c.last; {
		from, last := e.Offset(id), min(c.last-id, ahead)+id
		ahead *= 4
		err := e.View(from, e.Offset(last)-from, func(b []byte) {
			p := 0
			for ; id < last; id++ {
				next := int(e.Offset(id+1) - from)
				if !w.parse(c, b, p+gap, next, id, columns) {
					return
				}
				p = next
			}
		})
		if err == nil && id < last {
			ahead = 4
			var entry *format.TraceEntry
			entry, err = s.file.Entry(id)
			if err == nil {
				b, whole := usual(entry)
				w.parse(c, b, 0, len(b), id, false)
				if !whole {
					c.records[len(c.records)-1].shape = unknown
				}
				id++
			}
		}
		if err != nil {
			c.err = err
			break
		}
	}
	c.metas, c.messages, c.shapes = w.metas, w.messages, w.shapes
}

// parseOne returns a chunk that has only the record of entry id.
func (s *source) parseOne(id uint32) (*chunk, error) {
	c := &chunk{first: id, last: id + 1}
	s.parse(newParser(), c)
	return c, c.err
}

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
