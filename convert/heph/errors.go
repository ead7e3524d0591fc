package heph

import (
	"errors"
	"strconv"

	"github.com/entrace-go/entrace/format"
)

// What is wrong with a packet that an [Error] names.
var (
	ErrMagic     = errors.New("neither a metadata nor an event packet begins here")
	ErrSize      = errors.New("packet size smaller than the smallest packet")
	ErrTooLarge  = errors.New("packet too large")
	ErrType      = errors.New("unknown type of an attribute's value")
	ErrLength    = errors.New("longer than the packet")
	ErrEpoch     = errors.New("epoch is not eight bytes")
	ErrLeftOver  = errors.New("bytes left over behind the packet")
	ErrOldLayout = errors.New("event packet without a substream id, as Heph wrote them before 2021-03-17")
)

// An Error says which packet cannot be read. Its size leads to the packet behind
// it, unless Err is [ErrMagic], [ErrSize] or [format.ErrTruncated].
type Error struct {
	Offset int64  // bytes from the start of the input to the packet
	Packet int64  // its ordinal, from 0 on
	Field  string // the field that is damaged, if known, such as "attributes[2]"
	Err    error  // one of this package's errors, or format.ErrTruncated
}

func (e *Error) Error() string {
	s := "packet " + strconv.FormatInt(e.Packet, 10) + " at offset " + strconv.FormatInt(e.Offset, 10) + ": "
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// final reports whether nothing can be read behind the packet.
func (e *Error) final() bool {
	return errors.Is(e.Err, ErrMagic) || errors.Is(e.Err, ErrSize) || errors.Is(e.Err, format.ErrTruncated)
}
