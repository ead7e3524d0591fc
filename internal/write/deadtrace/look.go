package deadtrace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// A deadFile is a file that is being finished.
type deadFile struct {
	o       *Options
	name    string
	final   string   // the name of the ET that is made from a stream
	f       *os.File // the file; locked, unless it is a complete ET or denied is set
	denied  error    // why f is open for reading only
	size    int64    // size of f in bytes
	journal *journalTail
	has     bool         // the journal has data that f may lack, or cannot be reached
	gone    error        // why the journal cannot be reached
	s       *survey      // the complete entries of a stream
	table   *format.File // the complete entries of an ET; it owns f
	damage  error
	found   *Result      // the result of look; nil if the entries need not be read
	equalET string       // name of an ET with the same entries
	mark    *osfile.Temp // a temporary file, from which CreateStream knows that the stream is being finished
}

func newDead(name string, o *Options) *deadFile {
	return &deadFile{o: o, name: name, final: cmp.Or(o.Final, tracename.Base(name)+tracename.ET)}
}

func (d *deadFile) close() error {
	err := d.journal.close()
	if d.table != nil {
		err = errors.Join(err, osfile.Ignore(d.table.Close(), format.ErrClosed))
	}
	if d.f != nil {
		err = errors.Join(err, osfile.Ignore(d.f.Close(), os.ErrClosed))
	}
	if d.mark != nil {
		d.mark.Discard() // last: without this file, CreateStream mistakes a lock for the lock of a living writer
	}
	return err
}

// look opens, locks and reads the files of d, and returns their state. It changes nothing, except that it
// removes the file that names a journal which is gone and not needed.
func (d *deadFile) look() (in state, err error) {
	d.f, d.denied = osfile.OpenWrite(d.name)
	if errors.Is(d.denied, fs.ErrNotExist) && isStream(d.name) && osfile.Exists(d.name+tracename.Journal) {
		return stateJournalAlone, nil
	}
	if d.denied != nil {
		d.f, err = osfile.OpenRead(d.name)
		switch {
		case errors.Is(err, fs.ErrPermission) && d.o.Final == "":
			return stateNoTrace, nil // another user owns the stream, and will finish it
		case err != nil:
			return stateNothing, err
		}
	}
	in, err = d.read()
	if err == nil && in > stateFinished && d.denied != nil {
		return stateNotWritable, d.denied
	}
	return in, err
}

// read locks and reads the open file and its journal, and returns their state as if the file could be changed.
func (d *deadFile) read() (state, error) {
	if osfile.Locked(d.name) {
		return stateLive, lockError(d.f, osfile.ErrLocked) // return at once, without waiting for the lock
	}
	_, stored, noMagic := format.ReadMagic(d.f)
	switch {
	case noMagic != nil:
		stored = format.IET // perhaps its writer died before it had written the magic
	case stored != format.IET && d.o.Final == "":
		return stateNoTrace, fmt.Errorf("open %s: %w", d.name, notStream(stored))
	case stored == format.ET:
		return d.readET()
	}
	if err := d.lock(); err != nil {
		return stateLive, err
	}
	fi, err := d.f.Stat()
	if err != nil {
		return stateNothing, err
	}
	d.size = fi.Size()
	d.journal = newJournalTail(nil, "", false)
	if stored == format.IET && isStream(d.name) {
		if in, err := d.openJournal(); in != stateNothing || err != nil {
			return in, err
		}
	}
	if d.o.Owner == Private && !d.has && d.size < wire.MagicSize {
		return stateEmpty, nil
	}
	if noMagic != nil && !errors.Is(noMagic, format.ErrTruncated) {
		return stateNoTrace, fmt.Errorf("open %s: %w", d.name, noMagic)
	}
	last := lastMark(d.f, d.size)
	readOnly := fi.Mode()&0o200 == 0 // the user does not want the file to change
	mayStay := d.denied != nil || d.o.Owner == Others && (d.o.IET || readOnly || last == markEnd && d.o.AtStart)
	stays := mayStay && !d.has && last != markNone
	if stays && d.o.Final == "" && (d.o.IET || d.denied != nil || !osfile.Exists(d.final)) {
		return stateFinished, nil // entries need not be read
	}
	if d.denied == nil {
		d.mark, _ = osfile.CreateTemp(d.name) // without this file, a program that starts would see the lock of a living writer
	}
	d.s, d.damage, err = d.journal.survey(d.f, d.size)
	if err != nil {
		return stateNothing, fmt.Errorf("open %s: %w", d.name, err)
	}
	d.found = d.result(stored)
	switch {
	case d.isEmpty() && d.o.Final == "":
		return stateEmpty, nil
	case d.isEmpty() && d.s.size == 0:
		return stateNoTrace, fmt.Errorf("open %s: %w", d.name, d.damage)
	case !d.o.IET && d.journal.empty() && d.gone == nil && d.hasEqualET():
		return stateLeftover, nil
	case stays:
		return stateFinished, nil
	case d.denied != nil && d.o.Final != "" && d.o.IET && d.damage == nil && d.found.Pending == 0:
		return stateFinished, nil // a user's file that has all entries, but no mark
	case isCorrupt(d.damage):
		return stateCorrupt, nil
	case !d.s.closed || d.has || d.damage != nil:
		return stateTorn, nil
	case d.o.IET:
		return stateFinished, nil
	}
	return stateWhole, nil
}

