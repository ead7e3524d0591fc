package format

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/entrace-go/entrace/internal/core/wire"
)

// A Version is the disk version of a file. In options and arguments, zero means [DefaultVersion].
type Version uint8

// The disk versions. They differ only in how the attributes of an entry are stored. The numbers are part of the
// file format.
const (
	V1 Version = 1 // pairs of name and value, in the order of recording
	V2 Version = 2 // sorted names, then values

	// DefaultVersion is written if no version is chosen. ENTRACE's specification describes this version.
	DefaultVersion = V1
)

// Check returns nil if this package can read and write files of version v, otherwise [ErrUnsupported].
func (v Version) Check() error {
	if v == V1 || v == V2 {
		return nil
	}
	return fmt.Errorf("%w: the file has disk version %d (byte 8), known versions are %d and %d: was it written by a newer ENTRACE?", ErrUnsupported, v, V1, V2)
}

// hasColumns reports whether the sorted names of all attributes are stored before all values.
func (v Version) hasColumns() bool { return v >= V2 }

// minEntrySize is the size of the smallest entry, in which every length and tag is 0.
func (v Version) minEntrySize() int {
	if v.hasColumns() {
		return 10
	}
	return 9
}

// A StorageFormat is one of the three ways in which entries are stored.
type StorageFormat uint8

// The storage formats. The numbers are part of the file format.
const (
	ET        StorageFormat = 0 // first offsets and the pool, for memory mapping
	IET       StorageFormat = 1 // a plain stream of entries
	IETPrefix StorageFormat = 2 // like IET, but with the length of each entry before it; for TCP
)

// String returns the lower-case name, which [ParseStorageFormat] accepts.
func (f StorageFormat) String() string {
	switch f {
	case ET:
		return "et"
	case IET:
		return "iet"
	case IETPrefix:
		return "ietprefix"
	}
	return fmt.Sprintf("StorageFormat(%d)", uint8(f))
}

// check returns nil if f is one of the three storage formats, otherwise [ErrUnsupported].
func (f StorageFormat) check() error {
	if f <= IETPrefix {
		return nil
	}
	return fmt.Errorf("%w: the file has storage format %d (byte 9), known formats are 0 (ET), 1 (IET) and 2 (IETPrefix)", ErrUnsupported, uint8(f))
}

// ParseStorageFormat returns the format that s names: et, iet or ietprefix. Upper and lower case are equal.
func ParseStorageFormat(s string) (StorageFormat, error) {
	for f := ET; f <= IETPrefix; f++ {
		if strings.EqualFold(s, f.String()) {
			return f, nil
		}
	}
	return 0, fmt.Errorf("format: unknown storage format %q: must be et, iet or ietprefix", s)
}

// ParseVersion returns the disk version that s names, 1 or 2.
func ParseVersion(s string) (Version, error) {
	switch s {
	case "1":
		return V1, nil
	case "2":
		return V2, nil
	}
	return 0, fmt.Errorf("format: unknown version %q: must be 1 or 2", s)
}

// ReadMagic reads the ten bytes at the beginning of f. The error is [ErrTruncated] if f has fewer bytes but they are
// correct, [ErrNotEntrace], [ErrUnsupported], or an error of f.
func ReadMagic(f io.ReaderAt) (Version, StorageFormat, error) {
	var magic [wire.MagicSize]byte
	n, err := f.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	return parseMagic(magic[:n])
}

// parseMagic does the same as ReadMagic for the bytes b.
func parseMagic(b []byte) (Version, StorageFormat, error) {
	for i := range min(len(b), len(wire.MagicName)) {
		if b[i] != wire.MagicName[i] {
			return 0, 0, fmt.Errorf("%w: byte %d is %#02x, expected %#02x", ErrNotEntrace, i, b[i], wire.MagicName[i])
		}
	}
	if len(b) < wire.MagicSize {
		return 0, 0, &TruncatedError{Entry: noEntry, Field: "magic", Empty: len(b) == 0}
	}
	v, f := Version(b[8]), StorageFormat(b[9])
	if err := v.Check(); err != nil {
		return 0, 0, err
	}
	if err := f.check(); err != nil {
		return 0, 0, err
	}
	return v, f, nil
}
