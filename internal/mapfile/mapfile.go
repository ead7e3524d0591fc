// Package mapfile reads regular files through memory maps without the dangers
// of one: a file that is truncated while it is mapped gives an error instead of
// killing the process, Close waits for those who still read, and where a map
// cannot be had the file is read in the ordinary way.
package mapfile

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"

	mmap "github.com/edsrzf/mmap-go"

	"github.com/entrace-go/entrace/internal/osfile"
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("file already closed")
	// ErrBounds is returned for a range outside of the file.
	ErrBounds = errors.New("range outside of the file")
)

// A FaultError says that the file lost the page at Offset while it was mapped.
type FaultError struct{ Offset int64 }

func (e *FaultError) Error() string {
	return fmt.Sprintf("the map has no byte at offset %d any more: the file was truncated, or the disk is full or broken", e.Offset)
}

// A File is a view of a file as long as the file was when it was opened, or grew last.
// It is safe for concurrent use.
type File struct {
	f    *os.File
	size atomic.Int64

	// What follows the first end bytes of the file is in tail, if that is not nil.
	end  int64
	tail []byte

	mu sync.RWMutex // held for reading while the map is looked at

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
	// mmap-go would cut a size that is too large for an int without an error.
	if size := fi.Size(); size > 0 && size <= math.MaxInt {
		if m, err := mmap.MapRegion(f, int(size), mmap.RDONLY, 0, 0); err == nil {
			s.m = m
		}
	}
	return s, nil
}

// Unmapped is New where no map can be had, for tests.
func Unmapped(f *os.File) (*File, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &File{f: f}
	s.size.Store(fi.Size())
	return s, nil
}

// Mapped reports whether View costs no copy.
func (s *File) Mapped() bool { return s.m != nil }

// Size returns the size of the view in bytes.
func (s *File) Size() int64 { return s.size.Load() }

// Grow makes the view as long as the file has become. What came later is not mapped.
func (s *File) Grow(size int64) { s.size.Store(size) }

// File returns the open file beneath, for Stat and the like.
func (s *File) File() *os.File { return s.f }

// Extend makes the view of the first end bytes of the file go on with tail, which is the
// File's from now on. It must not be called with View or ReadAt.
func (s *File) Extend(end int64, tail []byte) {
	s.end, s.tail = end, tail
	s.size.Store(end + int64(len(tail)))
}

// Shrunk reports whether the file is shorter now than what the view has of it. The end of
// the last page then reads as zeros, without a fault.
func (s *File) Shrunk() bool {
	size := s.Size()
	if s.tail != nil {
		size = s.end
	}
	fi, err := s.f.Stat()
	return err == nil && fi.Size() < size
}

// View calls fn with the n bytes at off, which are gone when fn returns. fn must
// not keep them, write to them, pass them to a system call or to another
// goroutine, or call code that is not its own.
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
	b := make([]byte, n) // of both
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

// stored is View of what is in the file.
func (s *File) stored(off, n int64, fn func(b []byte) error) error {
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
	return s.guard(s.m[off:off+n:off+n], fn)
}

// ReadAt copies, as io.ReaderAt wants it, but for the error of a short read:
// that is ErrBounds.
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

// guard turns the fault of a page that is not there any more into an error.
func (s *File) guard(b []byte, fn func(b []byte) error) (err error) {
	ferr := Guard(s.m, func() { err = fn(b) })
	if ferr != nil {
		return ferr
	}
	return err
}

// Close waits for the calls of View that run, then unmaps and closes the file.
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
	return errors.Join(err, s.f.Close())
}
