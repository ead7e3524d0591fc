package format

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/placer"
)

// A sink takes the entries of a recording. It is used by one goroutine.
type sink interface {
	// write appends entries, whose encodings are in b, and returns how many of them are
	// whole in the sink, which is all unless there is an error.
	write(b []byte, entries []placer.Staged) (kept int, err error)
	// begin is called once before the first write.
	begin(v Version)
	// sync makes what was written survive a loss of power.
	sync() error
	// check returns an error while the sink is not where it should be.
	check() error
	// size returns the size of what was written, in bytes.
	size() int64
}

// A memorySink keeps what it takes.
type memorySink struct {
	noSink

	b []byte
}

func (s *memorySink) begin(v Version) { s.noSink.begin(v); s.b = AppendMagic(s.b, v, IET) }

func (s *memorySink) write(b []byte, entries []placer.Staged) (int, error) {
	s.b = append(s.b, b...)
	return s.noSink.write(b, entries)
}

// A noSink takes everything and keeps nothing: a Tee gets it.
type noSink struct{ n int64 }

func (s *noSink) write(b []byte, entries []placer.Staged) (int, error) {
	s.n += int64(len(b))
	return len(entries), nil
}

func (s *noSink) begin(Version) { s.n = MagicSize }
func (*noSink) sync() error     { return nil }
func (*noSink) check() error    { return nil }
func (s *noSink) size() int64   { return s.n }

// A growingFile has the methods of *os.File that a fileSink uses, so that tests can have
// them fail.
type growingFile interface {
	io.Writer
	io.ReaderAt
	Truncate(size int64) error
	Sync() error
}

// A fileSink writes an IET file. The file ends at the end of an entry, always, unless
// dead is set.
type fileSink struct {
	f    *os.File
	w    growingFile // f, but in tests of what happens when f fails
	name string
	n    int64 // size of what is whole in the file
	dead error // the file cannot be written to any more

	// magic is to be written together with the first entry: a kill must not leave a file
	// without a root.
	magic []byte

	index index
	tail  tail

	syncErr error // sticky: a file that failed once is never safe again
}

func newFileSink(f *os.File, name string) *fileSink { return &fileSink{f: f, w: f, name: name} }

func (s *fileSink) begin(v Version) {
	s.magic = AppendMagic(nil, v, IET)
	s.n = MagicSize
	s.tail.add(s.magic)
}

func (s *fileSink) write(b []byte, entries []placer.Staged) (kept int, err error) {
	if s.dead != nil {
		return 0, s.dead
	}
	data := b
	if s.magic != nil {
		data = slices.Concat(s.magic, b)
	}
	n, err := s.w.Write(data)
	n -= len(data) - len(b)
	if n >= 0 {
		s.magic = nil
	}
	kept = len(entries)
	if err != nil {
		kept = 0
		for kept < len(entries) && entries[kept].End <= n {
			kept++
		}
	}
	from := 0
	for i := range entries[:kept] {
		e := &entries[i]
		s.index.add(e.End-from, e.ID, e.Parent)
		from = e.End
	}
	s.n += int64(from)
	s.tail.add(b[:from])
	if err == nil {
		return kept, nil
	}
	if n != from {
		size := s.n
		if s.magic != nil {
			size = 0
		}
		if terr := s.w.Truncate(size); terr != nil {
			// Bytes behind a part of an entry could never be read again.
			s.dead = fmt.Errorf("record to %s: %w", s.name, errors.Join(err, terr))
			return kept, s.dead
		}
	}
	return kept, fmt.Errorf("record to %s: %w", s.name, err)
}

func (s *fileSink) size() int64 { return s.n }

func (s *fileSink) sync() error {
	if s.syncErr == nil {
		if err := s.w.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
			s.syncErr = fmt.Errorf("sync %s: %w", s.name, err)
		}
	}
	return s.syncErr
}

func (s *fileSink) check() error {
	if osfile.SameFile(s.f, s.name) {
		return nil
	}
	return fmt.Errorf("record to %s: %w", s.name, ErrUnlinked)
}

// tailSize is how many of its last bytes tell one IET from another.
const tailSize = 64

// A tail is the last bytes of a file.
type tail struct{ b [tailSize]byte }

func (t *tail) add(b []byte) {
	if len(b) >= tailSize {
		copy(t.b[:], b[len(b)-tailSize:])
		return
	}
	copy(t.b[:], t.b[len(b):])
	copy(t.b[tailSize-len(b):], b)
}
