package heph

import (
	"errors"

	"github.com/entrace-go/entrace/convert/internal/input"
)

// What is wrong with a packet.
var (
	errMagic     = errors.New("neither a metadata nor an event packet begins here")
	errSize      = errors.New("packet size smaller than the smallest packet")
	errTooLarge  = errors.New("packet too large")
	errType      = errors.New("unknown type of an attribute's value")
	errLength    = errors.New("longer than the packet")
	errEpoch     = errors.New("epoch is not eight bytes")
	errOldLayout = errors.New("event packet without a substream id, as Heph wrote them before 2021-03-17")
)

// packetError returns err as the error of a packet.
func packetError(offset, number int64, field string, err error) error {
	return &input.Error{Offset: offset, Unit: input.Unit("packet", number), Field: field, Err: err}
}
