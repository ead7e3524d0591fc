package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/crashtext"
	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/placer"
	"github.com/entrace-go/entrace/internal/record"
	"github.com/entrace-go/entrace/internal/tracename"
)

// A deadBuffer is the journal of a writer that died.
type deadBuffer struct {
	f       *journal.DeadFile
	name    string // of the file beside the IET
	change  bool   // f is open for writing
	dead    *journal.Dead
	table   *record.Table
	point   checkpoint
	records int
	entries int
	// unreadable says that the journal holds data and no valid checkpoint, so that
	// nothing tells which of it is already in the IET, or that it has another layout.
	unreadable bool
	layout     error // it has another layout

	text string // what the runtime wrote when the process died
	died time.Time
}

// openLockedBuffer opens the journal of stream for writing and locks it, nil if there is
// none that can be reached. It is [format.ErrLocked] while its writer lives.
func openLockedBuffer(stream string) (*journal.DeadFile, error) {
	f, err := journal.OpenDead(stream+tracename.Journal, true)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, journal.ErrGone) || errors.Is(err, journal.ErrElsewhere) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := lock(f.File, true); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openBuffer reads the journal of stream, nil if there is none. It is [format.ErrLocked] while
// its writer lives. With [ErrJournalGone] there may be what the runtime wrote.
func openBuffer(stream string, change bool) (*deadBuffer, error) {
	name := stream + tracename.Journal
	text, died, terr := crashtext.Read(stream + crashtext.Ext)
	f, err := journal.OpenDead(name, change)
	if errors.Is(err, fs.ErrNotExist) {
		if text == "" {
			return nil, terr
		}
		b := newDeadBuffer(nil, name, change)
		b.text, b.died = text, died
		return b, nil
	}
	if err != nil {
		err = fmt.Errorf("journal %s: %w", name, err)
		if text == "" || !errors.Is(err, journal.ErrGone) {
			return nil, err
		}
		b := newDeadBuffer(nil, name, change)
		b.text, b.died = text, died
		return b, err
	}
	b, err := readBuffer(f, name, change)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("journal %s: %w", name, err), closedErr(f.Close()))
	}
	b.text, b.died = text, died
	return b, nil
}

// newDeadBuffer returns a journal without records.
func newDeadBuffer(f *journal.DeadFile, name string, change bool) *deadBuffer {
	return &deadBuffer{f: f, name: name, change: change, dead: new(journal.Dead), table: new(record.Table), point: checkpoint{size: -1}}
}

func readBuffer(f *journal.DeadFile, name string, change bool) (*deadBuffer, error) {
	take := lock
	if !change {
		take = lockToRead
	}
	if err := take(f.File, change); err != nil {
		return nil, err
	}
	b := newDeadBuffer(f, name, change)
	return b, b.read()
}

// isWaiting reports whether the journal of a living writer of stream holds records that are not in
// the file. It is read without its lock: the writer goes on meanwhile. What cannot be read counts.
func isWaiting(stream string) bool {
	name := stream + tracename.Journal
	f, err := journal.OpenDead(name, false)
	if err != nil {
		return true
	}
	defer f.Close()
	b := newDeadBuffer(f, name, false)
	return b.read() != nil || b.unreadable || b.dead.Damaged > 0 || b.records > 0
}

