// Package mapfile safely reads regular files through memory maps. If a file is
// truncated while it is mapped, reading returns an error and does not kill the
// process. Close waits for calls that still read. If a file cannot be mapped, it is
// read with ordinary system calls.
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

// A FaultError reports that the file lost the page at Offset while it was mapped.
type FaultError struct{ Offset int64 }

func (e *FaultError) Error() string {
	return fmt.Sprintf("the memory map has no byte at offset %d any more: the file was truncated, or the disk is full or broken", e.Offset)
}

// A File is a view of a file. Its size is the size of the file when it was opened, or the size
// that was last set with Grow. A File is safe for concurrent use.
type File struct {
	f    *os.File // nil: everything is in tail
	size atomic.Int64

	// If tail is not nil, the view consists of the first end bytes of the file and of tail.
	end  int64
	tail []byte

	mu sync.RWMutex // held for reading while the map is read

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

// Memory returns a File with the bytes b and without a file on disk. The File owns b from now on.
func Memory(b []byte) *File {
	s := &File{tail: slices.Clip(b)}
	s.size.Store(int64(len(b)))
	return s
}

// Mapped reports whether the file is mapped, so that View does not copy.
func (s *File) Mapped() bool { return s.m != nil }

// Size returns the size of the view in bytes.
func (s *File) Size() int64 { return s.size.Load() }

// Grow sets the size of the view after the file has grown. The new bytes are not mapped.
func (s *File) Grow(size int64) { s.size.Store(size) }

// File returns the open file, for example for Stat.
func (s *File) File() *os.File { return s.f }

// Extend makes the view consist of the first end bytes of the file and of tail. The File owns
// tail from now on. Extend must not run at the same time as View or ReadAt.
func (s *File) Extend(end int64, tail []byte) {
	s.end, s.tail = end, tail
	s.size.Store(end + int64(len(tail)))
}

// Shrunk reports whether the file is now shorter than its part of the view. The end of the last
// page then reads as zeros, without a fault.
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

// View calls fn with n bytes from the offset off on. The bytes are valid until fn returns. fn
// must not keep them, write to them, or pass them to a system call or to another goroutine.
// It must not call code outside of this module.
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
	b := make([]byte, n) // bytes of the file and of tail
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

// stored is like View, for bytes that are in the file.
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
	return err
}

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

// Close waits for running calls of View, then unmaps and closes the file.
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
