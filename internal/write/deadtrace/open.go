package deadtrace

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// A Source is the bytes of a trace: those of its file and, behind them, the entries that the
// program which wrote it had only in its journal when it died.
type Source struct {
	*mapfile.File

	Name    string
	Stored  int64 // how many of the bytes are also in the file
	Missing error // as File.Journal returns it
}

// OpenSource opens a trace. With lenient the journal replaces what is behind damage in an
// IET; else what is corrupt is left as it is.
func OpenSource(name string, lenient bool) (*Source, error) {
	var b *rest
	var missing error
	if strings.HasSuffix(name, tracename.IET) {
		// Before the file, so that no recovery comes in between.
		if b, missing = openRest(name, false); b == nil && missing == nil && osfile.Locked(name) {
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
	s := &Source{File: m, Name: name, Stored: m.Size(), Missing: missing}
	if b != nil {
		s.Missing = errors.Join(missing, s.extend(b, lenient))
	}
	return s, nil
}

// extend makes what b holds a part of the source, and returns why some of that is missing.
func (s *Source) extend(b *rest, lenient bool) error {
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

// Safely calls fn and turns a panic into an error: a file of a dead process must not end the
// application.
func Safely(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}

// Reader returns a reader of all bytes. The end of a growing file is where it was when the trace was opened.
func (s *Source) Reader() *io.SectionReader { return io.NewSectionReader(s, 0, s.Size()) }

// Open opens the trace as package format does.
func (s *Source) Open(o *format.OpenOptions) (*format.File, error) {
	return format.OpenMapped(s.File, s.Name, s.Stored, s.Missing, o)
}