// readET returns the state of an ET, and locks a damaged one.
func (d *deadFile) readET() (in state, err error) {
	d.table, err = format.Open(d.name, &format.OpenOptions{Prefix: true, File: d.f})
	if err != nil {
		return stateNothing, err
	}
	r, err := d.table.Report()
	if err != nil {
		return stateNothing, err
	}
	d.found = &Result{Report: Report{Report: *r, Output: d.name}}
	if r.Damage == nil {
		return stateFinished, nil
	}
	if err := d.lock(); err != nil {
		return stateLive, err
	}
	if fi, err := d.f.Stat(); err != nil || fi.Size() != r.Size {
		return stateLive, fmt.Errorf("%s: %w: it has just changed", d.name, format.ErrLocked)
	}
	return stateCorrupt, nil
}

// lock locks a file that may be changed.
func (d *deadFile) lock() error {
	if d.denied != nil {
		return nil
	}
	if err := lock(d.f); err != nil {
		return err
	}
	if !osfile.SameFile(d.f, d.name) {
		return fmt.Errorf("%s: %w", d.name, format.ErrLocked) // another process has just renamed or removed it
	}
	return nil
}

// isEmpty reports whether nothing was recorded.
func (d *deadFile) isEmpty() bool {
	lost := d.gone != nil && (d.o.Owner != Private || !errors.Is(d.gone, journal.ErrGone))
	return d.s.entries <= 1 && d.journal.empty() && d.journal.damage() == nil && !isCorrupt(d.damage) && !lost
}

// openJournal opens the journal. It returns stateNothing, or the state of a stream that must not be
// finished now.
func (d *deadFile) openJournal() (state, error) {
	b, err := openJournalTail(d.name, d.denied == nil)
	if isUnreachable(err) {
		d.gone = err
		if errors.Is(err, journal.ErrElsewhere) && d.o.AtStart {
			isNews, giveUp := journal.NoteElsewhere(d.name + tracename.Journal)
			if isNews {
				d.o.report(fmt.Errorf("%s is not finished, because its last records are missing: %w; 'entrace recover' finishes it without them", d.name, err))
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
	d.has = b != nil || d.gone != nil
	if b == nil {
		b = newJournalTail(nil, d.name+tracename.Journal, true)
	}
	d.journal = b
	if b.layout != nil && d.o.elsewhere() {
		return stateElsewhere, nil
	}
	return stateNothing, nil
}

// result returns a Result that describes the stream, which is stored as an IET or IETPrefix, before act
// changes anything.
func (d *deadFile) result(stored format.StorageFormat) *Result {
	r := &Result{Report: Report{Report: format.Report{
		Name: d.name, Version: d.s.version, Format: stored, Entries: d.s.entries, Size: d.size, GoodBytes: d.s.size,
		Reason: format.CutReasonOf(d.damage), Damage: d.damage, Ended: d.s.closed,
	}, Output: d.name, Pending: d.journal.pending(d.s), Journal: cmp.Or(d.gone, d.journal.damage())}}
	if !d.o.IET && d.denied == nil {
		r.Output = d.final
	}
	return r
}
