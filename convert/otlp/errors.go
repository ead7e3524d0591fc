package otlp

import (
	"errors"
	"strconv"
)

// What is wrong at the place that an [Error] names, besides [format.ErrTruncated],
// [format.ErrTooLarge] and [format.ErrTooLarge].
var (
	ErrNotOTLP = errors.New("neither OTLP JSON nor OTLP protobuf")
	ErrSyntax  = errors.New("unexpected character")
	ErrID      = errors.New("an id of the wrong length, or not of hex digits")
	ErrNumber  = errors.New("no number, or one out of range")
	ErrEnum    = errors.New("unknown name of an enum")
	ErrBase64  = errors.New("not base64")
	ErrField   = errors.New("malformed protobuf field")
	ErrDeep    = errors.New("values nest too deep")
)

// An Error says where the input is damaged, or where it stops in the middle.
type Error struct {
	Offset  int64 // bytes from where the input began
	Message int64 // the number of the line or of the protobuf message, from 1
	Err     error // what is wrong there
}

func (e *Error) Error() string {
	return "message " + strconv.FormatInt(e.Message, 10) + " at offset " + strconv.FormatInt(e.Offset, 10) + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
