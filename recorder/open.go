package recorder

import (
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/deadtrace"
)

// Open opens the trace file name as [format.Open] does, and what the journal of a writer that died
// holds, as if [Recover] had brought that in; no file is changed. See [format.File.Journal]: what is
// missing is [ErrJournalGone], [ErrJournalElsewhere], or why the journal cannot be read.
func Open(name string, o *format.OpenOptions) (*format.File, error) {
	src, err := deadtrace.OpenSource(format.Find(name), false)
	if err != nil {
		return nil, err
	}
	return src.Open(o)
}

// Verify looks at every byte of the file name as [format.File.Verify] does; what the journal of a dead
// writer holds is a part of it. It returns what [Inspect] does, with those entries.
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
	if f.Format() == format.ET && !odd { // all of it is known
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
