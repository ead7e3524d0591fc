package deadtrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/inside"
)

// A journalTail holds the records of a dead writer that are only in its journal, and the text with the
// reason of the death.
type journalTail struct {
	f       *journal.DeadFile
	name    string // name of the journal, or of the file that names the journal; "" for a file that has no journal
	change  bool   // f is open for writing
	dead    *journal.Dead
	table   *record.Table
	point   Checkpoint
	records int
	entries int
	// unreadable means that the journal has another layout, or has data but no valid checkpoint. Without a
	// checkpoint, the records that the IET already has are unknown.
	unreadable bool
	layout     error // the error if the journal has another layout

	text string // the text that the runtime wrote at the death
	died time.Time
	// written is the modification time of the stream, as the file system has it.
	written time.Time
}

// A stream and its crash text are copies if their modification times are within duringCopy of each other,
// but more than afterRecord after the last record. A writer is never that late, so the times are those of
// the copying.
const (
	duringCopy  = 30 * time.Second
	afterRecord = 5 * time.Minute
)

// openJournalTail reads the journal of stream. It returns nil if stream has neither a journal nor a crash
// text. The error is [format.ErrLocked] if the writer lives. With the error [journal.ErrGone], the result
// may still have the text.
func openJournalTail(stream string, change bool) (*journalTail, error) {
	name := stream + tracename.Journal
	text, died, terr := crashtext.Read(stream + crashtext.Ext)
	f, err := journal.OpenDead(name, change)
	b := newJournalTail(f, name, change)
	if fi, err := osfile.Stat(stream); err == nil {
		b.written = fi.ModTime()
	}
	b.text, b.died = text, died
	if err == nil {
		err = b.lock()
		if err == nil {
			err = b.read()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("journal %s: %w", name, err), b.close())
		}
		return b, nil
	}
	// If the stream ended cleanly, Close has removed the journal but not the file that names it.
	if errors.Is(err, fs.ErrNotExist) || isUnreachable(err) && markOf(stream) == markEnd {
		err = nil
		if change {
			_ = journal.RemoveUnreachable(name)
		}
	} else {
		err = fmt.Errorf("journal %s: %w", name, err)
	}
	switch {
	case text != "" && (err == nil || errors.Is(err, journal.ErrGone)):
		return b, err
	case err == nil:
		return nil, terr
	}
	return nil, err
}

// newJournalTail returns a journalTail without records.
func newJournalTail(f *journal.DeadFile, name string, change bool) *journalTail {
	return &journalTail{f: f, name: name, change: change, dead: new(journal.Dead), table: new(record.Table), point: Checkpoint{Size: -1}}
}

// lock locks the journal. If the journal is only read, lock does not wait.
func (b *journalTail) lock() error {
	if b.change {
		return lock(b.f.File)
	}
	return lockError(b.f.File, osfile.Lock(b.f.File, false))
}

// isWaiting reports whether the journal of a living writer has records that are not in the stream yet. It
// reads the journal while the writer continues, without a lock. If the journal cannot be read, isWaiting
// returns true.
func isWaiting(stream string) bool {
	name := stream + tracename.Journal
	f, err := journal.OpenDead(name, false)
	if err != nil {
		return true
	}
	defer f.Close()
	b := newJournalTail(f, name, false)
	return b.read() != nil || b.unreadable || b.dead.Damaged > 0 || b.records > 0
}

// read reads the records that are not in the IET.
func (b *journalTail) read() error {
	f := b.f
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	d, err := journal.ReadDead(f, fi.Size(), func(data []byte) func(uint32) uint64 {
		b.point = ParseCheckpoint(data)
		return b.point.position
	})
	if layout, ok := errors.AsType[*journal.LayoutError](err); ok {
		b.layout, b.unreadable = layout, true
		return nil
	}
	switch {
	case errors.Is(err, journal.ErrNotJournal): // perhaps the process died before the journal was complete
	case err != nil:
		return err
	default:
		b.dead, b.table = d, record.ReadTable(d)
	}
	if b.point.Size < 0 {
		empty, err := journal.IsEmpty(f, fi.Size())
		b.unreadable = err != nil || !empty
		return nil
	}
	b.each(func(e *journal.Entry) {
		b.records++
		b.entries += e.Info.Entries()
	})
	return nil
}

