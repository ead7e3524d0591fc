package record

import (
	"errors"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/redact"
)

// A Definition is a name, a place or a resource that has a number.
type Definition struct {
	Kind  uint8
	Text  string // DefName, DefOwn
	Entry []byte // DefPlace, DefResource
}

const chunkSize = 64

// A Table maps numbers to definitions. It is safe for concurrent use.
type Table struct {
	chunks [(MaxNumber + 1) / chunkSize]atomic.Pointer[[chunkSize]atomic.Pointer[Definition]]
}

// Get returns the definition of a number, nil if the number has no definition.
func (t *Table) Get(number uint16) *Definition {
	if number > MaxNumber {
		return nil
	}
	c := t.chunks[number/chunkSize].Load()
	if c == nil {
		return nil
	}
	return c[number%chunkSize].Load()
}

func (t *Table) set(number uint16, d *Definition) {
	at := &t.chunks[number/chunkSize]
	at.CompareAndSwap(nil, new([chunkSize]atomic.Pointer[Definition]))
	at.Load()[number%chunkSize].Store(d)
}

// ReadTable returns the definitions in the journal of a dead process.
func ReadTable(d *journal.Dead) *Table {
	t := new(Table)
	d.Each(journal.StreamDefinitions, func(_ uint64, e *journal.Entry) {
		if e.Time < 1 || e.Time > MaxNumber {
			return // a later version of this module wrote it
		}
		def := &Definition{Kind: uint8(e.Info.User())}
		switch def.Kind {
		case DefName, DefOwn:
			n, rest, ok := uvarint(e.Data)
			if !ok || n > uint64(len(rest)) {
				return
			}
			def.Text = string(rest[:n])
		case DefPlace, DefResource:
			def.Entry = e.Data
		default:
			return
		}
		t.set(uint16(e.Time), def)
	})
	return t
}

// An Interner gives numbers to names, places and resources, and writes their definitions to a journal. It is safe
// for concurrent use.
//
// A name gets a number when it is used for the second time. A name that is used once uses up no number.
type Interner struct {
	Table

	// Redact replaces secrets, if it is not nil.
	Redact *redact.Redactor

	cache [cacheSize]atomic.Pointer[interned]
	seed  uint64      // random, so that an attacker cannot choose names with equal hashes
	full  atomic.Bool // no further definition has room

	mu sync.Mutex // held while a definition is written to a file

	victim  uint64                         // makes keep replace the slots of a full set in turn
	once    [cacheSize / ways][ways]uint64 // hashes of names that were used once
	streams []definitions                  // the streams to which definitions are written
	last    uint16                         // the largest number so far
	size    int                            // size of all definitions in bytes
	failed  time.Time                      // when writing a definition last failed; zero after a success
	numbers [2]map[string]uint16           // numbers of DefName and of DefOwn, by text
	entries map[string]uint16              // numbers of resources, by encoded entry
}

const (
	cacheSize = 2048
	ways      = 4 // number of consecutive slots of the cache in which a name may be

	// shortWait is how long a call waits for a definition to be written. After that, the record has the name
	// itself.
	shortWait = time.Millisecond
	// defineAgain is how long no definition is written after writing one has failed.
	defineAgain = time.Second

	// maxDefinitions is the largest size of all definitions in bytes, maxDefined the largest size
	// of one definition.
	maxDefinitions = 1 << 20
	maxDefined     = journal.MaxStreamRecord
	// maxName is the size of the longest name that gets a number, maxMessage the size of the longest message that
	// the definition of a place includes.
	maxName    = 256
	maxMessage = 1 << 10
)

// An interned is a name that has a number. Its text is that of the definition, because the caller's text may be a
// part of a large string, which must not stay in memory.
type interned struct {
	text   string
	own    bool
	number uint16
	// The verdict on the name alone, without groups.
	verdict redact.Verdict
	// The results of the function ends for text.
	first, last uint64
}

