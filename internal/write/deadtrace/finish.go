package deadtrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// An Owner says whose traces are finished.
type Owner uint8

const (
	// Own means traces of a path that the caller records, or was asked to finish.
	Own Owner = iota
	// Others means traces of other programs in a folder. An existing trace with the name of a new ET is
	// renamed. When a program starts, traces that their recorder has closed stay unchanged, and traces
	// that another version of this module can finish better are left to that version.
	Others
	// Private means traces in a folder where nobody else uses such names. A file that is too short for a
	// trace is removed, and a file that is not a trace is an error.
	Private
)

// Options say how traces are finished.
type Options struct {
	Owner Owner
	// IET keeps IETs as IETs, cut to the whole entries. Without it they become ETs.
	IET bool
	// Final is the name of the trace that was asked for. It is made even if nothing was recorded.
	Final string
	// AtStart is for a program that starts. A trace whose journal cannot be reached is then not
	// finished for a day, because the journal may become reachable again. The mark of recovery is
	// also written without a journal, so that the next start sees that nothing is left to do.
	AtStart bool
	// Report, if set, is called with the reason why records are missing.
	Report func(error)
}

func (o *Options) report(err error) {
	if o.Report != nil {
		o.Report(err)
	}
}

// elsewhere reports whether another process may be able to finish the traces better, later.
func (o *Options) elsewhere() bool { return o.Owner == Others && o.AtStart }

// A Report is the Report of package recorder. Both types must have the same fields.
type Report struct {
	format.Report

	Pending int   // number of entries that were only in the journal
	Journal error // why entries of the journal are missing, or may be missing
	Output  string
	Broken  string // the new name of a corrupt original
}

// A Result is the report on one trace, before and after it was finished.
type Result struct {
	Report

	Changed bool // a file was changed
	Old     bool // only a mark was missing: the time in the name is the age of the trace
	EqualET bool // the stream was removed, because Output has the same entries
}

// A dead is a stream that is being finished.
type dead struct {
	o       *Options
	stream  string
	final   string   // the name of the ET that is made of the stream
	f       *os.File // the stream, locked
	size    int64    // size of f
	journal *journalTail
	has     bool  // journal may have records or the reason why the process died, or the journal cannot be reached
	gone    error // why the journal cannot be reached
	s       *survey
	damage  error
	equalET string       // an ET with the same entries
	mark    *osfile.Temp // shows CreateStream that the stream is being finished
}

func newDead(stream string, o *Options) *dead {
	return &dead{o: o, stream: stream, final: cmp.Or(o.Final, tracename.Base(stream)+tracename.ET)}
}

func (d *dead) close() error {
	var err error
	if d.journal != nil {
		err = d.journal.close()
	}
	if d.f != nil {
		err = errors.Join(err, osfile.Ignore(d.f.Close(), os.ErrClosed))
	}
	if d.mark != nil {
		d.mark.Discard() // last, because without the mark other processes take the lock for one of a living writer
	}
	return err
}

// look opens, locks and reads the files of d.stream, and returns the state of the stream. If a file names
// a journal that is gone and not needed, look removes that file. It changes nothing else.
func (d *dead) look() (state, error) {
	f, err := osfile.OpenWrite(d.stream)
	if errors.Is(err, fs.ErrNotExist) && osfile.Exists(d.stream+tracename.Journal) {
		return stateJournalAlone, nil
	}
	if err != nil {
		return d.cannotChange(err)
	}
	d.f = f
	if osfile.Locked(d.stream) {
		return stateLive, lockError(f, osfile.ErrLocked) // do not wait for the lock
	}
	if err := lock(f); err != nil {
		return stateLive, err
	}
	if !osfile.SameFile(f, d.stream) {
		return stateLive, fmt.Errorf("%s: %w", d.stream, format.ErrLocked) // another process has renamed or removed it
	}
	fi, err := f.Stat()
	if err != nil {
		return stateNothing, err
	}
	d.size = fi.Size()
	if in, err := d.openJournal(); in != stateNothing || err != nil {
		return in, err
	}
	if d.o.Owner == Private && !d.has && d.size < wire.MagicSize {
		d.s = new(survey)
		return stateEmpty, nil
	}
	if d.size > 0 {
		_, stored, err := format.ReadMagic(f)
		if err == nil && stored != format.IET {
			err = notStream(stored)
		}
		if err != nil && !errors.Is(err, format.ErrTruncated) {
			return stateNoTrace, fmt.Errorf("open %s: %w", d.stream, err)
		}
	}
	last := lastMark(f, d.size)
	readOnly := fi.Mode()&0o200 == 0 // the user wants the file to stay unchanged
	stays := d.o.Owner == Others && !d.has && (last != markNone && (d.o.IET || readOnly) || last == markEnd && d.o.AtStart)
	if stays && (d.o.IET || !osfile.Exists(d.final)) {
		return stateWhole, nil // without reading the entries
	}
	d.mark, _ = osfile.CreateTemp(d.stream) // without the mark, a starting program would see a living writer
	if d.s, d.damage, err = d.journal.survey(f, d.size); err != nil {
		return stateNothing, fmt.Errorf("open %s: %w", d.stream, err)
	}
	switch {
	case d.isEmpty():
		return stateEmpty, nil
	case !d.o.IET && d.journal.empty() && d.gone == nil && d.hasEqualET():
		return stateLeftover, nil
	case stays:
		d.s = nil
		return stateWhole, nil
	case isCorrupt(d.damage):
		return stateCorrupt, nil
	case d.s.closed && !d.has && d.damage == nil:
		return stateWhole, nil
	}
	return stateTorn, nil
}

