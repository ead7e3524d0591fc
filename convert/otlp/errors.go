package otlp

import (
	"errors"

	"github.com/entrace-go/entrace/internal/otlp/codec"
)

// What is wrong at the place that an error of [Decode] names, besides [format.ErrTruncated] and
// [format.ErrTooLarge].
var (
	ErrNotOTLP = errors.New("neither OTLP JSON nor OTLP protobuf")
	ErrSyntax  = codec.ErrSyntax
	ErrID      = codec.ErrID
	ErrNumber  = codec.ErrNumber
	ErrEnum    = codec.ErrEnum
	ErrBase64  = codec.ErrBase64
	ErrField   = codec.ErrField
	ErrDeep    = codec.ErrDeep
)
