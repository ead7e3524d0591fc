package recorder

import (
	"errors"
	"io"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapfile"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/tracename"
)

// Open opens the trace file name as [format.Open] does, and what the journal of a writer that died
// holds, as if [Recover] had brought that in; no file is changed. See [format.File.Journal]: what is
// missing is [ErrJournalGone], [ErrJournalElsewhere], or why the journal cannot be read.
func Open(name string, o *format.OpenOptions) (*format.File, error) {
	src, err := openSource(format.Find(name), false)
	if err != nil {
		return nil, err
	}
	return format.OpenMapped(src.File, src.name, src.stored, src.missing, o)
}

// ReadLast is [format.ReadLast]. It returns nil as well if some of the trace is in the journal of a
// dead writer.
func ReadLast(name string) (*format.Last, error) {
	src, err := openSource(format.Find(name), false)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if src.Size() != src.stored || src.missing != nil && !errors.Is(src.missing, format.ErrLocked) {
		return nil, nil //nolint:nilnil // as in package format
	}
	return format.ReadLast(src.name, src.missing != nil)
}

// Verify looks at every byte of the file name as [format.Verify] does; what the journal of a dead
// writer holds is a part of it. It returns what [format.Inspect] does, with those entries.
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

// A source is the bytes of a trace: those of its file and, behind them, the entries that the
// program which wrote it had only in its journal when it died.
type source struct {
	*mapfile.File

	name    string
	stored  int64 // how many of the bytes are in the file, too
	missing error // as File.Journal returns it
}

// openSource opens a trace. With lenient the journal replaces what is behind damage in an
// IET; else what is corrupt is left as it is.
func openSource(name string, lenient bool) (*source, error) {
	var b *deadBuffer
	var missing error
	if strings.HasSuffix(name, tracename.IET) {
		// Before the file, so that no recovery comes in between.
		if b, missing = openBuffer(name, false); b == nil && missing == nil && osfile.Locked(name) {
			missing = format.ErrLocked
		} else if errors.Is(missing, format.ErrLocked) && !isWaiting(name) {
			missing = nil
		}
	}
	m, err := mapfile.Open(name)
	if b != nil {
		// It is all in memory by now, and whoever wants to recover need not wait.
		err = errors.Join(err, b.close())
	}
	if err != nil {
		return nil, err
	}
	s := &source{File: m, name: name, stored: m.Size(), missing: missing}
	if b != nil {
		s.missing = errors.Join(missing, s.extend(b, lenient))
	}
	return s, nil
}

// extend makes what b holds a part of the source, and returns why some of that is missing.
func (s *source) extend(b *deadBuffer, lenient bool) error {
	err := safely(func() error {
		at, tail, err := b.tail(s, s.stored, lenient)
		if err != nil || tail == nil {
			return err
		}
		there := make([]byte, max(0, min(int64(len(tail)), s.stored-at)))
		if _, err := s.ReadAt(there, at); err != nil {
			return err
		}
		same := 0
		for same < len(there) && there[same] == tail[same] {
			same++
		}
		s.stored = at + int64(same)
		s.Extend(at, tail)
		return nil
	})
	return errors.Join(err, b.damage())
}

// A Content is the bytes of a trace as [format.Open] sees them: the file, and behind it what the
// journal of a dead writer holds.
type Content struct {
	*io.SectionReader

	src *source
}

// OpenContent opens the trace file name as [format.Open] does, to read it with [format.NewReader] or to
// copy it. The end of a growing file is where it was then.
func OpenContent(name string) (*Content, error) {
	src, err := openSource(format.Find(name), false)
	if err != nil {
		return nil, err
	}
	return &Content{io.NewSectionReader(src, 0, src.Size()), src}, nil
}

// Name returns the name of the file that was opened.
func (c *Content) Name() string { return c.src.name }

// Journal returns how many bytes came from the journal, and what [format.File.Journal] returns of
// what is missing.
func (c *Content) Journal() (size int64, missing error) {
	return max(0, c.Size()-c.src.stored), c.src.missing
}

// Close closes the file.
func (c *Content) Close() error { return c.src.Close() }
