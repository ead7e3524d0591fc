package recorder

import (
	"context"
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// A Report describes the complete entries of a file and its journal, and the result of Recover.
type Report struct {
	format.Report

	// Pending is the number of entries that only the journal of a dead writer has, or had until Recover
	// added them to the file.
	Pending int
	// Journal is nil if the journal of a dead writer can be read. Otherwise it is the reason:
	// [ErrJournalGone], [ErrJournalElsewhere], or the damage. Recover renames a damaged journal to
	// NAME.TIME.buffer.broken. If the journal is gone or on another machine, Recover reports this only
	// once, and finishes the file without it.
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

// Inspect reports the complete entries of the file called name, or of the unfinished files that [Create] left under
// this name, and the entries that only the journal of a dead writer has. It changes nothing. If the file is not a
// trace, it returns the error of [format.Open].
func Inspect(name string) (*Report, error) {
	r, err := deadtrace.Inspect(name)
	return reportOf(r), err
}

// Recover saves the complete entries at the beginning of the file called name, or of the unfinished files
// that [Create] left under this name.
//
// If output is not empty, Recover writes a new file with that name, and does not change the source. The new
// file is an IET if the name is x.iet, and else an ET. If output is empty, Recover finishes the file in
// place: it completes an unfinished app.et, and truncates an x.iet after its last complete entry. If the
// file had a journal and no clean end, Recover then adds the last entry "entrace.recovered". If the file is
// an ET without its end, or corrupt, this entry has the attribute "damage". Recover renames a corrupt
// original to FILE.broken. If a living process is writing the file, the error is [format.ErrLocked]. An IET
// cannot end with entries that are all zeros: Recover leaves such entries out and does not count them.
// Recover does nothing if the file is already complete.
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
