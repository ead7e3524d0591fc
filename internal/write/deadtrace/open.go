package deadtrace

import (
	"errors"
	"fmt"
	"io"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// A Source holds the bytes of a trace: the bytes of its file, followed by the entries that were only
// in the journal when the writer died.
type Source struct {
	*mapfile.File

	Name    string
	Stored  int64 // how many of the bytes are in the file
	Missing error // the error that File.Journal returns
}

// OpenSource opens a trace. If lenient is set, entries of the journal replace everything after the
// damage in a corrupt IET. Otherwise a corrupt IET is left unchanged.
func OpenSource(name string, lenient bool) (*Source, error) {
	var b *journalTail
	var missing error
	if isStream(name) {
		// Open the journal before the file, so that no recovery happens in between.
		if b, missing = openJournalTail(name, false); b == nil && missing == nil && osfile.Locked(name) {
			missing = format.ErrLocked
		} else if errors.Is(missing, format.ErrLocked) && !isWaiting(name) {
			missing = nil
		}
	}
	m, err := mapfile.Open(name)
	if b != nil {
		// Everything is in memory now, so a process that wants to recover need not wait.
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

// extend adds the records of b to the source, and returns why some of them are missing.
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

// Safely calls fn and turns a panic into an error, because a file of a dead process must not end
// the application.
func Safely(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}

// Reader returns a reader of all bytes. A growing file ends for it where the file ended when it was opened.
func (s *Source) Reader() *io.SectionReader { return io.NewSectionReader(s, 0, s.Size()) }

// Open opens the trace as package format does.
func (s *Source) Open(o *format.OpenOptions) (*format.File, error) {
	return format.OpenMapped(s.File, s.Name, s.Stored, s.Missing, o)
}
