package otlp

import "errors"

// ErrNotOTLP is returned if no message of the input is an OTLP message.
var ErrNotOTLP = errors.New("not OTLP in JSON or protobuf")
