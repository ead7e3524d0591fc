package otlp

import "errors"

// ErrNotOTLP says that the first message is not an OTLP message.
var ErrNotOTLP = errors.New("neither OTLP JSON nor OTLP protobuf")
