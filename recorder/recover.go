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

// A Report says which entries of a file and of its writer's journal are whole, and what Recover did.
type Report struct {
	format.Report

	// Pending is the number of entries that are in the journal of a dead writer and not in
	// the file. Recover has added them to the file.
	Pending int
	// Journal is why what a dead writer left in its journal cannot be read, nil if it can:
	// [ErrJournalGone], [ErrJournalElsewhere], or the damage. Recover renames a damaged
	// journal to NAME.TIME.buffer.broken, and finishes the file without one that is gone or
	// out of reach, of which it speaks once.
	Journal error

	// What Recover has made, which is Name again when there was nothing to do.
	Output string
	// Broken is where Recover put a corrupt original, if it did.
	Broken string
}

func reportOf(r *deadtrace.Result) *Report {
	if r == nil {
		return nil
	}
	return &Report{Report: r.Report, Pending: r.Pending, Journal: r.Journal, Output: r.Output, Broken: r.Broken}
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

// Inspect reports which entries are whole in the file name, or in the unfinished files that [Create]
// left of it, and which entries are only in the journal of a dead writer. It changes nothing. For a
// file that is not a trace it returns the error of [format.Open].
func Inspect(name string) (*Report, error) {
	r, err := deadtrace.Inspect(name)
	return reportOf(r), err
}

// Recover saves the longest whole prefix of the file name, or of what [Create]
// left of it.
//
// If output is not empty, Recover writes a new file of that name, an IET for x.iet and
// else an ET, and does not change the source. If output is empty, Recover finishes the file
// in place: an unfinished app.et is completed, an x.iet is cut to its whole entries. If there
// was a journal and no clean end, Recover then adds the last entry "entrace.recovered". For an
// ET that has lost its end and for a corrupt file it adds this entry with the attribute "damage".
// A corrupt original is kept in the same folder as FILE.broken. If a living process writes the
// file, the error is [format.ErrLocked]. An IET cannot end with entries that are all zeros:
// Recover leaves these out and does not count them. Recovering a whole file again does
// nothing.
func Recover(name, output string) (*Report, error) {
	r, err := deadtrace.Recover(name, output)
	return reportOf(r), err
}

// RecoverFolder finishes in place, as [Recover] does, the traces of dead writers in the folder
// dir: an app.iet becomes app.et, unless it has a clean end and is read-only. RecoverFolder calls each
// with the report or the error of each trace. It skips traces that a living process works on.
func RecoverFolder(ctx context.Context, dir string, each func(*Report, error)) error {
	all := deadtrace.Filter{Base: func(string) bool { return true }}
	return deadtrace.Folder(ctx, dir, all, &deadtrace.Options{Owner: deadtrace.Others}, func(r *deadtrace.Result, err error) { each(reportOf(r), err) })
}

// finishOwn finishes the files that dead writers of this path have left under names with their time, and
// returns their paths without extensions. Dead are those that made room for this recording.
func (w *writer) finishOwn(ctx context.Context, dead []string) []string {
	own := tracename.Base(filepath.Base(w.name))
	et := w.final != w.name
	is := deadtrace.Filter{Base: func(base string) bool { return base == own }, Trace: func(path string) bool {
		stream := path + tracename.IET
		if stream == w.name { // what has taken that name since is somebody else's
			return false
		}
		return et || !deadtrace.IsFinished(stream)
	}}
	var spare []string
	for _, name := range dead { // whether there is something to do or not
		spare = append(spare, tracename.Base(name))
		w.finished.ended.Add(tracename.Base(name))
	}
	return append(spare, w.finishFolder(ctx, is, &deadtrace.Options{IET: !et, AtStart: true})...)
}

// finishFamily finishes the files that dead writers of the family have left, and returns their paths
// without extensions.
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
		case errors.Is(err, context.Canceled): // the next start goes on
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

// prune removes the oldest finished traces of the family until the others are within the bounds of
// the options. It never removes the traces in spare.
func (w *writer) prune(ctx context.Context, now time.Time, spare ...string) error {
	k := deadtrace.Keep{Files: w.o.KeepFiles, Bytes: w.o.KeepBytes, Family: w.o.Family, Ended: &w.finished.ended, Notice: w.notice}
	return k.Prune(ctx, w.name, now, spare...)
}
