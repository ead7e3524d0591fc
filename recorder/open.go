package recorder

import (
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// Open opens the trace file name as [format.Open] does. If the writer died, the File also has the records
// in its journal, as if [Recover] had added them; Open changes no file. If the journal is missing or
// unreadable, [format.File.Journal] returns [ErrJournalGone], [ErrJournalElsewhere], or the error of
// reading the journal.
func Open(name string, o *format.OpenOptions) (*format.File, error) {
	src, err := deadtrace.OpenSource(format.Find(name))
	if err != nil {
		return nil, err
	}
	return src.Open(o)
}

// Verify checks every byte of the file called name as [format.File.Verify] does, and the records in the
// journal of a dead writer. It returns the report of [Inspect], with the entries of the journal.
func Verify(name string, found func(problem error)) (*Report, error) {
	f, err := Open(name, &format.OpenOptions{Lenient: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	odd := false
	err = f.Verify(func(problem error) { odd = true; found(problem) })
	if err != nil {
		return nil, err
	}
	if f.Format() == format.ET && !odd { // f.Verify has checked the whole file, so f has the report
		r, err := f.Report()
		if err != nil {
			return nil, err
		}
		return &Report{Report: *r}, nil
	}
	r, err := Inspect(name)
	if err == nil {
		r.Entries = f.Len()
	}
	return r, err
}