func (in *Interner) newInterned(number uint16, d *Definition) *interned {
	c := &interned{text: d.Text, own: d.Kind == DefOwn, number: number, verdict: in.Redact.Key(d.Text)}
	c.first, c.last = ends(c.text)
	return c
}

// definitions is a journal with its stream of definitions.
type definitions struct {
	of     *journal.Journal
	stream *journal.Stream
}

// NewInterner returns an Interner that has the definitions of t, if t is not nil. New definitions get higher
// numbers. The Interner's Redact applies the policy p, or the default policy if p is nil. With the default policy,
// the first replacement prints a notice on the console, because the user may not know of the policy.
func NewInterner(t *Table, p *redact.Policy) *Interner {
	tell := tellFirst
	if p != nil {
		tell = nil
	}
	in := &Interner{
		Redact: redact.New(p, tell),
		seed:   maphash.String(maphash.MakeSeed(), ""), numbers: [2]map[string]uint16{make(map[string]uint16), make(map[string]uint16)},
		entries: make(map[string]uint16),
	}
	if t == nil {
		return in
	}
	for n := uint16(1); n <= MaxNumber; n++ {
		d := t.Get(n)
		if d == nil {
			continue
		}
		in.set(n, d)
		in.last = n
		in.size += len(d.encode())
		switch d.Kind {
		case DefName:
			in.numbers[0][d.Text] = n
		case DefOwn:
			in.numbers[1][d.Text] = n
		case DefResource:
			in.entries[string(d.Entry)] = n
		}
	}
	return in
}

// told lets a process print only one notice about replaced secrets.
var told sync.Once

// tellFirst prints a notice on the console that a secret was replaced, and does not wait until it is printed.
func tellFirst(rule, key string) {
	told.Do(func() {
		what := "a secret in a text (" + rule + ")"
		if key != "" {
			what = strconv.Quote(key)
		}
		go notice.Info(what + " is recorded as " + redact.Mark + ", as all further secrets will be; OTEL_EXPORTER_ENTRACE_REDACT=off records secrets")
	})
}

// encode returns the data that the journal stores for d.
func (d *Definition) encode() []byte {
	if d.Entry != nil {
		return d.Entry
	}
	return appendBytes(nil, d.Text)
}

