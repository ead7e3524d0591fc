package format

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sort"
	"sync"

	"github.com/entrace-go/entrace/internal/wire"
)

// ScanOptions say which entries [File.Scan] passes over and what it wants of them.
type ScanOptions struct {
	// From is the first id and To the one behind the last. A To of 0, or one that
	// is too large, means up to the end.
	From, To uint32
	// Message asks for [ScanEntry].Message.
	Message bool
	// Metadata asks for [ScanEntry].Metadata.
	Metadata bool
	// Attributes are the names of the attributes whose values are wanted.
	Attributes []string
	// Workers is how many goroutines scan at most. The default is
	// runtime.GOMAXPROCS.
	Workers int
	// Concurrent has batches come in any order, as they are ready, and several at
	// the same time. By default they come one at a time and in the order of the
	// file, while other goroutines decode what comes next.
	Concurrent bool
}

// A ScanBatch is what [File.Scan] finds in a row of entries.
type ScanBatch struct {
	// Worker is a number from 0 on and below [ScanOptions].Workers. Batches of one
	// number never come at the same time.
	Worker int
	// Entries has at least one. Their ids ascend without a gap.
	Entries []ScanEntry
}

// A ScanEntry is what [File.Scan] finds in an entry. What was not asked for is
// zero.
type ScanEntry struct {
	ID     uint32
	Parent uint32 // as in the entry, which an ET's pool can contradict
	Level  Level

	// Values has the value of the first attribute of each name in
	// [ScanOptions].Attributes. It is not valid where the entry has none.
	Values []Optional[Value]

	Message  Optional[string]
	Metadata Metadata
}

const (
	// scanSize is how many bytes make a batch at most, unless an entry is larger,
	// which is then held against the limit: as Walk does it.
	scanSize = walkSize
	// scanCount is how many entries make a batch at most.
	scanCount = 256
	// scanAhead is how many batches a worker can be ahead.
	scanAhead = 4
	// scanShapes is how many shapes a worker knows, and scanShapeSize how large one
	// can be.
	scanShapes    = 32
	scanShapeSize = 1 << 10
	// scanKeep is how large a buffer for text may stay.
	scanKeep = 1 << 20
)

// Scan passes over entries, decodes what o asks for and calls fn with one batch of
// them after the other. A nil o means all entries and no more than their parents
// and levels. It decodes with several goroutines, of which none is left when it
// returns. They call fn, too, but one at a time and in the order of the file, unless
// o.Concurrent is set. With one worker all is done by the goroutine that called.
//
// The batch is valid until fn returns, and so are the strings and values in it:
// they lie in a buffer that is used again. Clone what is to be kept. There are up to
// four for each goroutine. One takes about 50 KiB, 10 more for each of o.Attributes,
// and what is wanted of the text of 256 KiB of entries, or of one that is larger.
//
// An entry that is damaged is an error, a [*CorruptError] as from [File.Entry],
// even where it is damaged elsewhere than in what is wanted. All entries before it
// were passed to fn. What fn returns is an error of its batch, and that of ctx one
// of the batch that would be next. Scan returns the error that is first in the
// file, whatever the number of goroutines: all batches before it came, but if
// o.Concurrent is set some behind it may have come, too.
func (f *File) Scan(ctx context.Context, o *ScanOptions, fn func(batch *ScanBatch) error) error {
	if o == nil {
		o = &ScanOptions{}
	}
	s := scan{ctx: ctx, file: f, options: *o, fn: fn, next: o.From, turn: o.From, end: uint32(f.Len())}
	if o.To > 0 && o.To < s.end {
		s.end = o.To
	}
	if s.next >= s.end {
		return ctx.Err()
	}
	s.moved.L = &s.mu
	s.look()
	if s.options.Workers <= 0 {
		s.options.Workers = runtime.GOMAXPROCS(0)
	}
	count, size := s.end-s.next, f.offsets[s.end]-f.offsets[s.next]
	batches := 1 + uint64(count)/scanCount + 2*(size/scanSize) // at most
	workers := int(min(uint64(s.options.Workers), batches))
	s.count = int(min(count, scanCount))
	if s.buffers = workers; workers > 1 && !o.Concurrent {
		s.buffers = scanAhead * workers
	}
	var wg sync.WaitGroup
	defer wg.Wait() // when fn panics, too
	for i := 1; i < workers; i++ {
		wg.Go(func() { s.work(i) })
	}
	s.work(0)
	wg.Wait()
	return s.err
}

