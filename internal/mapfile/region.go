package mapfile

import (
	"math"
	"os"
	"runtime/debug"
	"unsafe"

	mmap "github.com/edsrzf/mmap-go"
)

// A Region is a part of a file that is mapped for writing. It is not safe to
// unmap while it is used.
type Region struct{ m mmap.MMap }

// Map maps n bytes at off, a multiple of the page size, of a file that has them
// all on disk: what is not there could not be written.
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

// Bytes returns the bytes, which must be looked at and written under [Guard].
func (r *Region) Bytes() []byte { return r.m }

// Unmap takes the map away.
func (r *Region) Unmap() error {
	if r.m == nil {
		return ErrClosed
	}
	err := r.m.Unmap()
	r.m = nil
	return err
}

// Guard runs fn and turns the fault of a page of b that is not there any more, or
// that a full disk has no room for, into a [FaultError]. fn must not start
// goroutines that use b, nor hand b to a system call.
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

// faultOf returns the error of a recovered panic, which it raises again when it
// is not a fault of b.
func faultOf(r any, b []byte) error {
	fault, ok := r.(interface{ Addr() uintptr })
	if !ok {
		panic(r)
	}
	off := fault.Addr() - uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if off >= uintptr(len(b)) {
		panic(r) // a mistake elsewhere must not be hidden
	}
	return &FaultError{Offset: int64(off)}
}
