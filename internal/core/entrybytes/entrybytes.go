// Package entrybytes reads the encoded entries of a trace file. It defines the interfaces between
// package format and the packages of this module that read every entry.
package entrybytes

import (
	"context"
	"io"
)

// Entries gives access to the encoded entries of a file. Its methods are safe for concurrent use.
type Entries interface {
	// Columns reports whether the entries are of version 2.
	Columns() bool
	// Gap returns the number of bytes before each entry.
	Gap() int
	// Offset returns the offset in the file at which the entry with the given id begins. For the number of entries,
	// it returns the end of the last entry.
	Offset(id uint32) int64
	// End returns the offset at which the last complete entry ends.
	End() int64
	// View calls fn with the n bytes of the file at the offset off. fn must not use the slice after it returns, and
	// must not call methods of the file.
	View(off, n int64, fn func(b []byte)) error
	// Append appends the encoding of the entry with the given id to buf and returns the extended
	// slice.
	Append(buf []byte, id uint32) ([]byte, error)
	// Grow adds the entries that were appended to the file since it was opened, or since the last Grow.
	Grow(ctx context.Context) error
}

// A Connection is an input of a format.Reader whose sender is not trusted. The Reader calls Room before it uses
// more memory. It treats every entry of length 0 as damage.
type Connection interface {
	io.Reader
	// Room is called before the Reader replaces its buffer by one of the given size. The first buffer has 64 KiB.
	// The parameter need is the number of bytes that the next entry needs. If Room returns an error, the Reader
	// reads no further.
	Room(size, need int) error
}