// cannotChange returns the state of a stream that cannot be opened for writing because of err.
func (d *dead) cannotChange(err error) (state, error) {
	f, rerr := osfile.OpenRead(d.stream)
	if rerr != nil || errors.Is(err, fs.ErrNotExist) {
		if errors.Is(rerr, fs.ErrPermission) && d.o.Final == "" {
			return stateNoTrace, nil // the stream belongs to another user, who will finish it
		}
		return stateNothing, err
	}
	defer f.Close()
	if fi, serr := f.Stat(); serr == nil && !osfile.Exists(d.stream+tracename.Journal) && lastMark(f, fi.Size()) != markNone {
		return stateWhole, nil
	}
	return stateNothing, err
}

// isEmpty reports whether nothing was recorded.
func (d *dead) isEmpty() bool {
	lost := d.gone != nil && (d.o.Owner != Private || !errors.Is(d.gone, journal.ErrGone))
	return d.s.entries <= 1 && d.journal.empty() && d.journal.damage() == nil && !isCorrupt(d.damage) && !lost
}

// hasEqualET reports whether an ET with the same entries exists, and sets d.equalET to its name.
func (d *dead) hasEqualET() bool {
	all := *d.s
	if d.journal != nil && d.journal.empty() {
		all.entries, all.size = all.entries+all.behind, all.size+all.behindSize // the recorder could not remove its journal
	}
	d.equalET = equalET(d.stream, d.final, d.f, &all)
	return d.equalET != ""
}

// openJournal opens the journal. If the stream must not be finished now, it returns the state that says
// why, else stateNothing.
func (d *dead) openJournal() (state, error) {
	b, err := openJournalTail(d.stream, true)
	if isUnreachable(err) {
		if d.gone = err; errors.Is(err, journal.ErrElsewhere) && d.o.AtStart {
			isNews, giveUp := journal.NoteElsewhere(d.stream + tracename.Journal)
			if isNews {
				d.o.report(fmt.Errorf("%s is not finished, because its last records are missing: %w; 'entrace recover' finishes it without them", d.stream, err))
			}
			if !giveUp {
				return stateElsewhere, nil
			}
		}
		err = nil
	}
	if err != nil {
		if errors.Is(err, format.ErrLocked) {
			return stateLive, err
		}
		return stateNothing, err
	}
	d.journal, d.has = b, b != nil || d.gone != nil
	if b == nil {
		d.journal = newJournalTail(nil, d.stream+tracename.Journal, true)
	}
	if d.journal.layout != nil && d.o.elsewhere() {
		return stateElsewhere, nil
	}
	return stateNothing, nil
}

// Finish finishes the trace of a dead process. stream is the name of its IET. See the states of this
// package. The result is nil if Finish had nothing to do, or if the trace was empty. The error is
// [format.ErrLocked] if a living process uses the trace, and [fs.ErrNotExist] if no file exists.
func Finish(ctx context.Context, stream string, o *Options) (*Result, error) {
	d := newDead(stream, o)
	in, err := d.look()
	if in == stateJournalAlone {
		err = d.makeIET()
		if errors.Is(err, journal.ErrElsewhere) && o.elsewhere() {
			return nil, nil //nolint:nilnil // its writer may live, and rotate
		}
		if err == nil {
			in, err = d.look()
		}
	}
	var r *Result
	if err == nil {
		r, err = d.act(ctx, in)
	}
	return r, errors.Join(err, d.close())
}

// act finishes the stream as its state requires.
func (d *dead) act(ctx context.Context, in state) (*Result, error) {
	if d.gone != nil && in != stateElsewhere {
		d.o.report(fmt.Errorf("%s is finished without its last records: %w", d.stream, d.gone))
		if err := journal.RemoveUnreachable(d.stream + tracename.Journal); err != nil {
			return nil, err
		}
	}
	r := d.result()
	switch in {
	case stateEmpty:
		if d.o.Final != "" {
			if d.s.size == 0 { // the file does not even have the magic
				return nil, fmt.Errorf("open %s: %w", d.stream, d.damage)
			}
			return r, d.finish(ctx, r)
		}
		return nil, errors.Join(d.journal.remove(), osfile.Remove(d.f, d.stream), osfile.SyncDir(d.stream))
	case stateLeftover:
		return r, d.removeStream(r)
	case stateWhole:
		if d.s == nil || d.o.IET {
			return nil, nil
		}
		fallthrough
	case stateTorn:
		return r, d.finish(ctx, r)
	case stateCorrupt:
		return r, d.mend(ctx, r)
	}
	return nil, nil
}

