// Package entrybytes reads the encoded entries of a trace file. It defines the interfaces between
// package format and the packages of this module that read every entry.
package entrybytes

import (
	"context"
	"io"
)

// Entries are the encoded entries of a file. Its methods are safe for concurrent use.
type Entries interface {
	// Columns reports whether they are of version 2.
	Columns() bool
	// Gap is how many bytes there are before each entry.
	Gap() int
	// Offset returns where in the file entry id begins. For the id behind the last entry it
	// returns where the last entry ends.
	Offset(id uint32) int64
	// End returns where the last whole entry ends.
	End() int64
	// View calls fn with n bytes at off of the file. fn must not keep them, and call
	// nothing of the file.
	View(off, n int64, fn func(b []byte)) error
	// Append appends the encoding of entry id to buf and returns that.
	Append(buf []byte, id uint32) ([]byte, error)
	// Grow looks for entries that were added to the file.
	Grow(ctx context.Context) error
}

// A Connection is an input of a format.Reader whose sender is not trusted. The Reader
// calls Room before it uses more memory, and reports an entry of length 0 as damage at once,
// whatever follows.
type Connection interface {
	io.Reader
	// Room is called before the Reader replaces its buffer, of 64 KiB at first, by one of another
	// size, because an entry has need bytes. An error ends the input.
	Room(size, need int) error
}
