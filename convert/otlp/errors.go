package otlp

import "errors"

// What is wrong at the place that an error of [Decode] names, besides [format.ErrTruncated] and
// [format.ErrTooLarge].
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
