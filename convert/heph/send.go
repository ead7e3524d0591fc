package heph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
)

// maxDatagram is the largest packet that UDP carries.
const maxDatagram = 65507

// A Sender sends packets, each with a single write, so that over UDP each is a
// datagram of its own.
//
// A Sender is safe for concurrent use.
type Sender struct {
	c        io.WriteCloser
	datagram bool
	buffers  sync.Pool

	mu  sync.Mutex // one write at a time
	err error      // a stream that has half a packet in it takes no more

	streams sync.Map // of *Stream by id
}

// A Stream is one of the streams of events that a [Sender] sends. It numbers them.
//
// A Stream is safe for concurrent use. Events that are sent at the same time can
// arrive in another order than their numbers.
type Stream struct {
	s    *Sender
	id   uint32
	next atomic.Uint32
}

// Dial connects to a receiver of packets. Networks are those of [net.Dialer] that
// have addresses, such as "tcp" and "udp".
func Dial(ctx context.Context, network, address string) (*Sender, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dial a receiver of packets: %w", err)
	}
	s := NewSender(c)
	s.datagram = strings.HasPrefix(network, "udp") || network == "unixgram"
	return s, nil
}

// NewSender returns a Sender that writes to c, which Close closes.
func NewSender(c io.WriteCloser) *Sender {
	return &Sender{c: c, buffers: sync.Pool{New: func() any { return new([]byte) }}}
}

// Epoch says from when on the times of the events that follow count. It should be
// sent first, and over UDP again now and then, as it can be lost.
func (s *Sender) Epoch(t time.Time) error {
	return s.send(func(b []byte) []byte { return AppendEpoch(b, uint64(max(t.UnixNano(), 0))) })
}

// Stream returns the stream of that id, always the same one.
func (s *Sender) Stream(id uint32) *Stream {
	if st, ok := s.streams.Load(id); ok {
		return st.(*Stream)
	}
	st, _ := s.streams.LoadOrStore(id, &Stream{s: s, id: id})
	return st.(*Stream)
}

// Send sends e, which stays as it is, with the id of the stream and its next
// number. The error is that of [Event.Check], [ErrTooLarge] for what no datagram
// holds, or the connection's. An event that was not sent has a number all the same:
// the receiver sees that one is missing.
func (st *Stream) Send(e *Event) error {
	ev := *e
	ev.StreamID, ev.Counter = st.id, st.next.Add(1)-1
	if err := ev.Check(); err != nil {
		return err
	}
	return st.s.send(func(b []byte) []byte { return AppendEvent(b, &ev) })
}

// send writes what fn appends.
func (s *Sender) send(fn func(b []byte) []byte) error {
	buf := s.buffers.Get().(*[]byte)
	b := fn((*buf)[:0])
	if cap(b) <= readSize {
		*buf = b
		defer s.buffers.Put(buf)
	}
	if s.datagram && len(b) > maxDatagram {
		return ErrTooLarge
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	n, err := s.c.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil && n > 0 && !s.datagram {
		s.err = err
	}
	return err
}

// Close closes the connection.
func (s *Sender) Close() error { return s.c.Close() }

// ServePacket reads datagrams from conn, calls fn with each packet in them and
// whom it is from, and returns the error that fn returns, or conn's: nil when conn
// was closed. The packet is valid until fn returns. Where a datagram is no packet,
// p is nil and err an [*Error]. What comes over TCP, a [Reader] reads.
func ServePacket(conn net.PacketConn, fn func(from net.Addr, p *Packet, err error) error) error {
	buf := make([]byte, 64<<10)
	var p Packet
	for {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := serve(&p, buf[:n], from, fn); err != nil {
			return err
		}
	}
}

// serve calls fn with the packets of a datagram.
func serve(p *Packet, datagram []byte, from net.Addr, fn func(net.Addr, *Packet, error) error) error {
	p.Number = 0
	for at := 0; at < len(datagram) || at == 0; {
		left := datagram[at:]
		size, err := parseHead(left)
		if err == nil && uint64(size) > uint64(len(left)) {
			err = format.ErrTruncated
		}
		field := ""
		if err == nil {
			p.Raw, p.Offset = left[:size], int64(at)
			field, err = p.parse()
		}
		if err != nil {
			e := &Error{Offset: int64(at), Packet: p.Number, Field: field, Err: err}
			if err := fn(from, nil, e); err != nil || e.final() {
				return err
			}
		} else if err := fn(from, p, nil); err != nil {
			return err
		}
		at += int(size)
		p.Number++
	}
	return nil
}
