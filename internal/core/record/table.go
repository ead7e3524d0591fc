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

// A Definition is a name or a call site that a number stands for.
type Definition struct {
	Kind  uint8
	Text  string // DefName, DefOwn
	Entry []byte // DefPlace, DefResource
}

const chunkSize = 64

// A Table has the definitions by their numbers. It is safe for concurrent use.
type Table struct {
	chunks [(MaxNumber + 1) / chunkSize]atomic.Pointer[[chunkSize]atomic.Pointer[Definition]]
}

// Get returns the definition of a number, nil if there is none.
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
			return // of a later version
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

// An Interner gives numbers to names, places and resources, and writes their definitions
// to a journal. It is safe for concurrent use.
//
// A name gets a number when it is used for the second time, so that names that are used
// only once use up no numbers.
type Interner struct {
	Table

	// Redact replaces secrets, if it is not nil.
	Redact *redact.Redactor

	cache [cacheSize]atomic.Pointer[interned]
	seed  uint64      // keeps those who choose names from choosing where they are
	full  atomic.Bool // there is no room for another definition

	mu sync.Mutex // may be held while a file is written

	victim  uint64                         // which way is replaced next
	once    [cacheSize / ways][ways]uint64 // hashes of names that came once
	streams []definitions                  // where the definitions are written
	last    uint16
	size    int
	failed  time.Time            // when a definition could not be written, if none could since
	numbers [2]map[string]uint16 // of DefName and DefOwn
	entries map[string]uint16    // of resources
}

const (
	cacheSize = 2048
	ways      = 4 // places in the cache where a name may be

	// shortWait is how long a file is waited for before a name is written in place.
	shortWait = time.Millisecond
	// defineAgain is how long no definition is tried after one could not be written.
	defineAgain = time.Second

	// maxDefinitions is how many bytes of definitions there are at most, maxDefined how
	// large one is.
	maxDefinitions = 1 << 20
	maxDefined     = journal.MaxStreamRecord
	// maxName is the size of the largest name that gets a number, maxMessage that of the
	// largest message of a place.
	maxName    = 256
	maxMessage = 1 << 10
)

// An interned name. Its text is that of the definition: the caller's may be a part of
// something large, which must not be kept alive.
type interned struct {
	text   string
	own    bool
	number uint16
	// The verdict on the name alone, without groups.
	verdict redact.Verdict
	// The first and the last bytes of the text, see ends.
	first, last uint64
}

func (in *Interner) newInterned(number uint16, d *Definition) *interned {
	c := &interned{text: d.Text, own: d.Kind == DefOwn, number: number, verdict: in.Redact.Key(d.Text)}
	c.first, c.last = ends(c.text)
	return c
}

// definitions are the stream of definitions of a journal.
type definitions struct {
	of     *journal.Journal
	stream *journal.Stream
}

// NewInterner returns an Interner that knows the definitions of t, if that is not nil,
// and goes on behind them. Its Redact applies p; nil is the default policy. Nobody asked for that one,
// so its first replacement is told on the console.
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

// told is for the one message of a process about replaced secrets.
var told sync.Once

// tellFirst says on the console that a secret was replaced. It does not wait for the console.
func tellFirst(rule, key string) {
	told.Do(func() {
		what := "a secret in a text (" + rule + ")"
		if key != "" {
			what = strconv.Quote(key)
		}
		go notice.Info(what + " is recorded as " + redact.Mark + ", as further secrets are; OTEL_EXPORTER_ENTRACE_REDACT=off records them")
	})
}

// encode returns d as it is in a journal.
func (d *Definition) encode() []byte {
	if d.Entry != nil {
		return d.Entry
	}
	return appendBytes(nil, d.Text)
}

// Attach writes all definitions, now and as they come, to j, whose
// records may then name their numbers. A journal that does not survive the process needs
// none.
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

// Detach ends what Attach began.
func (in *Interner) Detach(j *journal.Journal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.streams = slices.DeleteFunc(in.streams, func(d definitions) bool { return d.of == j })
}

func (d *definitions) write(number uint16, kind uint8, data []byte) error {
	_, err := d.stream.Append(int64(number), journal.NewInfo(0, 0, uint32(kind)), data)
	return err
}