// parked calls fn for each record that waited for its parent.
func (b *journalTail) parked(fn func(*journal.Entry)) {
	b.dead.Each(journal.StreamParked, func(position uint64, e *journal.Entry) {
		if position >= b.point.Parked[0] && position < b.point.Parked[1] {
			fn(e)
		}
	})
}

// merge returns the records that are not in the IET, except records that waited for their parents.
func (b *journalTail) merge() *journal.Merge {
	m := journal.NewMerge(b.dead.Shards())
	for i, p := range b.point.Positions {
		m.Skip(i, p)
	}
	return m
}

// each calls fn for each record that is not in the IET.
func (b *journalTail) each(fn func(*journal.Entry)) {
	b.parked(fn)
	m := b.merge()
	for e := m.Next(); e != nil; e = m.Next() {
		fn(e)
	}
}

// close closes the journal and does not change it.
func (b *journalTail) close() error {
	if b == nil || b.f == nil {
		return nil
	}
	return osfile.Ignore(b.f.Close(), os.ErrClosed)
}

// empty reports whether b has no record and no text for the IET.
func (b *journalTail) empty() bool { return b.records == 0 && b.text == "" }

// adds reports whether recovery appends to the IET: records, a text, or the entry which says that the
// process died. s is the survey of the IET. An IET without records gets no such entry.
func (b *journalTail) adds(s *survey) bool { return !b.empty() || !s.ended && s.entries > 1 }

// remove removes the journal, whose records must all be in the IET. A journal that is unreadable is
// renamed. A second call does nothing.
func (b *journalTail) remove() error {
	err := error(nil)
	switch {
	case b.f == nil, !b.f.HasName():
		err = b.close()
	case b.unreadable:
		err = errors.Join(b.setAside(), b.close())
	default:
		err = b.f.Remove()
	}
	if err != nil {
		return err
	}
	b.f = nil
	// The text is removed last: if only the removal of the journal succeeds, the next recovery finds the
	// text at the end of the IET, and does not write it again.
	return osfile.Ignore(os.Remove(strings.TrimSuffix(b.name, tracename.Journal)+crashtext.Ext), fs.ErrNotExist)
}

// setAside renames the journal to a name with the time of its last change.
func (b *journalTail) setAside() error {
	fi, err := b.f.Stat()
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(b.name, tracename.Journal) + "." + fi.ModTime().UTC().Format(TimeFormat)
	return errors.Join(untilFree(base, brokenExt, b.f.Rename), osfile.SyncDir(b.name))
}

// move makes the checkpoint describe the first size bytes of f, which have no records of the journal. If
// this replay is killed, the next one cuts f to that size.
func (b *journalTail) move(f *os.File, size int64) error {
	if !b.change || b.records == 0 {
		return nil // the caller replays to a copy
	}
	c := b.point
	var err error
	c.Tail, err = TailOf(f, size)
	if err != nil {
		return err
	}
	c.Size, c.Moved = size, true
	// The IET must be on disk before the checkpoint describes it.
	return errors.Join(f.Sync(), b.dead.ReplaceCheckpoint(b.f, c.Append(nil)), b.f.Sync())
}

