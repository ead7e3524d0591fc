package heph

import (
	"github.com/entrace-go/entrace/format"
)

// maxPacket is the maximum size of a packet. A larger packet is skipped.
const maxPacket = 128 << 20

// A reader reads the packets in b. They refer to b. It needs memory for at most 73,728 attributes.
type reader struct {
	b      []byte
	off    int // offset of the next packet
	number int64
	packet packet
	lost   bool // the position of the next packet is unknown
}

// more reports whether there is another packet.
func (r *reader) more() bool { return !r.lost && r.off < len(r.b) }

// next returns the next packet, which is valid until next is called again. If a packet cannot be read, the error is
// an [*input.Error] that names the packet.
func (r *reader) next() (*packet, error) {
	at := r.off
	size, err := parseHead(r.b[at:])
	if err == nil && int64(size) > int64(len(r.b)-at) {
		err = format.ErrTruncated
	}
	field := ""
	r.lost = err != nil
	if !r.lost {
		r.off += int(size)
		r.packet = packet{Offset: int64(at), Number: r.number, Raw: r.b[at:r.off], Event: event{Attributes: r.packet.Event.Attributes}}
		err = errTooLarge
		if size <= maxPacket {
			field, err = r.packet.parse()
		}
	}
	r.number++
	if err != nil {
		return nil, packetError(int64(at), r.number-1, field, err)
	}
	return &r.packet, nil
}