// hash returns the hash of a name of n bytes that has these ends.
func (in *Interner) hash(first, last uint64, n int, own bool) uint64 {
	if own {
		last = ^last
	}
	hi, lo := bits.Mul64(first^in.seed, last^bits.Reverse64(in.seed)^uint64(n)<<56)
	return hi ^ lo
}

// name returns the number of a name and the verdict on it, 0 if it has none.
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

// keep puts a name that has the hash h into the cache. The lock is held.
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

// names returns the numbers of the names of a kind. The lock is held.
func (in *Interner) names(own bool) map[string]uint16 {
	if own {
		return in.numbers[1]
	}
	return in.numbers[0]
}

// lookUp is name for one that has the hash h and is not in the cache.
func (in *Interner) lookUp(s string, own bool, h uint64) (number uint16, v redact.Verdict) {
	clean := in.Redact.Text(s) == s // before the lock, because a policy may call the application
	if !in.mu.TryLock() {           // who has the lock may wait for a disk
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
		data, size := appendBytes(nil, s), len(s) // s may be gone when the definition is written
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

// define writes a definition, has commit note its number, and returns it, 0 if there is no
// room. The lock is held, and given up. A file that does not answer is waited for no longer
// than wait: then late gets the number when the definition has come to be, or 0.
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

// write is define for a caller who has time. It keeps the lock.
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
		if i == 0 { // nobody has seen the number
			in.last--
			in.size -= len(data)
		}
		return 0
	}
	in.failed = time.Time{}
	commit(in.last)
	return in.last
}

// A Place is a place in the source that makes entries. It is safe for concurrent use.
type Place struct {
	in     *Interner
	head   wire.Head // with the message of most records
	number atomic.Uint32
	names  atomic.Pointer[[]interned] // of the attributes of the last records, in their order
	learnt atomic.Int32               // how often names was changed
}

// Place returns the Place that h describes. Its message, if it has one, is that of most
// records.
func (in *Interner) Place(h *wire.Head) *Place {
	p := &Place{in: in, head: *h}
	if len(h.Message) > maxMessage {
		p.head.Message, p.head.HasMessage = "", false
	}
	// The caller's texts may be parts of something large.
	for _, text := range []*string{&p.head.Message, &p.head.Name, &p.head.Target, &p.head.Module, &p.head.File} {
		*text = strings.Clone(in.Redact.Text(*text))
	}
	p.define()
	return p
}

// define returns the number of p, 0 if it has none.
func (p *Place) define() uint16 {
	if n := p.number.Load(); n != 0 || p.in.full.Load() || !p.in.mu.TryLock() {
		return uint16(n)
	}
	if n := p.number.Load(); n != 0 {
		p.in.mu.Unlock()
		return uint16(n)
	}
	b := append(appendHead(nil, &p.head), 0, codeEnd)
	n, _ := p.in.define(DefPlace, b, shortWait, func(n uint16) {
		p.in.set(n, &Definition{Kind: DefPlace, Entry: b})
		p.number.Store(uint32(n))
	})
	return n
}

// appendHead appends the head of an entry without numbers.
func appendHead(b []byte, h *wire.Head) []byte {
	flags := byte(0)
	set := func(bit byte, has bool) {
		if has {
			flags |= bit
		}
	}
	set(headMessage, h.HasMessage)
	set(headModule, h.HasModule)
	set(headFile, h.HasFile)
	set(headLine, h.HasLine)
	b = append(b, flags, h.Level)
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

// Resource returns the number of a resource, which entry describes, and whether it is
// new. It waits for a file no longer than an append does: when it has returned ErrBusy, a
// number that there is later is given to late, in another goroutine. The other error is
// ErrTableFull.
func (in *Interner) Resource(entry []byte, late func(number uint16)) (number uint16, isNew bool, err error) {
	for try := 0; !in.mu.TryLock(); try++ {
		if try == 100 {
			return 0, false, ErrBusy // the disk does not answer
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
	// ErrBusy is returned while a definition is being written.
	ErrBusy = errors.New("the definitions are being written")
	// ErrTableFull is returned when there is no room for another definition.
	ErrTableFull = errors.New("too many resources, or a resource that is too large")
)
