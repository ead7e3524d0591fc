package recorder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// A sink stores the entries of a recording. Only one goroutine uses it.
type sink interface {
	// write appends entries, whose encodings are in b. It returns how many of them are completely in the
	// sink: all, if err is nil.
	write(b []byte, entries []placer.Staged) (kept int, err error)
	// begin is called once before the first write.
	begin(v format.Version)
	// sync makes all written entries survive a loss of power.
	sync() error
	// check returns an error if the file of the sink was removed or renamed.
	check() error
	// size returns the number of bytes written.
	size() int64
}

// A noSink counts the bytes and drops them. A recorder that passes its entries to a Tee only has this sink.
type noSink struct{ n int64 }

func (s *noSink) write(b []byte, entries []placer.Staged) (int, error) {
	s.n += int64(len(b))
	return len(entries), nil
}

func (s *noSink) begin(format.Version) { s.n = wire.MagicSize }
func (*noSink) sync() error            { return nil }
func (*noSink) check() error           { return nil }
func (s *noSink) size() int64          { return s.n }

// A growingFile has the methods of *os.File that a fileSink uses, so that tests can make
// these methods fail.
type growingFile interface {
	io.Writer
	io.ReaderAt
	Truncate(size int64) error
	Sync() error
}

// A fileSink writes an IET file. The last entry in the file is always complete, unless the field dead is
// set.
type fileSink struct {
	f    *os.File
	w    growingFile // f, or in tests a file that fails
	name string
	n    int64 // size of the magic and the whole entries in the file
	dead error // why nothing more can be written to the file

	folder   os.FileInfo // describes the folder as it was when the file was made
	root     os.FileInfo // describes / at that time: after chroot, paths say nothing about mounts
	inMemory bool        // the folder was on a tmpfs

	// magic is written together with the first entry: if it were written alone, a kill could leave a file
	// without a root. After that write, magic is nil.
	magic []byte

	index entrybytes.Index
	tail  deadtrace.Tail

	syncErr error // never reset: after a failed sync the file is never safe again
}

func newFileSink(f *os.File, name string) *fileSink {
	dir := filepath.Dir(name)
	folder, err := os.Stat(dir)
	if err != nil { // somebody has just removed the folder
		folder, _ = f.Stat()
	}
	return &fileSink{f: f, w: f, name: name, folder: folder, root: root(), inMemory: osfile.OnTmpfs(dir)}
}

// root describes / or is nil.
func root() os.FileInfo {
	fi, _ := os.Stat("/")
	return fi
}

func (s *fileSink) begin(v format.Version) {
	s.magic = wire.AppendMagic(nil, v, format.IET)
	s.n = wire.MagicSize
	s.tail.Add(s.magic)
}

func (s *fileSink) write(b []byte, entries []placer.Staged) (kept int, err error) {
	if s.dead != nil {
		return 0, s.dead
	}
	if err := s.checkSize(); err != nil {
		return 0, err
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
		s.index.Add(e.End-from, e.ID, e.Parent, e.CountsSpan)
		from = e.End
	}
	s.n += int64(from)
	s.tail.Add(b[:from])
	if err == nil {
		return kept, nil
	}
	if n != from {
		size := s.n
		if s.magic != nil {
			size = 0
		}
		if terr := s.w.Truncate(size); terr != nil {
			// Entries after an incomplete entry could never be read.
			s.dead = fmt.Errorf("record to %s: %w", s.name, errors.Join(err, terr))
			return kept, s.dead
		}
	}
	return kept, fmt.Errorf("record to %s: %w", s.name, err)
}

func (s *fileSink) size() int64 { return s.n }

// stored returns the expected size of the file in bytes.
func (s *fileSink) stored() int64 {
	if s.magic != nil {
		return 0
	}
	return s.n
}

// errChanged means that another program changed the file while a recorder was writing it.
var errChanged = errors.New("another program changed the file")

// checkSize returns errChanged if another program has cut the file, or appended to it.
func (s *fileSink) checkSize() error {
	fi, err := s.f.Stat()
	if err != nil || s.dead != nil || fi.Size() == s.stored() {
		return nil //nolint:nilerr // the write returns the error
	}
	return fmt.Errorf("record to %s: %w: it has %d bytes, expected %d", s.name, errChanged, fi.Size(), s.stored())
}

// mend cuts a file that another program has changed, and keeps the entries that are still intact. The
// parameter root is the encoding of the first entry. mend returns the number of entries in the file, and
// how many entries and spans are lost.
func (s *fileSink) mend(v format.Version, root []byte) (left, entries, spans int, err error) {
	fi, err := s.f.Stat()
	if err != nil {
		return 0, 0, 0, err
	}
	left, size := s.wholePrefix(v, min(fi.Size(), s.stored()))
	if err := s.w.Truncate(size); err != nil || s.magic != nil {
		return 0, 0, 0, err
	}
	if left == 0 {
		magic := wire.AppendMagic(nil, v, format.IET)
		n, err := s.w.Write(append(magic, root...))
		if err != nil {
			return 0, 0, 0, errors.Join(err, s.w.Truncate(0))
		}
		left, size, s.magic = 1, int64(n), nil
	}
	entries, spans = s.index.CutTo(left)
	s.n = size
	s.tail, err = deadtrace.TailOf(s.w, size)
	return left, entries, spans, err
}

// wholePrefix returns how many entries at the beginning of the file are unchanged, and their size in bytes
// including the magic. It ignores the bytes from the offset within on. It decodes only the last of these
// entries. This is enough: if another program had changed earlier bytes, a valid entry would hardly begin
// at exactly this offset.
func (s *fileSink) wholePrefix(v format.Version, within int64) (entries int, size int64) {
	type entry struct {
		end    int64
		parent uint32
	}
	var all []entry
	end := int64(wire.MagicSize)
	s.index.Each(func(size, parent uint32, _ bool) bool {
		end += int64(size)
		if end <= within {
			all = append(all, entry{end, parent})
		}
		return end <= within
	})
	var e format.TraceEntry
	for n := len(all); n > 0; n-- {
		from := int64(wire.MagicSize)
		if n > 1 {
			from = all[n-2].end
		}
		b := make([]byte, all[n-1].end-from)
		if _, err := s.w.ReadAt(b, from); err != nil {
			continue
		}
		if k, err := format.DecodeTraceEntry(b, v, &e); err == nil && k == len(b) && e.Parent == all[n-1].parent {
			return n, all[n-1].end
		}
	}
	return 0, 0
}

func (s *fileSink) sync() error {
	if s.syncErr == nil {
		if err := s.w.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
			s.syncErr = fmt.Errorf("sync %s: %w", s.name, err)
		}
	}
	return s.syncErr
}

func (s *fileSink) check() error {
	if osfile.HasName(s.f, s.name) {
		return nil
	}
	return fmt.Errorf("record to %s: %w", s.name, ErrUnlinked)
}

// isUnmounted reports whether the device of the file is not mounted at its place any more.
func (s *fileSink) isUnmounted() bool {
	return s.check() != nil && os.SameFile(root(), s.root) && osfile.IsUnmounted(s.folder, s.name)
}

// isRemoved reports whether the content of the file disappears with this process, because the file has no name or
// its tmpfs is not mounted any more. A renamed file is not removed.
func (s *fileSink) isRemoved() bool { return osfile.IsRemoved(s.f) || s.inMemory && s.isUnmounted() }

// place returns the folder in which the ET must be. If the file was removed, it returns nil: any folder of the same
// name will do.
func (s *fileSink) place() os.FileInfo {
	if s.isRemoved() {
		return nil
	}
	return s.folder
}
