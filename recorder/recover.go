package recorder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// A Report describes the whole entries of a file and its journal, and the result of Recover.
type Report struct {
	format.Report

	// Pending is the number of entries that only the journal of a dead writer has, or had until Recover
	// added them to the file.
	Pending int
	// Journal is nil if the journal of a dead writer can be read. Else it says why not: [ErrJournalGone],
	// [ErrJournalElsewhere], or the damage. Recover renames a damaged journal to NAME.TIME.buffer.broken.
	// If the journal is gone or on another machine, Recover reports this only once, and finishes the file
	// without it.
	Journal error

	// Output is the name of the file that Recover made, or Name if Recover had nothing to do.
	Output string
	// Broken is the new name of a corrupt original, "" if there is none.
	Broken string
}

func reportOf(r *deadtrace.Result) *Report {
	if r == nil {
		return nil
	}
	return (*Report)(&r.Report)
}

// Finished returns one line for people that says what Recover did.
func (r *Report) Finished() string {
	did := "finished"
	switch {
	case r.Output != r.Name && osfile.Exists(r.Name):
		did = "saved"
	case r.Output == r.Name && r.Reason == mapping.CutClean && r.Pending == 0 && r.Ended:
		did = "complete"
	}
	s := fmt.Sprintf("%s: %s, %d entries", r.Output, did, r.Entries)
	if r.Entries == 1 {
		s = strings.TrimSuffix(s, "entries") + "entry"
	}
	if r.Pending > 0 {
		s += fmt.Sprintf(" (%d from the crash buffer)", r.Pending)
	}
	return s
}

// Inspect reports the whole entries of the file name, or of the unfinished files that [Create] left under
// this name, and the entries that only the journal of a dead writer has. It changes nothing. If the file is
// not a trace, it returns the error of [format.Open].
func Inspect(name string) (*Report, error) {
	r, err := deadtrace.Inspect(name)
	return reportOf(r), err
}

// Recover saves the whole entries at the beginning of the file name, or of the unfinished files that
// [Create] left under this name.
//
// If output is not empty, Recover writes a new file with that name, and does not change the source. The new
// file is an IET if the name is x.iet, and else an ET. If output is empty, Recover finishes the file in
// place: it completes an unfinished app.et, and cuts an x.iet to its whole entries. If the file had a
// journal and no clean end, Recover then adds the last entry "entrace.recovered". If the file is an ET
// without its end, or corrupt, this entry has the attribute "damage". Recover renames a corrupt original to
// FILE.broken. If a living process is writing the file, the error is [format.ErrLocked]. An IET cannot end
// with entries that are all zeros: Recover leaves such entries out and does not count them. Recover does
// nothing if the file is whole already.
func Recover(name, output string) (*Report, error) {
	r, err := deadtrace.Recover(name, output)
	return reportOf(r), err
}

// RecoverFolder finishes the traces of dead writers in the folder dir in place, as [Recover] does: an
// app.iet becomes app.et, unless it has a clean end and is read-only. RecoverFolder calls the function each
// with the report or the error of every trace, except traces that a living process uses.
func RecoverFolder(ctx context.Context, dir string, each func(*Report, error)) error {
	all := deadtrace.Filter{Base: func(string) bool { return true }}
	return deadtrace.Folder(ctx, dir, all, &deadtrace.Options{Owner: deadtrace.Others}, func(r *deadtrace.Result, err error) { each(reportOf(r), err) })
}

// finishOwn finishes files of this path that dead writers have left under names with a time. It returns
// their paths without extensions. The parameter dead lists files that were renamed to make room for this
// recording.
func (w *writer) finishOwn(ctx context.Context, dead []string) []string {
	own := tracename.Base(filepath.Base(w.name))
	et := w.final != w.name
	is := deadtrace.Filter{Base: func(base string) bool { return base == own }, Trace: func(path string) bool {
		stream := path + tracename.IET
		if stream == w.name { // a new recording has this name
			return false
		}
		return et || !deadtrace.IsFinished(stream)
	}}
	var spare []string
	for _, name := range dead { // even if they are finished already
		spare = append(spare, tracename.Base(name))
		w.finished.ended.Add(tracename.Base(name))
	}
	return append(spare, w.finishFolder(ctx, is, &deadtrace.Options{IET: !et, AtStart: true})...)
}

// finishFamily finishes the files that dead writers of the family have left. It returns the paths of these
// files without extensions.
func (w *writer) finishFamily(ctx context.Context) []string {
	if w.o.Family == nil {
		return nil
	}
	own := tracename.Base(filepath.Base(w.name))
	is := deadtrace.Filter{Base: func(base string) bool { return base != own && w.o.Family(base) }}
	return w.finishFolder(ctx, is, &deadtrace.Options{Owner: deadtrace.Others, IET: w.final == w.name, AtStart: true})
}

func (w *writer) finishFolder(ctx context.Context, is deadtrace.Filter, o *deadtrace.Options) (finished []string) {
	o.Report = w.report
	err := deadtrace.Folder(ctx, filepath.Dir(w.name), is, o, func(r *deadtrace.Result, err error) {
		switch {
		case errors.Is(err, context.Canceled): // the next start continues
		case err != nil:
			w.report(err)
		case r.Changed:
			if !r.Old {
				path := tracename.Base(r.Output)
				finished = append(finished, path)
				w.finished.ended.Add(path)
			}
			w.notice(reportOf(r).Finished())
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, fs.ErrNotExist) {
		w.report(err)
	}
	return finished
}

// prune removes the oldest finished traces of the family until the number and size of the rest are within
// the options. It never removes the traces in spare.
func (w *writer) prune(ctx context.Context, now time.Time, spare ...string) error {
	k := deadtrace.Keep{Files: w.o.KeepFiles, Bytes: w.o.KeepBytes, Family: w.o.Family, Ended: &w.finished.ended, Notice: w.notice}
	return k.Prune(ctx, w.name, now, spare...)
}
