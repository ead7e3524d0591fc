package otlp

import "errors"

// ErrNotOTLP is returned if no message of the input is an OTLP message.
var ErrNotOTLP = errors.New("neither OTLP JSON nor OTLP protobuf")
