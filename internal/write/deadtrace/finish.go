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

// An Owner says to whom the traces belong that are finished.
type Owner uint8

const (
	// Own means traces that the caller records, or that a user has named.
	Own Owner = iota
	// Others means traces of other programs in a folder. If a new ET has the name of an existing trace, the
	// existing trace is renamed. With AtStart, two kinds of traces stay unchanged: those that their
	// recorder has closed, and those that need another version of this module.
	Others
	// Private means traces in a folder where only this module uses such names. A file that is too short for
	// a trace is removed. A file that is not a trace is an error.
	Private
)

// Options say how to finish traces.
type Options struct {
	Owner Owner
	// IET means that IETs stay IETs, cut to their whole entries. By default they become ETs.
	IET bool
	// Final is the name of the trace that a user has asked for. It is made even if it has no records.
	Final string
	// AtStart is set when a program starts. A trace whose journal cannot be reached is then left for a day,
	// because the journal may become reachable again. Each finished trace gets the mark of recovery, even
	// without a journal, so that the next start can skip it.
	AtStart bool
	// Report, if set, is called with the reason if records are missing.
	Report func(error)
}

func (o *Options) report(err error) {
	if o.Report != nil {
		o.Report(err)
	}
}

// elsewhere reports whether to leave traces that another process can finish better, later.
func (o *Options) elsewhere() bool { return o.Owner == Others && o.AtStart }

// A Report is the Report of package recorder. Both types must have the same fields.
type Report struct {
	format.Report

	Pending int   // number of entries that only the journal has
	Journal error // why entries of the journal are, or may be, missing
	Output  string
	Broken  string // the new name of a corrupt original
}

// A Result describes one trace before Finish, and what Finish has done with it.
type Result struct {
	Report

	Changed bool // a file was changed
	Old     bool // only a mark was added: the trace is as old as the time in its name
	EqualET bool // the stream was removed, because the ET Output has the same entries
}

// A dead is a stream that is being finished.
type dead struct {
	o       *Options
	stream  string
	final   string   // the name of the ET that is made from the stream
	f       *os.File // the stream, locked
	size    int64    // size of f in bytes
	journal *journalTail
	has     bool  // journal has something that f may lack, or it cannot be reached
	gone    error // why the journal cannot be reached
	s       *survey
	damage  error
	equalET string       // name of an ET with the same entries
	mark    *osfile.Temp // a temporary file: it tells CreateStream that the stream is being finished
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
		d.mark.Discard() // last: CreateStream takes a lock without this file for the lock of a living writer
	}
	return err
}

// look opens, locks and reads the files of d.stream, and returns the state of the stream. It changes
// nothing, except that it removes the file that names a journal which is gone and not needed.
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
		return stateLive, lockError(f, osfile.ErrLocked) // return at once, without waiting for the lock
	}
	if err := lock(f); err != nil {
		return stateLive, err
	}
	if !osfile.SameFile(f, d.stream) {
		return stateLive, fmt.Errorf("%s: %w", d.stream, format.ErrLocked) // another process has just renamed or removed it
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
	readOnly := fi.Mode()&0o200 == 0 // the user does not want the file to change
	stays := d.o.Owner == Others && !d.has && (last != markNone && (d.o.IET || readOnly) || last == markEnd && d.o.AtStart)
	if stays && (d.o.IET || !osfile.Exists(d.final)) {
		return stateWhole, nil // entries need not be read
	}
	d.mark, _ = osfile.CreateTemp(d.stream) // without this file, a program that starts would see the lock of a living writer
	d.s, d.damage, err = d.journal.survey(f, d.size)
	if err != nil {
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

// cannotChange returns the state of a stream that could not be opened for writing because of err.
func (d *dead) cannotChange(err error) (state, error) {
	f, rerr := osfile.OpenRead(d.stream)
	if rerr != nil || errors.Is(err, fs.ErrNotExist) {
		if errors.Is(rerr, fs.ErrPermission) && d.o.Final == "" {
			return stateNoTrace, nil // another user owns the stream, and will finish it
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
	d.equalET = equalET(d.stream, d.final, d.f, d.s)
	return d.equalET != ""
}

// openJournal opens the journal. It returns stateNothing, or the state of a stream that must not be
// finished now.
func (d *dead) openJournal() (state, error) {
	b, err := openJournalTail(d.stream, true)
	if isUnreachable(err) {
		d.gone = err
		if errors.Is(err, journal.ErrElsewhere) && d.o.AtStart {
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

// Finish finishes the trace of a dead process, as its state requires. stream is the name of its IET. The
// result is nil if Finish had nothing to do, or if the trace was empty. The error is [format.ErrLocked] if
// a living process uses the trace, and [fs.ErrNotExist] if no file exists.
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

// act finishes the stream as the state requires.
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
			if d.s.size == 0 { // the file has no magic
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

// mend gives a corrupt stream another name, and replaces it by a stream with its whole entries and a mark.
// Then it finishes the new stream.
func (d *dead) mend(ctx context.Context, r *Result) (err error) {
	r.Broken, err = linkBroken(d.f, d.stream)
	if err != nil {
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

// result returns a Result with the state of d before act changes anything.
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
var ErrOtherEntries = errors.New("the trace exists already, but the .iet beside it has other entries: compare the two files")

// removeStream removes the stream and its journal. The ET d.equalET has all their entries.
func (d *dead) removeStream(r *Result) error {
	r.Output, r.EqualET = d.equalET, true
	if isCorrupt(d.damage) {
		var err error
		r.Broken, err = linkBroken(d.f, d.stream)
		if err != nil {
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

// finish appends the records of the journal to the IET, and then makes the final file.
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
		_ = os.Remove(d.stream + crashtext.Ext) // an empty crash text
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

// makeIET makes an IET from a journal without an IET.
func (d *dead) makeIET() error {
	b, err := openJournalTail(d.stream, false)
	if err == nil {
		err = b.close()
	}
	if errors.Is(err, format.ErrLocked) || errors.Is(err, journal.ErrElsewhere) {
		return err // the writer may be alive and beginning a new file
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
		err = osfile.Remove(f, d.stream) // the journal has no entries
	}
	return err
}