// A scan is a call of File.Scan.
type scan struct {
	ctx     context.Context
	file    *File
	options ScanOptions
	fn      func(*ScanBatch) error
	end     uint32
	count   int // of entries in a batch at most

	// What is at hand when a name is passed over tells whether it can be wanted:
	// the size of its encoding, as bits modulo 64, and its last byte.
	sizes uint64
	lasts [256]bool
	names [256][]int // by the last byte, which of options.Attributes can be it

	mu sync.Mutex

	next    uint32        // the first entry that no worker has
	buffers int           // how many more can be made
	free    []*scanBuffer // what was made and is not used
	moved   sync.Cond     // there is something free, or an error
	err     error
	failed  uint32 // the entry that err is about; what is behind it is not wanted

	// Unless Concurrent is set:
	turn  uint32        // where the batch begins that fn is or will be called with
	ready []*scanBuffer // what is decoded and waits for its turn
}

// A scanBuffer holds a batch.
type scanBuffer struct {
	batch       ScanBatch
	entries     []ScanEntry // as many as can be in batch
	text        []byte      // what the strings of the batch alias
	first, last uint32      // the batch is of the entries from first to before last
	err         error       // why it ends before
}

// look notes which names to look at.
func (s *scan) look() {
	for i, name := range s.options.Attributes {
		b := wire.AppendString(nil, name)
		s.sizes |= 1 << (len(b) & 63)
		last := b[len(b)-1]
		s.lasts[last], s.names[last] = true, append(s.names[last], i)
	}
}

// take returns a buffer for entries that nobody scans yet, or nil.
func (s *scan) take() *scanBuffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && s.next < s.end && len(s.free) == 0 && s.buffers == 0 {
		s.moved.Wait()
	}
	if s.err != nil || s.next >= s.end {
		return nil
	}
	var b *scanBuffer
	if n := len(s.free); n > 0 {
		b, s.free = s.free[n-1], s.free[:n-1]
	} else {
		s.buffers--
		b = newScanBuffer(s.count, len(s.options.Attributes))
	}
	offsets := s.file.offsets
	n := sort.Search(int(min(s.end-s.next, scanCount)), func(i int) bool {
		return offsets[int(s.next)+i+1]-offsets[s.next] > scanSize
	})
	b.first, b.last = s.next, s.next+uint32(max(n, 1))
	if s.next = b.last; s.next == s.end {
		s.moved.Broadcast() // nothing will be left to do
	}
	return b
}

func newScanBuffer(entries, values int) *scanBuffer {
	b := &scanBuffer{entries: make([]ScanEntry, entries)}
	all := make([]Optional[Value], entries*values)
	for i := range b.entries {
		b.entries[i].Values = all[i*values : (i+1)*values : (i+1)*values]
	}
	return b
}

// put passes b on to fn when its turn comes. If fn is being called already that
// is for the caller to do.
func (s *scan) put(b *scanBuffer) {
	if s.options.Concurrent {
		s.call(b)
		return
	}
	s.mu.Lock()
	s.ready = append(s.ready, b)
	for b := s.due(); b != nil; b = s.due() {
		last := b.last // b is another's when fn has returned
		s.mu.Unlock()  // without defer: fn can panic
		s.call(b)
		s.mu.Lock()
		s.turn = last
	}
	s.mu.Unlock()
}

// due takes out what comes next. There is nothing while fn is being called, or if
// that is not ready.
func (s *scan) due() *scanBuffer {
	for i, b := range s.ready {
		if b.first == s.turn {
			s.ready = slices.Delete(s.ready, i, i+1)
			return b
		}
	}
	return nil
}

// call calls fn with b if it is still wanted.
func (s *scan) call(b *scanBuffer) {
	s.mu.Lock()
	wanted := s.err == nil || b.first < s.failed
	s.mu.Unlock()
	if !wanted {
		return
	}
	id, err := b.first, s.ctx.Err()
	if n := len(b.batch.Entries); n > 0 && err == nil {
		err = s.fn(&b.batch)
		id += uint32(n)
	}
	if err != nil {
		s.fail(b.first, err)
	} else if b.err != nil {
		s.fail(id, b.err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, b)
	s.moved.Signal()
}

// fail ends the scan with err at entry id, unless it failed before that.
func (s *scan) fail(id uint32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || id < s.failed {
		s.err, s.failed = err, id
	}
	s.moved.Broadcast()
}

// errScanFn is for a fn that has ended its goroutine.
var errScanFn = errors.New("the function that was given to Scan did not return")

// work scans as worker i until there is nothing left to do.
func (s *scan) work(i int) {
	returned := false
	defer func() {
		if !returned {
			s.fail(0, errScanFn) // nobody has to wait for it
		}
	}()
	w := &scanWorker{scan: s, seen: make([]uint64, len(s.options.Attributes))}
	for b := s.take(); b != nil; b = s.take() {
		b.batch.Worker = i
		w.fill(b)
		s.put(b)
	}
	returned = true
}
