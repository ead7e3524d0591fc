package deadtrace

import (
	"errors"
	"fmt"
	"io"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// A Source holds the bytes of a trace: its file, followed by the entries that only the journal of a dead
// writer has.
type Source struct {
	*mapfile.File

	Name    string
	Stored  int64 // number of bytes that are in the file
	Missing error // the error for [format.File.Journal]
}

// OpenSource opens a trace. If an IET is corrupt and lenient is set, entries of the journal replace
// everything after the damage. If lenient is not set, a corrupt IET is read as it is.
func OpenSource(name string, lenient bool) (*Source, error) {
	var b *journalTail
	var missing error
	if isStream(name) {
		// The journal first: once it is locked, no other process can finish the trace.
		b, missing = openJournalTail(name, false)
		switch {
		case missing == nil && (b == nil || b.empty()) && osfile.Locked(name):
			// The writer lives, and records without a journal, or has left a journal that it could not remove.
			missing = errors.Join(format.ErrLocked, b.close())
			b = nil
		case errors.Is(missing, format.ErrLocked) && !isWaiting(name):
			missing = nil
		}
	}
	m, err := mapfile.Open(name)
	if b != nil {
		// The journal is in memory now, and another process may finish the trace.
		err = errors.Join(err, b.close())
	}
	if err != nil {
		return nil, err
	}
	s := &Source{File: m, Name: name, Stored: m.Size(), Missing: missing}
	if b != nil {
		s.Missing = errors.Join(missing, s.extend(b, lenient))
	}
	return s, nil
}

// extend adds the records of b to s. It returns the reason if records are missing.
func (s *Source) extend(b *journalTail, lenient bool) error {
	err := Safely(func() error {
		at, tail, err := b.tail(s, s.Stored, lenient)
		if err != nil || tail == nil {
			return err
		}
		there := make([]byte, max(0, min(int64(len(tail)), s.Stored-at)))
		if _, err := s.ReadAt(there, at); err != nil {
			return err
		}
		same := 0
		for same < len(there) && there[same] == tail[same] {
			same++
		}
		s.Stored = at + int64(same)
		s.Extend(at, tail)
		return nil
	})
	return errors.Join(err, b.damage())
}

// Safely calls fn and turns a panic into an error. The application must not die because of a file that a
// dead process has left.
func Safely(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}

// Reader returns a reader of all bytes of s. It does not see bytes that a living process appends later.
func (s *Source) Reader() *io.SectionReader { return io.NewSectionReader(s, 0, s.Size()) }

// Open opens the trace as format.Open does.
func (s *Source) Open(o *format.OpenOptions) (*format.File, error) {
	return format.OpenMapped(s.File, s.Name, s.Stored, s.Missing, o)
}