// replay appends the records and the text of b to the complete entries of f. f is an IET, locked and open
// for writing, and s is its survey. After a success, everything is in f and on disk. After a failure or a
// kill, replay can be repeated. Bytes of f after damage are lost.
func (b *journalTail) replay(f *os.File, s *survey) error {
	fi, err := f.Stat()
	if err != nil || !b.adds(s) && s.size == fi.Size() {
		return err
	}
	if err := f.Truncate(s.end()); err != nil {
		return err
	}
	if _, err := f.Seek(s.end(), io.SeekStart); err != nil {
		return err
	}
	if root := s.root(); root != nil {
		if _, err := f.Write(root); err != nil {
			return err
		}
	}
	if !s.same || s.size < b.point.Size {
		if err := b.move(f, s.size); err != nil {
			return err
		}
	}
	for block, err := range b.blocks(s) {
		if err == nil {
			_, err = f.Write(block)
		}
		if err != nil {
			return err
		}
	}
	return f.Sync()
}

// blocks returns the entries that recovery appends to the IET with the survey s: the records of b in order, without
// spans that are in the IET already, then the text, then the entry which says that the process died. Each block has
// the encodings of several entries, and is valid until the next one. When the caller asks for the next block, the
// last one counts as a part of s.
func (b *journalTail) blocks(s *survey) iter.Seq2[[]byte, error] {
	return func(yield func(block []byte, err error) bool) {
		mark := b.adds(s)
		p := b.placer(s)
		more := true
		flush := func(size int) { // yields the staged entries if they have more than size bytes
			block, staged := p.Out()
			if !more || len(block) <= size {
				return
			}
			more = yield(block, nil)
			if !more {
				return
			}
			from := 0
			for i := range staged {
				e := &staged[i]
				s.add(e.End-from, e.ID, e.Parent)
				from = e.End
			}
			p.Flushed(len(staged))
		}
		place := func(e *journal.Entry) {
			if more {
				p.Place(e) // a record that cannot be placed is dropped; the writer would also have dropped it
				flush(flushSize)
			}
		}
		b.unwritten(s, p, place)
		m := b.merge()
		m.Needs = p.Needs
		for e := m.Next(); e != nil && more; e = m.Next() {
			place(e)
		}
		for more && p.StagePending() {
			flush(flushSize)
		}
		if more && b.text != "" {
			p.Place(crashRecord(b.text, b.end(s)))
		}
		if more && mark {
			if _, err := p.Append(RecordOf(recovered(s.damage, max(s.dropped, b.point.Unsaved))), 0); err != nil {
				yield(nil, err)
				return
			}
		}
		flush(0)
	}
}

// placer returns a Placer that continues the IET with the survey s.
func (b *journalTail) placer(s *survey) *placer.Placer {
	p := placer.New(b.table, &placer.Options{
		Columns: s.version == format.V2, MaxEntrySize: format.DefaultMaxEntrySize,
		MaxPendingSpans: math.MaxInt, MaxPendingBytes: math.MaxInt, MaxPendingAge: math.MaxInt64,
		Unpark: func(*journal.Segment) {},
	})
	p.KeepOrphans(true)
	p.Resume(uint64(s.entries), s.size, 0)
	for ref, id := range s.spans {
		p.Know(&ref, id, true)
	}
	for number, id := range s.resources {
		p.KnowResource(number, id)
	}
	b.dead.Each(journal.StreamLeft, func(_ uint64, e *journal.Entry) { p.Leave(e) })
	if s.same && !b.point.Moved && int64(b.point.Anchor) < int64(s.entries) {
		p.SetAnchor(b.point.Anchor)
	}
	return p
}

// unwritten calls place for each record that waited for its parent, unless it is in the IET with the survey s. It skips
// second copies of a record.
func (b *journalTail) unwritten(s *survey, p *placer.Placer, place func(*journal.Entry)) {
	seen := make(map[[2]record.Ref]bool)
	b.parked(func(e *journal.Entry) {
		var rec record.Record
		if !rec.Parse(e) {
			return
		}
		id, written := s.spans[rec.Ref]
		if rec.Kind == record.KindLog {
			// The record has the smallest id that its span could get. A span with a smaller id is an
			// earlier span with the same Ref.
			written = written && uint64(id) >= binary.LittleEndian.Uint64(rec.Parent[8:])
			clear(rec.Parent[8:])
		} else {
			written = written || !p.Needs(e)
		}
		key := [2]record.Ref{rec.Ref, rec.Parent}
		if !seen[key] && !written {
			place(e)
		}
		seen[key] = true
	})
}

