// Package mapfile reads regular files safely through memory maps. If a file is truncated while it is mapped, a read
// returns an error instead of killing the process. If a file cannot be mapped, the package reads it with system
// calls. Close waits for reads that are running.
package mapfile

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	mmap "github.com/edsrzf/mmap-go"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("file already closed")
	// ErrBounds is returned for a range outside of the file.
	ErrBounds = errors.New("range outside of the file")
)

// A FaultError is returned if the file has lost the page at Offset while it was mapped.
type FaultError struct{ Offset int64 }

func (e *FaultError) Error() string {
	return fmt.Sprintf("the memory map has no byte at offset %d any more: the file was truncated, or the disk is full or broken", e.Offset)
}

// A File is a view of a file. Its size is the size that the file had when it was opened, or the size last set with
// Grow. A File is safe for concurrent use.
type File struct {
	f    *os.File // nil: all bytes are in tail
	size atomic.Int64

	// If tail is not nil, the view consists of the first end bytes of the file and of tail.
	end  int64
	tail []byte

	mu sync.RWMutex // locked for reading while m is read

	m      mmap.MMap // nil: read f instead
	closed bool
}

// Open maps the regular file name.
func Open(name string) (*File, error) {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return nil, err
	}
	return New(f)
}

// New maps the open regular file f and takes ownership of it: File.Close closes f, and
// New closes f if it fails.
func New(f *os.File) (*File, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &File{f: f}
	s.size.Store(fi.Size())
	// mmap-go would silently truncate a size that does not fit into an int.
	if size := fi.Size(); size > 0 && size <= math.MaxInt {
		if m, err := mmap.MapRegion(f, int(size), mmap.RDONLY, 0, 0); err == nil {
			s.m = m
		}
	}
	return s, nil
}

// Memory returns a File of the bytes b, without a file on disk. The caller must no longer change b.
func Memory(b []byte) *File {
	s := &File{tail: slices.Clip(b)}
	s.size.Store(int64(len(b)))
	return s
}

// Mapped reports whether the file is mapped, so that View need not copy.
func (s *File) Mapped() bool { return s.m != nil }

// Size returns the size of the view in bytes.
func (s *File) Size() int64 { return s.size.Load() }

// Grow sets the size of the view after the file has grown. The added bytes are not mapped.
func (s *File) Grow(size int64) { s.size.Store(size) }

// File returns the open file, for example for Stat.
func (s *File) File() *os.File { return s.f }

// Extend makes the view consist of the first end bytes of the file, followed by tail. The caller must no longer
// change tail. Extend must not run at the same time as View or ReadAt.
func (s *File) Extend(end int64, tail []byte) {
	s.end, s.tail = end, tail
	s.size.Store(end + int64(len(tail)))
}

// Shrunk reports whether the file is now shorter than its part of the view. Reading the end of the last page then
// returns zeros instead of a fault.
func (s *File) Shrunk() bool {
	if s.f == nil {
		return false
	}
	size := s.Size()
	if s.tail != nil {
		size = s.end
	}
	fi, err := s.f.Stat()
	return err == nil && fi.Size() < size
}

// View calls fn with the n bytes at the offset off. The bytes are valid until fn returns. fn must not change them,
// and must not pass them to a system call or to another goroutine. It must not call code outside of this module.
func (s *File) View(off, n int64, fn func(b []byte) error) error {
	if off < 0 || n < 0 || off > s.Size()-n {
		return ErrBounds
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	if s.tail == nil || off+n <= s.end {
		return s.stored(off, n, fn)
	}
	if off >= s.end {
		return fn(s.tail[off-s.end:][:n:n])
	}
	b := make([]byte, n) // part of the file, then part of tail
	err := s.stored(off, s.end-off, func(v []byte) error {
		copy(b, v)
		return nil
	})
	if err != nil {
		return err
	}
	copy(b[s.end-off:], s.tail)
	return fn(b)
}

// stored is like View, for bytes in the file.
func (s *File) stored(off, n int64, fn func(b []byte) error) (err error) {
	if s.m == nil || off+n > int64(len(s.m)) {
		if n > math.MaxInt {
			return ErrBounds
		}
		b := make([]byte, n)
		if _, err := s.f.ReadAt(b, off); err != nil {
			return err
		}
		return fn(b)
	}
	if ferr := Guard(s.m, func() { err = fn(s.m[off : off+n : off+n]) }); ferr != nil {
		return ferr
	}
	if n >= passed {
		osfile.Forget(s.m, int(off), int(off+n))
	}
	return err
}

// passed is the size of a view that is surely a part of a pass over the file. The memory of such a pass would be that of
// the whole file.
const passed = 128 << 10

// ReadAt implements io.ReaderAt, except that the error of a short read is ErrBounds.
func (s *File) ReadAt(b []byte, off int64) (int, error) {
	err := s.View(off, int64(len(b)), func(v []byte) error {
		copy(b, v)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close waits for calls of View that are running, and then unmaps and closes the file.
func (s *File) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	var err error
	if s.m != nil {
		err = s.m.Unmap()
		s.m = nil
	}
	if s.f != nil {
		err = errors.Join(err, s.f.Close())
	}
	return err
}