// read reads the records that are not in the file.
func (b *deadBuffer) read() error {
	f := b.f
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	d, err := journal.ReadDead(f, fi.Size(), func(data []byte) func(uint32) uint64 {
		b.point = parseCheckpoint(data)
		return b.point.position
	})
	if layout, ok := errors.AsType[*journal.LayoutError](err); ok {
		b.layout, b.unreadable = layout, true
		return nil
	}
	switch {
	case errors.Is(err, journal.ErrNotJournal): // it may not have been whole yet
	case err != nil:
		return err
	default:
		b.dead, b.table = d, record.ReadTable(d)
	}
	if b.point.size < 0 {
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

// parked calls fn for the records of spans that were pending.
func (b *deadBuffer) parked(fn func(*journal.Entry)) {
	b.dead.Each(journal.StreamParked, func(position uint64, e *journal.Entry) {
		if position >= b.point.parkedFrom && position < b.point.parkedTo {
			fn(e)
		}
	})
}

// merge returns the records that the IET does not have yet, but for the spans that wait for
// their parents.
func (b *deadBuffer) merge() *journal.Merge {
	m := journal.NewMerge(b.dead.Shards())
	for i, p := range b.point.positions {
		m.Skip(i, p)
	}
	return m
}

// each calls fn for all records that are not in the IET.
func (b *deadBuffer) each(fn func(*journal.Entry)) {
	b.parked(fn)
	m := b.merge()
	for e := m.Next(); e != nil; e = m.Next() {
		fn(e)
	}
}

// close gives the journal back as it is.
func (b *deadBuffer) close() error {
	if b == nil || b.f == nil {
		return nil
	}
	return closedErr(b.f.Close())
}

// empty reports whether there is nothing that the IET lacks.
func (b *deadBuffer) empty() bool { return b.records == 0 && b.text == "" }

// adds reports whether recovery writes something behind the IET that s describes: what that lacks,
// or that its writer was killed. One that recorded nothing stays empty.
func (b *deadBuffer) adds(s *survey) bool { return !b.empty() || !s.ended && s.entries > 1 }

// remove removes the journal, whose records are all in the IET by now. It renames one
// that cannot be read.
func (b *deadBuffer) remove() error {
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
	// Last: without a journal, what the IET ends with says that the text is in it.
	return distinct(os.Remove(strings.TrimSuffix(b.name, tracename.Journal)+crashtext.Ext), fs.ErrNotExist)
}

// setAside gives the journal a name with the time of its last change.
func (b *deadBuffer) setAside() error {
	fi, err := b.f.Stat()
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(b.name, tracename.Journal) + "." + fi.ModTime().UTC().Format(archiveTime)
	return errors.Join(untilFree(base, brokenExt, b.f.Rename), osfile.SyncDir(b.name))
}

// move makes the first size bytes of f, of which nothing is in the journal, what the
// checkpoint is about: whoever finds both again, after this replay was killed, cuts f to
// that.
func (b *deadBuffer) move(f *os.File, size int64) error {
	if !b.change || b.records == 0 {
		return nil // f is a copy
	}
	t, err := tailOf(f, size)
	if err != nil {
		return err
	}
	data := slices.Clone(b.dead.Checkpoint)
	binary.LittleEndian.PutUint64(data, uint64(size))
	copy(data[8:], t.b[:])
	data[8+tailSize+1] = 1
	// The file has to be on disk before what says so.
	return errors.Join(f.Sync(), b.dead.ReplaceCheckpoint(b.f, data), b.f.Sync())
}

// replay writes what the journal holds behind the whole entries of f, which is open for
// writing, locked, and an IET. When it succeeds everything is in f and on disk. When it
// does not, or is killed, it can be done again. An IET that is corrupt is an error, except
// with lenient: then what is behind the damage is lost.
func (b *deadBuffer) replay(f *os.File, lenient bool) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	s, err := b.survey(f, fi.Size(), lenient)
	if err != nil || !b.adds(s) && s.size == fi.Size() {
		return err
	}
	if err := f.Truncate(s.end()); err != nil {
		return err
	}
	if _, err := f.Seek(s.end(), io.SeekStart); err != nil {
		return err
	}
	sink := newFileSink(f, f.Name())
	sink.n = s.end()
	r := b.replayer(sink, s)
	if err := r.begin(s); err != nil {
		return err
	}
	if !s.same {
		if err := b.move(f, sink.n); err != nil {
			return err
		}
	}
	if err := r.write(b, s); err != nil {
		return err
	}
	return f.Sync()
}

// tail returns what replay would write to the IET f of so many bytes, and where, without
// writing it.
func (b *deadBuffer) tail(f io.ReaderAt, size int64, lenient bool) (at int64, tail []byte, err error) {
	s, err := b.survey(f, size, lenient)
	if err != nil || !b.adds(s) {
		return 0, nil, err
	}
	sink := new(memorySink)
	sink.n = s.end()
	r := b.replayer(sink, s)
	if err := r.begin(s); err != nil {
		return 0, nil, err
	}
	err = r.write(b, s)
	return s.end(), sink.b, err
}

// A replayer writes records to an IET.
type replayer struct {
	sink   sink
	placer *placer.Placer
}

func (b *deadBuffer) replayer(to sink, s *survey) *replayer {
	p := placer.New(b.table, &placer.Options{
		Columns: s.version.HasColumns(), MaxEntrySize: format.DefaultMaxEntrySize,
		MaxPendingSpans: math.MaxInt, MaxPendingBytes: math.MaxInt, MaxPendingAge: math.MaxInt64,
		Unpark: func(*journal.Segment) {},
	})
	p.KeepOrphans = true
	p.Resume(uint64(s.entries), s.size, 0)
	for ref, id := range s.spans {
		p.Know(&ref, id, true)
	}
	for number, id := range s.resources {
		p.KnowResource(number, id)
	}
	b.dead.Each(journal.StreamLeft, func(_ uint64, e *journal.Entry) { p.Leave(e) })
	if s.same && !b.point.moved && int64(b.point.anchor) < int64(s.entries) {
		p.SetAnchor(b.point.anchor)
	}
	return &replayer{to, p}
}

// begin writes the magic and the root unless s found them.
func (r *replayer) begin(s *survey) error {
	if s.entries > 0 {
		return nil
	}
	r.sink.begin(s.version)
	r.placer.Resume(0, r.sink.size(), 0)
	r.placer.Root()
	return r.flush(0)
}

// flush writes what is staged when that is more than a size.
func (r *replayer) flush(size int) error {
	b, staged := r.placer.Out()
	if len(b) <= size {
		return nil
	}
	kept, err := r.sink.write(b, staged)
	r.placer.Flushed(kept)
	return err
}

// write writes the records of b in their order, except for spans that s found, and in the end that
// the writer was killed.
func (r *replayer) write(b *deadBuffer, s *survey) (err error) {
	place := func(e *journal.Entry) {
		if err == nil {
			r.placer.Place(e) // what could not be recorded cannot be now
			err = r.flush(flushSize)
		}
	}
	parked := make(map[record.Ref]bool) // some were parked twice
	b.parked(func(e *journal.Entry) {
		var rec record.Record
		if !rec.Parse(e) || parked[rec.Ref] {
			return
		}
		parked[rec.Ref] = true
		if _, ok := s.spans[rec.Ref]; !ok && r.placer.Needs(e) { // else it did not wait any more
			place(e)
		}
	})
	m := b.merge()
	m.Needs = r.placer.Needs
	for e := m.Next(); e != nil && err == nil; e = m.Next() {
		place(e)
	}
	for err == nil && r.placer.StagePending() {
		err = r.flush(flushSize)
	}
	if err != nil {
		return err
	}
	if b.text != "" {
		r.placer.Place(crashRecord(b.text, b.died))
	}
	if b.adds(s) {
		if _, err := r.placer.Append(recorderRecord(recoveredEntry()), 0); err != nil {
			return err
		}
	}
	return r.flush(0)
}

// recoveredEntry is the last entry of a file whose writer was killed. It is the same whenever
// recovery writes it.
func recoveredEntry() *format.TraceEntry {
	return &format.TraceEntry{Metadata: format.Metadata{Name: format.NameRecovered, Level: format.LevelTrace}}
}

func crashRecord(text string, at time.Time) *journal.Entry {
	var b Batch
	b.b.Reset(0, nil, nil)
	b.Begin(format.Some(text), &format.Metadata{Name: format.NameCrash, Level: format.LevelError})
	v := format.TimeValue(at)
	b.Value(format.AttrTime, &v)
	b.End()
	return &journal.Entry{Time: at.UnixNano(), Info: record.Info(record.KindLog, uint8(record.ProviderLogs), 0, 0, 1), Data: b.b.Data()}
}

// awaits returns the error of a stream whose journal cannot be reached from here.
func awaits(stream string, err error) error {
	return fmt.Errorf("%s waits for its last records; 'entrace recover' finishes it without them: %w", stream, err)
}

// withoutJournal removes the file that names the journal of a stream, which cannot be
// reached, and returns what else the dead writer left.
func withoutJournal(stream string) (*deadBuffer, error) {
	if err := journal.RemoveUnreachable(stream + tracename.Journal); err != nil {
		return nil, err
	}
	b, err := openBuffer(stream, true)
	if err == nil && b == nil {
		b = newDeadBuffer(nil, stream+tracename.Journal, true)
	}
	return b, err
}

// replayBuffer brings what a dead writer left in its journal into its IET f, which is
// locked. It reports a journal that cannot be read.
func replayBuffer(f *os.File, stream string, report func(error)) (entries int, err error) {
	b, err := openBuffer(stream, true)
	giveUp := errors.Is(err, journal.ErrGone)
	if errors.Is(err, journal.ErrElsewhere) {
		var isNews bool
		if isNews, giveUp = journal.NoteElsewhere(stream + tracename.Journal); isNews {
			report(awaits(stream, err))
		}
	}
	if giveUp {
		report(fmt.Errorf("%s is finished without its last records: %w", stream, err))
		b, err = withoutJournal(stream)
	}
	if err == nil && b == nil {
		_ = os.Remove(stream + crashtext.Ext) // there is nothing in it
	}
	if err != nil || b == nil {
		return 0, err
	}
	if err := b.replay(f, false); err != nil {
		return 0, errors.Join(fmt.Errorf("journal %s: %w", b.name, err), b.close())
	}
	b.reportUnreadable(report)
	return b.entries, b.remove()
}

// damage returns why the journal cannot be read, nil if it can.
func (b *deadBuffer) damage() error {
	switch {
	case b.layout != nil:
		return b.layout
	case b.unreadable:
		return errNoCheckpoint
	}
	return nil
}

var errNoCheckpoint = errors.New("it has no checkpoint that can be read")

// reportUnreadable reports that remove will give the journal another name, if it will.
func (b *deadBuffer) reportUnreadable(report func(error)) {
	if err := b.damage(); err != nil {
		report(fmt.Errorf("journal %s is renamed to …%s: %w", b.name, brokenExt, err))
	}
}

const brokenExt = tracename.Journal + tracename.Broken
