package recorder

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// Memory returns a recorder that keeps its entries in memory, for tests. Nothing survives the process, and
// the memory has no limit. The recorder has no goroutine, no timer and no file: each call encodes its
// record itself, under a lock. Options for files, waiting and callbacks have no effect.
//
// The function stream returns a copy of the IET with all records so far, including spans that wait for
// their parents. The copy has an entry of a clean end, but the recording continues.
func Memory(o *Options) (r *Recorder, stream func() []byte) {
	opt := o.withDefaults()
	m := &memory{intern: record.NewInterner(nil, opt.Redact)}
	m.placer = placer.New(&m.intern.Table, &placer.Options{
		Columns: opt.Version == format.V2, MaxEntrySize: opt.MaxEntrySize, MaxPendingSpans: opt.MaxWaitingSpans,
		MaxPendingBytes: opt.MaxWaitingBytes, MaxPendingAge: opt.MaxWaitingAge,
	})
	m.placer.Drop = m.lose
	m.add(wire.AppendMagic(nil, opt.Version, format.IET))
	m.placer.Resume(0, wire.MagicSize, 0)
	m.placer.Root()
	m.take()
	return newRecorder(m, m.intern, &opt), m.stream
}

// memory is the target of the recorder that Memory returns.
type memory struct {
	intern *record.Interner

	mu     sync.Mutex
	placer *placer.Placer
	iet    []byte
	stats  Stats
	closed bool
	entry  journal.Entry // the argument of the placer, reused
}

// Put implements target.
func (m *memory) Put(r *journal.Record, _ *journal.Hint, _ *record.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		m.drop(ErrClosed, r.Info.Entries(), r.Info.Spans())
		return ErrClosed
	}
	m.place(r, m.placer.Place)
	if entries, _, _ := m.placer.Pending(); entries > 0 {
		for done := false; !done; {
			done = m.placer.EnforceBounds(time.Now())
		}
	}
	m.take()
	return nil
}

// place counts r and calls fn with r as an entry of a journal. The caller holds m.mu.
func (m *memory) place(r *journal.Record, fn func(*journal.Entry)) {
	m.stats.Entries.Offered += uint64(r.Info.Entries())
	m.stats.Spans.Offered += uint64(r.Info.Spans())
	e := &m.entry
	*e = journal.Entry{Time: r.Time, Info: r.Info, Data: r.Data[journal.HeadSize:]}
	if r.With != nil {
		shared := e.Data[r.Split-journal.HeadSize:]
		e.Segment = r.With.Bytes()
		binary.LittleEndian.PutUint32(shared, 0) // offset of the shared bytes in Segment
		binary.LittleEndian.PutUint32(shared[4:], uint32(len(e.Segment)))
	}
	if r.HasMark {
		e.Data = binary.LittleEndian.AppendUint64(slices.Clone(e.Data), r.Mark)
	}
	fn(e)
}

// add appends b to the IET.
func (m *memory) add(b []byte) {
	m.stats.Bytes += int64(len(b))
	m.iet = append(m.iet, b...)
}

// take appends the staged entries to the IET. The caller holds m.mu.
func (m *memory) take() {
	b, staged := m.placer.Out()
	m.add(b)
	m.stats.Entries.Written += uint64(len(staged))
	m.stats.Spans.Written += uint64(spansIn(staged))
	m.placer.Flushed(len(staged))
	entries, spans := m.placer.Extra()
	m.stats.Entries.Offered += entries
	m.stats.Spans.Offered += spans
}

func (m *memory) stream() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.placer.StagePending() {
	}
	m.take()
	whole := slices.Clone(m.iet)
	entries, size := m.placer.Entries(), m.placer.Size()
	end := deadtrace.RecordOf(endEntry(m.account(), entries, m.intern.Redact))
	if _, err := m.placer.Append(end, 0); err == nil {
		b, staged := m.placer.Out()
		whole = append(whole, b...)
		m.placer.Flushed(len(staged))
	}
	m.placer.Resume(entries, size, m.placer.Anchor()) // remove the end entry from the state of the placer
	return whole
}

// account returns the current Stats. The caller holds m.mu.
func (m *memory) account() Stats {
	s := m.stats
	entries, spans, _ := m.placer.Pending()
	s.Entries.Waiting, s.Spans.Waiting = uint64(entries), uint64(spans)
	return s
}

// Drop implements target.
func (m *memory) Drop(err error, entries, spans int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(err, entries, spans)
}

// drop counts entries and spans as offered and dropped. The caller holds m.mu.
func (m *memory) drop(err error, entries, spans int) {
	m.stats.Entries.Offered += uint64(entries)
	m.stats.Spans.Offered += uint64(spans)
	m.lose(err, entries, spans)
}

// lose counts entries and spans as dropped. They were counted as offered before. The caller holds m.mu.
func (m *memory) lose(err error, entries, spans int) {
	err = ownError(err)
	*m.stats.Entries.Dropped.reason(err) += uint64(entries)
	*m.stats.Spans.Dropped.reason(err) += uint64(spans)
}

// Append implements target.
func (m *memory) Append(r *journal.Record, parent uint32, anchor bool) (id uint32, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		err = ErrClosed
	case uint64(parent) >= m.placer.Entries():
		err = format.ErrInvalid
	}
	if err != nil {
		m.drop(err, 1, 0)
		return 0, err
	}
	m.place(r, func(e *journal.Entry) { id, err = m.placer.Append(e, parent) })
	if err != nil {
		err = ownError(err)
		m.lose(err, 1, 0)
	} else if anchor {
		m.placer.SetAnchor(id)
	}
	m.take()
	return id, err
}

// Close implements target.
func (m *memory) Close(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.closed = true
	for m.placer.StagePending() {
	}
	m.take()
	return nil
}

// Stats implements target.
func (m *memory) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.account()
}

// The other methods of target do nothing, because no call fails or waits.

func (m *memory) NewHint() journal.Hint           { return 0 }
func (m *memory) Wait() error                     { return nil }
func (m *memory) Waits() bool                     { return false }
func (m *memory) Flush(context.Context) error     { return nil }
func (m *memory) Sync(context.Context) error      { return nil }
func (m *memory) Err() error                      { return nil }
func (m *memory) Durability() (Durability, error) { return DurabilityNone, nil }
