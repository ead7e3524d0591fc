package deadtrace

import (
	"errors"
	"io"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/write/safecall"
)

// A Source holds the bytes of a trace: its file, followed by the entries that only the journal of a dead
// writer has.
type Source struct {
	*mapfile.File

	Name    string
	Stored  int64 // number of bytes that are in the file
	Missing error // the error for [format.File.Journal]

	journal *journalTail // the journal, which has data that the file may lack; nil if there is none
}

// OpenSource opens a trace. A corrupt IET is read as it is.
func OpenSource(name string) (*Source, error) {
	s, err := openSource(name)
	if err == nil && s.journal != nil {
		s.Missing = errors.Join(s.Missing, s.extend(false))
		s.journal = nil // its memory is not needed any more
	}
	return s, err
}

// openSource opens a trace and its journal. It does not add the entries of the journal.
func openSource(name string) (*Source, error) {
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
	return &Source{File: m, Name: name, Stored: m.Size(), Missing: missing, journal: b}, nil
}

// extend adds the entries of the journal to s. It returns the reason if records are missing. If the IET is corrupt and
// lenient is set, the entries replace everything after the damage.
func (s *Source) extend(lenient bool) error {
	err := safecall.Run(func() error {
		stream, damage, err := s.journal.survey(s, s.Stored)
		switch {
		case err != nil:
			return err
		case isCorrupt(damage) && !lenient:
			return damage
		case !s.journal.adds(stream):
			return nil
		}
		at, tail := stream.end(), stream.root()
		for block, err := range s.journal.blocks(stream) {
			if err != nil {
				return err
			}
			tail = append(tail, block...)
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
	return errors.Join(err, s.journal.damage())
}

// Reader returns a reader of all bytes of s. It does not see bytes that a living process appends later.
func (s *Source) Reader() *io.SectionReader { return io.NewSectionReader(s, 0, s.Size()) }

// Open opens the trace as format.Open does.
func (s *Source) Open(o *format.OpenOptions) (*format.File, error) {
	f, err := entrybytes.OpenMapped(s.File, s.Name, s.Stored, s.Missing, o)
	return f.(*format.File), err
}
