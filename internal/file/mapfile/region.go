package mapfile

import (
	"math"
	"os"
	"runtime/debug"
	"unsafe"

	mmap "github.com/edsrzf/mmap-go"
)

// A Region is a part of a file that is mapped for writing. The caller must not
// unmap it while it is in use.
type Region struct{ m mmap.MMap }

// Map maps n bytes of f from the offset off on, which must be a multiple of the page
// size. All n bytes must exist on disk, because missing bytes cannot be written.
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

// Guard runs fn. If a page of b is lost, or a full disk has no room for it, Guard
// returns the fault as a [FaultError]. fn must not start goroutines that use b, and
// must not pass b to a system call.
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

// faultOf returns the error for a recovered panic r. If r is not a fault in b, faultOf
// panics with r again.
func faultOf(r any, b []byte) error {
	fault, ok := r.(interface{ Addr() uintptr })
	if !ok {
		panic(r)
	}
	off := fault.Addr() - uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if off >= uintptr(len(b)) {
		panic(r) // do not hide an error elsewhere
	}
	return &FaultError{Offset: int64(off)}
}
