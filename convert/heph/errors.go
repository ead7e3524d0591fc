package heph

import (
	"errors"

	"github.com/entrace-go/entrace/internal/read/input"
)

// The errors of a packet.
var (
	errMagic     = errors.New("expected a metadata or event packet")
	errSize      = errors.New("the packet size is too small")
	errTooLarge  = errors.New("the packet is too large")
	errType      = errors.New("unknown type of attribute value")
	errLength    = errors.New("the field extends past the end of the packet")
	errEpoch     = errors.New("the epoch must have eight bytes")
	errOldLayout = errors.New("the event packet has no substream id: Heph wrote such packets before 2021-03-17")
)

// packetError returns err as the error of a packet.
func packetError(offset, number int64, field string, err error) error {
	return &input.Error{Offset: offset, Unit: input.Unit("packet", number), Field: field, Err: err}
}