// RecoveredEntry returns a new last entry for a file whose writer died.
func RecoveredEntry() *format.TraceEntry {
	return &format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameRecovered, Level: format.LevelTrace}}
}

// recovered returns a [RecoveredEntry] with attributes. The parameter damage is the reason why a part of
// the file could not be read, or "". The parameter dropped is the number of entries that were in removed
// files.
func recovered(damage string, dropped uint64) *format.TraceEntry {
	e := RecoveredEntry()
	if damage != "" {
		e.Add(mapping.AttrDamage, format.StringValue(damage))
	}
	if dropped > 0 {
		e.Add(mapping.AttrDropped, format.U64Value(dropped))
	}
	return e
}

// RecordOf returns a record of the entry e, which does not come from the application.
func RecordOf(e *format.TraceEntry) *journal.Entry {
	var b record.Builder
	b.Reset(0, nil, nil)
	h := inside.Head(&e.Metadata, e.Message)
	b.Head(&h)
	for i := range e.Attributes {
		v := &e.Attributes[i].Value
		hi, lo := v.Words()
		b.Value(e.Attributes[i].Name, uint8(v.Kind()), v.Text(), hi, lo)
	}
	b.End()
	return &journal.Entry{Info: record.Info(record.KindLog, 0, 0, 0, 1), Data: b.Data()}
}

// end returns the time at which the process died. It is not before the time of any record.
func (b *journalTail) end(s *survey) time.Time {
	newest := s.newest
	b.each(func(e *journal.Entry) {
		if e.Time <= b.died.Add(clockLag).UnixNano() {
			newest = max(newest, e.Time)
		}
	})
	copied := newest > 0 && b.written.Sub(time.Unix(0, newest)) > afterRecord && b.written.Sub(b.died).Abs() < duringCopy
	if newest < b.died.UnixNano() && !copied {
		return b.died
	}
	return time.Unix(0, newest)
}

// crashRecord returns the log record with the text that says why the process died.
func crashRecord(text string, at time.Time) *journal.Entry {
	e := RecordOf(&format.TraceEntry{
		Message: format.Some(text), Metadata: format.Metadata{Name: mapping.NameCrash, Level: format.LevelError},
		Attributes: []format.Attribute{{Name: format.AttrTime, Value: format.TimeValue(at)}},
	})
	e.Time, e.Info = at.UnixNano(), record.Info(record.KindLog, uint8(record.ProviderLogs), 0, 0, 1)
	return e
}

// damage returns the reason if the journal cannot be read or entries are lost, else nil.
func (b *journalTail) damage() error {
	switch {
	case b.layout != nil:
		return b.layout
	case b.unreadable:
		return errNoCheckpoint
	case b.point.Unsaved > 0:
		return fmt.Errorf("%d entries are lost: their file was removed while a program wrote it", b.point.Unsaved)
	}
	return nil
}

var errNoCheckpoint = errors.New("the journal has no readable checkpoint")

// reportDamage reports the damage of b, and whether remove will rename the journal.
func (b *journalTail) reportDamage(report func(error)) {
	err := b.damage()
	switch {
	case err == nil:
	case b.layout != nil, b.unreadable:
		report(fmt.Errorf("journal %s: %w; its file gets a name that ends in %s", b.name, err, brokenExt))
	default:
		report(fmt.Errorf("%s: %w", strings.TrimSuffix(b.name, tracename.Journal), err))
	}
}

// flushSize is how many bytes are collected for one write.
const flushSize = 256 << 10

const brokenExt = tracename.Journal + tracename.Broken
