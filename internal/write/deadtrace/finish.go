package deadtrace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// An Owner says whose traces are finished.
type Owner uint8

const (
	// Own means traces that the caller records, or that a user has named.
	Own Owner = iota
	// Others means traces of other programs in a folder. If a new ET has the name of an existing trace, the
	// existing trace is renamed. With AtStart, two kinds of traces are not changed: traces that their
	// recorder has closed, and traces that need another version of this module.
	Others
	// Private means traces in a folder where only this module uses such names. A file that is too short for
	// a trace is removed. A file that is not a trace is an error.
	Private
)

// Options say how to finish traces.
type Options struct {
	Owner Owner
	// If IET is set, IETs remain IETs, and are truncated after the last complete entry. By default they become ETs.
	IET bool
	// Final is the name of the trace that a user has asked for. It is made even if it has no records.
	Final string
	// AtStart is set when a program starts. A trace whose journal cannot be reached is then skipped for
	// a day, because the journal may become reachable again. Each finished trace gets the mark of
	// recovery, even without a journal, so that the next start can skip it.
	AtStart bool
	// Report, if set, is called with the reason if records are missing.
	Report func(error)
}

func (o *Options) report(err error) {
	if o.Report != nil {
		o.Report(err)
	}
}

// elsewhere reports whether a trace is skipped if this process cannot read its journal. Another process may be able to
// read the journal later.
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

// Finish finishes the trace of a dead process, as its state requires. The parameter stream is the name of
// its IET. The result is nil if Finish had nothing to do, or if the trace was empty. The error is
// [format.ErrLocked] if a living process uses the trace, and [fs.ErrNotExist] if no file exists.
func Finish(ctx context.Context, stream string, o *Options) (*Result, error) {
	return newDead(stream, o).lookAndAct(ctx)
}

// lookAndAct finishes d as its state requires. The result is nil if there was nothing to do, or if the trace was empty.
func (d *deadFile) lookAndAct(ctx context.Context) (*Result, error) {
	in, err := d.look()
	if in == stateJournalAlone {
		err = d.makeIET()
		if errors.Is(err, journal.ErrElsewhere) && d.o.elsewhere() {
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

// act finishes the file as the state requires.
func (d *deadFile) act(ctx context.Context, in state) (*Result, error) {
	if d.gone != nil && in > stateFinished {
		d.o.report(fmt.Errorf("%s is finished without its last records: %w", d.name, d.gone))
		if err := journal.RemoveUnreachable(d.name + tracename.Journal); err != nil {
			return nil, err
		}
	}
	switch in {
	case stateFinished:
		if d.table != nil {
			return nil, removeLeftover(d.name)
		}
	case stateEmpty:
		return nil, errors.Join(d.journal.remove(), osfile.Remove(d.f, d.name), osfile.SyncDir(d.name))
	case stateLeftover:
		return d.found, d.removeStream()
	case stateWhole, stateTorn:
		return d.found, d.finish(ctx)
	case stateCorrupt:
		return d.found, d.mend(ctx)
	}
	return nil, nil
}

// removeLeftover removes the IET from which the ET name was made. It exists if a process was killed just after it had
// made the ET.
func removeLeftover(name string) error {
	stream := tracename.Stream(name)
	if stream == name || !osfile.Exists(stream) {
		return nil
	}
	d := newDead(stream, new(Options))
	d.final = name
	in, err := d.look()
	if err != nil || in != stateLeftover && in != stateEmpty {
		return d.close() // this is the IET of another trace, or of a living process
	}
	_, err = d.act(context.Background(), in)
	return errors.Join(err, d.close())
}

// mend gives a corrupt file another name, and replaces it by a file with its complete entries and a mark. Then it
// finishes a stream.
func (d *deadFile) mend(ctx context.Context) (err error) {
	r := d.found
	r.Broken, err = linkBroken(d.f, d.name)
	if err != nil {
		return err
	}
	r.Changed, r.Output = true, d.name
	isET := d.table != nil
	if !isET {
		d.table, err = format.Open(d.name, &format.OpenOptions{Prefix: true, File: d.f})
		if err != nil {
			return err
		}
	}
	if _, err := copyTo(d.table, d.name, true); err != nil || isET {
		return err
	}
	if err := d.close(); err != nil {
		return err
	}
	o := *d.o
	o.Final = d.final
	after, err := Finish(ctx, d.name, &o)
	if after != nil {
		r.Output = after.Output
		if after.Pending > 0 {
			r.Entries = after.Entries
		}
	}
	return err
}

// ErrOtherEntries is returned for a stream if its ET exists already and has other entries.
var ErrOtherEntries = errors.New("the trace exists already, but the .iet next to it has other entries: compare the two files")

// removeStream removes the stream and its journal. The ET d.equalET has all their entries.
func (d *deadFile) removeStream() error {
	r := d.found
	r.Output, r.EqualET = d.equalET, true
	if isCorrupt(d.damage) {
		var err error
		r.Broken, err = linkBroken(d.f, d.name)
		if err != nil {
			return err
		}
	}
	if err := d.journal.remove(); err != nil {
		return err
	}
	return errors.Join(osfile.Remove(d.f, d.name), osfile.SyncDir(d.name))
}

// finish appends the records of the journal to the IET, and then makes the final file. The final file keeps the time
// of the last change by the dead process, so that it is not taken for a newer trace.
func (d *deadFile) finish(ctx context.Context) error {
	r := d.found
	was, err := d.f.Stat()
	if err != nil {
		return err
	}
	if d.has || d.o.AtStart {
		r.Changed, r.Old = d.has || d.journal.adds(d.s) || d.s.size < d.size, !d.has
		d.journal.reportDamage(d.o.report)
		if err := d.journal.replay(d.f, d.s); err != nil {
			return fmt.Errorf("journal %s: %w", d.journal.name, err)
		}
		if err := d.journal.remove(); err != nil {
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
	} else if d.journal.name != "" {
		_ = d.journal.remove() // there may be an empty crash text
	}
	if !d.o.IET && osfile.Exists(r.Output) {
		switch {
		case d.has && d.hasEqualET():
			return d.removeStream()
		case d.o.Owner != Others:
			return fmt.Errorf("%s: %w: %w", r.Output, ErrOtherEntries, fs.ErrExist)
		}
		if err := ArchiveEarlier(r.Output, d.name); err != nil {
			return err
		}
	}
	switch {
	case !d.o.IET:
		r.Changed = true
		err = entrybytes.Finalize(ctx, d.name, r.Output, &format.FinalizeOptions{File: d.f, RemoveSource: true, Lenient: true}, &d.s.index)
		if err == nil {
			_ = os.Chtimes(r.Output, time.Time{}, was.ModTime()) // a new time does no harm
		}
		return err
	case d.s.size < d.size:
		r.Changed = true
		return errors.Join(d.f.Truncate(d.s.size), d.f.Sync())
	}
	return nil
}

// makeIET makes an IET from a journal without an IET.
func (d *deadFile) makeIET() error {
	err := undoRotation(d.name)
	if errors.Is(err, journal.ErrGone) {
		err = nil // importJournal reports it
	}
	if err != nil || osfile.Exists(d.name) {
		return err
	}
	f, err := osfile.CreateAppend(d.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return err
	}
	n, err := importJournal(f, d.name, d.o.report)
	if err == nil && n == 0 {
		err = osfile.Remove(f, d.name) // the journal has no entries
	}
	return err
}