// mend keeps a corrupt stream under another name, and replaces it by a stream with the whole entries and
// a mark. Then it finishes the new stream.
func (d *dead) mend(ctx context.Context, r *Result) (err error) {
	if r.Broken, err = linkBroken(d.f, d.stream); err != nil {
		return err
	}
	r.Changed = true
	if err := errors.Join(replace(d.stream), d.close()); err != nil {
		return err
	}
	o := *d.o
	o.Final = d.final
	after, err := Finish(ctx, d.stream, &o)
	r.Output = d.stream
	if after != nil {
		r.Output = after.Output
		if after.Pending > 0 {
			r.Entries = after.Entries
		}
	}
	return err
}

// result returns a Result that describes d before act changes anything.
func (d *dead) result() *Result {
	if d.s == nil {
		return nil
	}
	r := &Result{Report: Report{Report: format.Report{
		Name: d.stream, Version: d.s.version, Format: format.IET, Entries: d.s.entries, Size: d.size, GoodBytes: d.s.size,
		Reason: format.CutReasonOf(d.damage), Damage: d.damage, Ended: d.s.closed,
	}, Output: d.stream, Journal: cmp.Or(d.gone, d.journal.damage())}}
	if !d.o.IET {
		r.Output = d.final
	}
	r.Pending = d.journal.pending(d.s)
	return r
}

// ErrOtherEntries is returned for a stream if its ET exists already and has other entries.
var ErrOtherEntries = errors.New("the trace exists already, but its stream has other entries: compare both")

// removeStream removes the stream and its journal, because d.equalET has all their entries.
func (d *dead) removeStream(r *Result) error {
	r.Output, r.EqualET = d.equalET, true
	if isCorrupt(d.damage) {
		var err error
		if r.Broken, err = linkBroken(d.f, d.stream); err != nil {
			return err
		}
	}
	if d.journal != nil {
		if err := d.journal.remove(); err != nil {
			return err
		}
	}
	return errors.Join(osfile.Remove(d.f, d.stream), osfile.SyncDir(d.stream))
}

// finish appends the records of the journal to the IET and then makes the final file from the IET.
func (d *dead) finish(ctx context.Context, r *Result) error {
	if d.has || d.o.AtStart {
		r.Changed, r.Old = d.has || d.journal.adds(d.s) || d.s.size < d.size, !d.has
		d.journal.reportDamage(d.o.report)
		if err := d.journal.replay(d.f, d.s); err != nil {
			return fmt.Errorf("journal %s: %w", d.journal.name, err)
		}
		b := d.journal
		d.journal = nil
		if err := b.remove(); err != nil {
			return err
		}
		fi, err := d.f.Stat()
		if err != nil {
			return err
		}
		r.Entries, r.GoodBytes, r.Size = d.s.entries, d.s.size, fi.Size()
		if r.Size == r.GoodBytes {
			r.Reason, r.Damage = mapping.CutClean, nil
		}
		d.size, d.damage = r.Size, nil
	} else if osfile.Exists(d.stream + crashtext.Ext) {
		_ = os.Remove(d.stream + crashtext.Ext) // this file has no text
	}
	if !d.o.IET && osfile.Exists(r.Output) {
		switch {
		case d.has && d.hasEqualET():
			return d.removeStream(r)
		case d.o.Owner != Others:
			return fmt.Errorf("%s: %w: %w", r.Output, ErrOtherEntries, fs.ErrExist)
		}
		if err := ArchiveEarlier(r.Output, d.stream); err != nil {
			return err
		}
	}
	switch {
	case !d.o.IET:
		r.Changed = true
		return format.Finalize(ctx, d.stream, r.Output, &format.FinalizeOptions{File: d.f, RemoveSource: true, Lenient: true, Index: &d.s.index})
	case d.s.size < d.size:
		r.Changed = true
		return errors.Join(d.f.Truncate(d.s.size), d.f.Sync())
	}
	return nil
}

// makeIET makes an IET from a journal whose IET is missing.
func (d *dead) makeIET() error {
	b, err := openJournalTail(d.stream, false)
	if err == nil {
		err = b.close()
	}
	if errors.Is(err, format.ErrLocked) || errors.Is(err, journal.ErrElsewhere) {
		return err // the writer may be alive and in a rotation
	}
	if err := undoRotation(d.stream); err != nil || osfile.Exists(d.stream) {
		return err
	}
	f, err := osfile.CreateAppend(d.stream)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return err
	}
	n, err := importJournal(f, d.stream, d.o.report)
	if err == nil && n == 0 {
		err = osfile.Remove(f, d.stream) // the journal had no entries
	}
	return err
}
