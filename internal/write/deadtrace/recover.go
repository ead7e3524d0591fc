package deadtrace

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// Recover finishes the file called name if it exists, else the stream from which this trace would be made. If
// output is not empty, Recover writes the file output and changes no other file.
func Recover(name, output string) (*Result, error) {
	if output != "" {
		return save(name, output)
	}
	stream, file := tracename.Stream(name), format.Find(name)
	if !osfile.Exists(name) && osfile.Exists(stream+tracename.Journal) {
		file = stream
	}
	d := newDead(file, &Options{IET: name == stream || file != stream, Final: name})
	r, err := d.lookAndAct(context.Background())
	if err != nil {
		return r, fmt.Errorf("recover: %w", err)
	}
	return cmp.Or(r, d.found), nil
}

// isStream reports whether name is the name of an IET.
func isStream(name string) bool { return strings.HasSuffix(name, tracename.IET) }

// save writes the complete entries of the trace called name, and the records in its journal, to the file output.
func save(name, output string) (*Result, error) {
	src, err := openSource(format.Find(name))
	if err != nil {
		return nil, err
	}
	defer src.Close()
	r, err := src.report()
	if err != nil {
		return r, err
	}
	if src.journal != nil {
		_ = src.extend(true) // on an error, the file itself is saved
	}
	f, err := src.Open(&format.OpenOptions{Prefix: true})
	if err != nil {
		return r, err
	}
	r.Output = output
	r.Entries, err = copyTo(f, output, false)
	return r, err
}

// Inspect reports the complete entries of the file called name, and the entries in the journal of a dead writer. It
// changes nothing.
func Inspect(name string) (*Result, error) {
	src, err := openSource(format.Find(name))
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return src.report()
}

// report implements Inspect.
func (s *Source) report() (*Result, error) {
	f, err := s.Open(&format.OpenOptions{Prefix: true})
	if err != nil {
		return nil, err
	}
	file, err := f.Report()
	if err != nil {
		return nil, err
	}
	r := &Result{Report: Report{Report: *file}}
	switch {
	case r.Live:
		return r, nil
	case isUnreachable(s.Missing):
		r.Journal = s.Missing
	case s.Missing != nil:
		return r, s.Missing
	}
	if s.journal != nil {
		stream, _, err := s.journal.survey(s, s.Stored)
		r.Journal = cmp.Or(r.Journal, s.journal.damage(), err)
		if err == nil {
			r.Pending = s.journal.pending(stream)
		}
	}
	return r, nil
}
