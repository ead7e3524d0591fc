package heph

import (
	"errors"
	"io"

	"github.com/entrace-go/entrace/format"
)

const (
	readSize = 256 << 10
	// maxPacket is the size above which a packet is passed over.
	maxPacket = 128 << 20
)

// A Reader reads packets from a stream: a file, a pipe, a TCP connection. It needs
// memory for the largest packet, of which it accepts up to 128 MiB,
// and of attributes 73,728 a packet.
//
// A Reader is not safe for concurrent use.
type Reader struct {
	r io.Reader

	// Invariants: 0 <= start <= end <= len(buf); buf[start] lies at off in the
	// input.
	buf        []byte
	start, end int
	off        int64
	rerr       error // what Read of r ended with

	packet Packet
	number int64
	err    error
}

// NewReader returns a Reader of the packets that r holds.
func NewReader(r io.Reader) *Reader { return &Reader{r: r, buf: make([]byte, readSize)} }

// Next returns the next packet, which is valid until the next call. At the end of
// the input the error is [io.EOF]. An [*Error] names a packet that cannot be read;
// the call after it goes on behind that packet, or returns the error again when
// its end is not known. Other errors are those of the source.
func (r *Reader) Next() (*Packet, error) {
	if r.err != nil {
		return nil, r.err
	}
	field, err := r.next()
	number := r.number
	r.number++
	if err == nil {
		r.packet.Number = number
		return &r.packet, nil
	}
	if r.rerr != nil && !errors.Is(r.rerr, io.EOF) && errors.Is(err, format.ErrTruncated) {
		r.err = r.rerr
		return nil, r.err
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, format.ErrTruncated) {
		r.err = err
		return nil, err
	}
	e := &Error{Offset: r.packet.Offset, Packet: number, Field: field, Err: err}
	if e.final() {
		r.err = e
	}
	return nil, e
}

// Offset returns how many bytes lie before the next packet.
func (r *Reader) Offset() int64 { return r.off }

func (r *Reader) next() (field string, err error) {
	r.packet.Offset = r.off
	r.fill(headSize)
	if r.start == r.end {
		if r.rerr != nil && !errors.Is(r.rerr, io.EOF) {
			return "", format.ErrTruncated
		}
		return "", io.EOF
	}
	size, err := parseHead(r.buf[r.start:r.end])
	if err != nil {
		return "", err
	}
	if size > maxPacket {
		return "", r.discard(int64(size))
	}
	if r.fill(int(size)); r.end-r.start < int(size) {
		return "", format.ErrTruncated
	}
	r.packet.Raw = r.buf[r.start : r.start+int(size)]
	r.start += int(size)
	r.off += int64(size)
	return r.packet.parse()
}

// discard passes over n bytes.
func (r *Reader) discard(n int64) error {
	for n > 0 {
		if r.fill(1); r.start == r.end {
			return format.ErrTruncated
		}
		k := min(n, int64(r.end-r.start))
		r.start += int(k)
		r.off += k
		n -= k
	}
	return ErrTooLarge
}

// fill reads until n bytes are there or there are no more. The buffer never grows
// to more than twice of what the input has brought.
func (r *Reader) fill(n int) {
	for idle := 0; r.end-r.start < n && r.rerr == nil; {
		if r.start == r.end {
			r.start, r.end = 0, 0
		}
		if r.end == len(r.buf) || r.start+n > len(r.buf) && r.start > 0 {
			to := r.buf
			if r.end-r.start > len(r.buf)/2 {
				to = make([]byte, 2*len(r.buf))
			}
			r.end = copy(to, r.buf[r.start:r.end])
			r.start, r.buf = 0, to
		}
		k, err := r.r.Read(r.buf[r.end:])
		r.end += k
		if k > 0 {
			idle = 0
		} else if idle++; idle > 100 && err == nil {
			err = io.ErrNoProgress
		}
		r.rerr = err
	}
}
