package mapfile

import (
	"math"
	"os"
	"runtime/debug"
	"unsafe"

	mmap "github.com/edsrzf/mmap-go"
)

// A Region is a part of a file that is mapped for writing. It must not be unmapped while it is in use.
type Region struct{ m mmap.MMap }

// Map maps the n bytes of f at the offset off, which must be a multiple of the page size. All n bytes must be
// allocated on the disk, because a store to a missing page fails.
func Map(f *os.File, off int64, n int) (*Region, error) {
	if off < 0 || off > math.MaxInt64-int64(n) {
		return nil, ErrBounds
	}
	m, err := mmap.MapRegion(f, n, mmap.RDWR, 0, off)
	if err != nil {
		return nil, err
	}
	return &Region{m: m}, nil
}

// Bytes returns the mapped bytes. The caller must read and write them only under [Guard].
func (r *Region) Bytes() []byte { return r.m }

// Unmap removes the mapping.
func (r *Region) Unmap() error {
	if r.m == nil {
		return ErrClosed
	}
	err := r.m.Unmap()
	r.m = nil
	return err
}

// Guard runs fn, which may read and write b. If a page of b is lost, or the disk is full when a page is needed,
// Guard returns the page fault as a [FaultError]. fn must not start goroutines that use b, and must not pass b to a
// system call.
func Guard(b []byte, fn func()) (err error) {
	old := debug.SetPanicOnFault(true)
	whole := false
	defer func() {
		debug.SetPanicOnFault(old)
		if whole {
			return
		}
		if r := recover(); r != nil {
			err = faultOf(r, b)
		}
	}()
	fn()
	whole = true
	return nil
}

// faultOf returns the error for a recovered panic r. If r is not a page fault in b, faultOf panics with r again.
func faultOf(r any, b []byte) error {
	fault, ok := r.(interface{ Addr() uintptr })
	if !ok {
		panic(r)
	}
	off := fault.Addr() - uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if off >= uintptr(len(b)) {
		panic(r) // do not hide another error
	}
	return &FaultError{Offset: int64(off)}
}
