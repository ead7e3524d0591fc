package recorder

import (
	"cmp"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
)

// An account has the counts and errors that Stats and Err report. Calls and the goroutine of the writer change them.
// mu guards published, and is never held while a file is used, so that no call waits for a file.
type account struct {
	o         *Options // with defaults filled in
	callbacks callbacks
	dropped   droppedCalls

	mu sync.Mutex

	published published
}

// published is the state of the writer that other goroutines can read.
type published struct {
	written    [2]uint64  // entries, spans
	dropped    [2]Dropped // entries, spans; dropped by the writer
	extra      [2]uint64  // entries, spans; not counted in any record
	previous   [2]uint64  // entries, spans; appended to journals before the live one
	bytes      int64
	files      int
	err        error // the last error that made the recorder lose entries
	late       error // the error of a write that the writer tries again; nil after a write has succeeded
	failing    bool  // OnError has been called for err or late, and no write has succeeded since
	unlinked   error
	flushes    uint64 // number of writes, including those that failed
	flushErr   error  // the error of the last write
	durability Durability
	fallback   error // why durability differs from Options.Durability
}

// addExtra adds to the offered counts the entries and spans that belong to no record, such as resources.
func (p *published) addExtra(entries, spans uint64) {
	p.extra[0] += entries
	p.extra[1] += spans
}

// lose moves entries and spans from the counts of written ones to the counts of dropped ones.
func (p *published) lose(entries, spans int) {
	for i, n := range [...]int{entries, spans} {
		p.written[i] -= uint64(n)
		p.dropped[i].IO += uint64(n)
	}
}

// Err implements target.
func (a *account) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.published.late, a.published.err, a.published.unlinked)
}

// flushed returns the number of writes so far, and the error of the last write.
func (a *account) flushed() (n uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.published.flushes, a.published.flushErr
}

// failed stores an error because of which entries are lost. If no error was reported since the last successful write,
// it also reports the error.
func (a *account) failed(err error) { a.fail(&a.published.err, err) }

// delayed is like failed, for an error because of which entries are not in the file yet.
func (a *account) delayed(err error) { a.fail(&a.published.late, err) }

func (a *account) fail(to *error, err error) {
	a.mu.Lock()
	first := !a.published.failing
	*to, a.published.failing = err, true
	a.mu.Unlock()
	if first {
		a.report(err)
	}
}

// report calls OnError on the goroutine for callbacks.
func (a *account) report(err error) {
	if a.o.OnError != nil {
		a.callbacks.post("OnError", 0, func() { a.o.OnError(err) })
	}
}

// notice calls OnNotice on the goroutine for callbacks.
func (a *account) notice(text string) {
	if a.o.OnNotice != nil {
		a.callbacks.post("OnNotice", 0, func() { a.o.OnNotice(text) })
	}
}

// loseWritten moves entries and spans from the counts of written ones to the counts of dropped ones, because their file
// has no name any more.
func (a *account) loseWritten(entries, spans int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.published.lose(entries, spans)
}

// droppedCalls counts the entries and spans that calls could not append, by reason. It also holds the period in which
// calls or the writer lost entries.
type droppedCalls struct {
	mu sync.Mutex

	entries, spans Dropped
	from, to       time.Time // when the first and the last entry was lost because the disk was full or slow; zero: none
}

func (d *droppedCalls) add(err error, entries, spans int) {
	d.mu.Lock()
	n := d.entries.reason(err)
	*n += uint64(entries)
	*d.spans.reason(err) += uint64(spans)
	d.mu.Unlock()
	if n == &d.entries.IO || n == &d.entries.Full || n == &d.entries.Overflow {
		d.lostNow()
	}
}

// lostNow stores the current time as a time at which a call or the writer lost an entry.
func (d *droppedCalls) lostNow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = time.Now()
	if d.from.IsZero() {
		d.from = d.to
	}
}

// describe adds the times of the first and the last lost entry to end, the entry of a clean end.
func (d *droppedCalls) describe(end *format.TraceEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.from.IsZero() {
		end.Add(mapping.AttrDroppedFrom, format.StringValue(d.from.UTC().Format(time.RFC3339Nano)))
		end.Add(mapping.AttrDroppedTo, format.StringValue(d.to.UTC().Format(time.RFC3339Nano)))
	}
}