// Attach writes all existing definitions to j, and from now on each new one. Records in j may then use their
// numbers. If j does not survive the process, Attach does nothing, because nobody reads j later.
func (in *Interner) Attach(j *journal.Journal) error {
	if j.Medium() == journal.Heap {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	d := definitions{j, j.NewStream(journal.StreamDefinitions)}
	for n := uint16(1); n <= in.last; n++ {
		def := in.Get(n)
		if def == nil {
			continue
		}
		if err := d.write(n, def.Kind, def.encode()); err != nil {
			return err
		}
	}
	in.streams = append(in.streams, d)
	return nil
}

// Detach undoes Attach: no further definitions are written to j.
func (in *Interner) Detach(j *journal.Journal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.streams = slices.DeleteFunc(in.streams, func(d definitions) bool { return d.of == j })
}

func (d *definitions) write(number uint16, kind uint8, data []byte) error {
	_, err := d.stream.Append(int64(number), journal.NewInfo(0, 0, uint32(kind)), data)
	return err
}

// hash returns the hash of a name of n bytes. The words first and last are results of ends.
func (in *Interner) hash(first, last uint64, n int, own bool) uint64 {
	if own {
		last = ^last
	}
	hi, lo := bits.Mul64(first^in.seed, last^bits.Reverse64(in.seed)^uint64(n)<<56)
	return hi ^ lo
}

// name returns the number of a name and the verdict on the name. It returns 0 if the name has no number.
func (in *Interner) name(s string, own bool) (uint16, redact.Verdict) {
	if s == "" || len(s) > maxName {
		return 0, 0
	}
	first, last := ends(s)
	h := in.hash(first, last, len(s), own)
	for i := range uint64(ways) {
		c := in.cache[(h+i)%cacheSize].Load()
		if c == nil {
			break
		}
		if c.first == first && c.last == last && len(c.text) == len(s) && c.own == own && (len(s) <= 16 || c.text == s) {
			return c.number, c.verdict
		}
	}
	return in.lookUp(s, own, h)
}

// keep stores the name with the given number in the cache. h is the hash of the name. The caller holds in.mu.
func (in *Interner) keep(number uint16, h uint64) {
	c := in.newInterned(number, in.Get(number))
	for i := range uint64(ways) {
		p := &in.cache[(h+i)%cacheSize]
		if old := p.Load(); old == nil || old.number == number {
			p.Store(c)
			return
		}
	}
	in.victim++
	in.cache[(h+in.victim%ways)%cacheSize].Store(c)
}

// names returns the map of the numbers of DefOwn, or of DefName if own is false. The caller holds in.mu.
func (in *Interner) names(own bool) map[string]uint16 {
	if own {
		return in.numbers[1]
	}
	return in.numbers[0]
}

// lookUp is like name, for a name that is not in the cache. h is the hash of the name.
func (in *Interner) lookUp(s string, own bool, h uint64) (number uint16, v redact.Verdict) {
	clean := in.Redact.Text(s) == s // before locking, because a policy may call a function of the application
	if !in.mu.TryLock() {           // whoever holds the lock may be waiting for a disk
		return 0, 0
	}
	number, known := in.names(own)[s]
	if !known && (in.full.Load() || !clean) {
		in.mu.Unlock()
		return 0, 0
	}
	v = in.Redact.Key(s)
	if !known {
		if once := &in.once[h%uint64(len(in.once))]; !slices.Contains(once[:], h) {
			once[rand.IntN(ways)] = h //nolint:gosec // not in turns: names could take each other's place for ever
			in.mu.Unlock()
			return 0, 0
		}
		data, size := appendBytes(nil, s), len(s) // a copy, because s may change before the definition is written
		kind := uint8(DefName)
		if own {
			kind = DefOwn
		}
		number, _ = in.define(kind, data, shortWait, func(number uint16) {
			text := string(data[len(data)-size:])
			in.names(own)[text] = number
			in.set(number, &Definition{Kind: kind, Text: text})
			in.keep(number, h)
		})
		return number, v
	}
	in.keep(number, h)
	in.mu.Unlock()
	return number, v
}

// define writes a definition, calls commit with its number, and returns the number. It returns 0 if the definition
// could not be written. The caller holds in.mu; define unlocks it. If the journal is slow and the definition is not
// written within the time wait, define returns 0 and the channel late, which receives the number or 0 once the
// write has ended.
func (in *Interner) define(kind uint8, data []byte, wait time.Duration, commit func(number uint16)) (number uint16, late <-chan uint16) {
	written := slices.ContainsFunc(in.streams, func(d definitions) bool { return d.of.Medium() == journal.Written })
	if !written {
		defer in.mu.Unlock()
		return in.write(kind, data, commit), nil
	}
	done := make(chan uint16, 1)
	go func() {
		defer in.mu.Unlock()
		done <- in.write(kind, data, commit)
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case number = <-done:
		return number, nil
	case <-timer.C:
		return 0, done
	}
}

// write is like define, but waits until the write has ended, and does not unlock in.mu.
func (in *Interner) write(kind uint8, data []byte, commit func(number uint16)) uint16 {
	if len(data) > maxDefined {
		return 0
	}
	if in.last == MaxNumber || in.size+len(data) > maxDefinitions {
		in.full.Store(true)
		return 0
	}
	if !in.failed.IsZero() && time.Since(in.failed) < defineAgain {
		return 0
	}
	in.last++
	in.size += len(data)
	for i := range in.streams {
		if in.streams[i].write(in.last, kind, data) == nil {
			continue
		}
		in.failed = time.Now()
		if i == 0 { // no journal has this number yet, so it can be used again
			in.last--
			in.size -= len(data)
		}
		return 0
	}
	in.failed = time.Time{}
	commit(in.last)
	return in.last
}

// A Place is a place in the source code that makes entries. It is safe for concurrent use.
type Place struct {
	in     *Interner
	head   wire.Head // with the message that most records of the place have
	number atomic.Uint32
	names  atomic.Pointer[[]interned] // the names of the attributes of recent records, in order
	learnt atomic.Int32               // how often names was replaced
}

// Place returns a Place with the head h. If h has a message, it should be the one that most records of the place
// have.
func (in *Interner) Place(h *wire.Head) *Place {
	p := &Place{in: in, head: *h}
	if len(h.Message) > maxMessage {
		p.head.Message, p.head.HasMessage = "", false
	}
	// Copy the caller's texts, because they may be parts of large strings.
	for _, text := range []*string{&p.head.Message, &p.head.Name, &p.head.Target, &p.head.Module, &p.head.File} {
		*text = strings.Clone(in.Redact.Text(*text))
	}
	p.define()
	return p
}

// define returns the number of p. If p has none yet, define tries to give it one. It returns 0 if this fails.
func (p *Place) define() uint16 {
	if n := p.number.Load(); n != 0 || p.in.full.Load() || !p.in.mu.TryLock() {
		return uint16(n)
	}
	if n := p.number.Load(); n != 0 {
		p.in.mu.Unlock()
		return uint16(n)
	}
	b := append(encodeHead(&p.head), 0, codeEnd)
	n, _ := p.in.define(DefPlace, b, shortWait, func(n uint16) {
		p.in.set(n, &Definition{Kind: DefPlace, Entry: b})
		p.number.Store(uint32(n))
	})
	return n
}

// encodeHead returns the encoded head h, with texts instead of numbers.
func encodeHead(h *wire.Head) []byte {
	b := []byte{headFlags(h), h.Level}
	text := func(has bool, s string) {
		if has {
			b = appendBytes(append(b, 0), s)
		}
	}
	text(true, h.Name)
	text(true, h.Target)
	text(h.HasModule, h.Module)
	text(h.HasFile, h.File)
	if h.HasLine {
		b = appendUvarint(b, uint64(h.Line))
	}
	if h.HasMessage {
		b = appendBytes(b, h.Message)
	}
	return b
}

// Resource returns the number of the resource with the given encoded entry, and whether the resource is new. It
// waits for a slow disk no longer than an append does, and then returns ErrBusy. If its definition is written
// later, another goroutine then calls the function late with the number. The other possible error is ErrTableFull.
func (in *Interner) Resource(entry []byte, late func(number uint16)) (number uint16, isNew bool, err error) {
	for try := 0; !in.mu.TryLock(); try++ {
		if try == 100 {
			return 0, false, ErrBusy // the disk does not respond
		}
		time.Sleep(100 * time.Microsecond)
	}
	if number, known := in.entries[string(entry)]; known {
		in.mu.Unlock()
		return number, false, nil
	}
	entry = append([]byte(nil), entry...)
	wait := time.Duration(0)
	for i := range in.streams {
		wait = max(wait, in.streams[i].of.MaxWait())
	}
	number, done := in.define(DefResource, entry, wait, func(number uint16) {
		in.set(number, &Definition{Kind: DefResource, Entry: entry})
		in.entries[string(entry)] = number
	})
	switch {
	case done != nil:
		go func() {
			if n := <-done; n != 0 {
				late(n)
			}
		}()
		return 0, false, ErrBusy
	case number == 0:
		return 0, false, ErrTableFull
	}
	return number, true, nil
}

var (
	// ErrBusy is returned if a definition is not written in time.
	ErrBusy = errors.New("the definition of a name or resource is being written by another goroutine")
	// ErrTableFull is returned if a definition is too large, has no room, or could not be written.
	ErrTableFull = errors.New("too many resources, or a resource that is too large")
)
