package remote

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// A timed is a connection whose reads fail after a deadline, or when ctx is done.
type timed struct {
	net.Conn

	ctx context.Context
}

// until sets the deadline to d from now. Zero means no deadline.
func (t *timed) until(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = t.SetReadDeadline(at) // if this fails, the next read fails
	if t.ctx.Err() != nil {   // this may have replaced the deadline that was set when ctx was done
		_ = t.SetReadDeadline(time.Unix(1, 0))
	}
}

// A frames reads and checks the entries of a connection. It is the raw.Connection for its format.Reader.
type frames struct {
	conn  *timed
	limit int
	frame time.Duration
	idle  time.Duration
	wait  func() error // called, if set, before a read that may block

	buffers *budget      // limits the buffers that are larger than bufSize
	from    netip.Prefix // the sender
	size    int          // size of the buffer

	r       *format.Reader
	greeted []byte // bytes of the magic that r has not read yet
	before  int64  // bytes on the connection before the magic
	got     int64  // bytes that were read since the begin of the magic
	renewed int64  // the value of got when the frame timeout last began
	err     error  // an error of wait
}

const (
	bufSize = 64 << 10
	// frameSize is the number of bytes of an entry after which the frame timeout begins again.
	frameSize = 1 << 20
)

// greet reads the bytes before the first entry: the token, if one is required, and the magic. If the sender
// sends anything else, greet reads at most ten bytes.
func (f *frames) greet(token string) error {
	var room [wire.MagicSize]byte
	if token != "" {
		want := appendPreface(nil, token)
		if err := f.full(room[:]); err != nil {
			return fmt.Errorf("%w: %w", ErrToken, err)
		}
		if !bytes.Equal(room[:], want[:len(room)]) { // compare only the word, which is not secret
			return ErrToken
		}
		got := make([]byte, len(want)-len(room))
		if err := f.full(got); err != nil {
			return fmt.Errorf("%w: %w", ErrToken, err)
		}
		if subtle.ConstantTimeCompare(got, want[len(room):]) != 1 {
			return ErrToken
		}
	}
	// Read byte by byte, so that a wrong byte is an error at once.
	var stored format.StorageFormat
	for n := range room {
		err := f.full(room[n : n+1])
		if err != nil {
			return fmt.Errorf("magic: %w", err)
		}
		if _, stored, err = format.ReadMagic(bytes.NewReader(room[:n+1])); err != nil && !errors.Is(err, format.ErrTruncated) {
			return strange(room[0], err)
		}
	}
	if stored != format.IETPrefix { // NewReader would read the tables of an ET
		return fmt.Errorf("the stream is %v, expected ietprefix", stored)
	}
	f.before, f.got, f.greeted = f.got-wire.MagicSize, 0, room[:]
	var err error
	f.r, err = format.NewReader(f, &format.ReaderOptions{MaxEntrySize: f.limit})
	return err
}

// strange adds to err the kind of client whose first byte is first, if known.
func strange(first byte, err error) error {
	switch first {
	case 0x16:
		return fmt.Errorf("the sender uses TLS, but this receiver has no certificate (set --tls-cert and --tls-key of entrace receive): %w", err)
	case tokenWord[0]:
		return fmt.Errorf("the sender sends a token, but this receiver has none (set --token-env of entrace receive): %w", err)
	case 'G', 'P', 'H': // GET, POST, PUT, HEAD, PRI
		return fmt.Errorf("the sender uses HTTP: %w", err)
	}
	return err
}

func (f *frames) full(b []byte) error {
	n, err := io.ReadFull(f.conn, b)
	f.got += int64(n)
	return err
}

// Read implements io.Reader for the format.Reader. Between two entries the idle timeout applies. Within an
// entry the frame timeout applies to each mebibyte.
func (f *frames) Read(b []byte) (int, error) {
	if len(f.greeted) > 0 {
		n := copy(b, f.greeted)
		f.greeted = f.greeted[n:]
		f.got += int64(n)
		return n, nil
	}
	if f.wait != nil {
		if f.err = f.wait(); f.err != nil {
			return 0, f.err
		}
	}
	whole := f.r.Offset()
	switch {
	case f.got == whole:
		f.conn.until(f.idle)
	case f.renewed <= whole, f.got >= f.renewed+frameSize:
		f.renewed = f.got
		f.conn.until(f.frame)
	}
	n, err := f.conn.Read(b)
	if f.got == whole && f.idle > 0 && isTimeout(err) {
		err = fmt.Errorf("nothing was received for %v: %w", f.idle, err)
	}
	f.got += int64(n)
	return n, err
}

// Room reserves size bytes for a new buffer and releases the bytes of the old buffer. The parameter need is the
// size of the next entry including its length.
func (f *frames) Room(size, need int) error {
	if size > bufSize && !f.buffers.reserve(f.from, int64(size)) {
		return fmt.Errorf("%w: there is no room for an entry of %d bytes", ErrBusy, need-prefixSize)
	}
	f.release()
	f.size = size
	return nil
}

// release releases the size of the buffer in the budget. The buffer must not be used afterwards.
func (f *frames) release() {
	if f.size > bufSize {
		f.buffers.release(f.from, int64(f.size))
	}
	f.size = 0
}

// next returns the encoding of the next entry, which is valid until the next call.
// The error is [io.EOF] if the connection ended between two entries. It wraps
// [format.ErrTruncated] if the connection ended within an entry.
func (f *frames) next() ([]byte, error) {
	_, err := f.r.Next()
	if err == nil {
		return f.r.Raw(), nil
	}
	if c, ok := errors.AsType[*format.CorruptError](err); ok {
		c.Offset = f.before + f.r.Offset()
		return nil, fmt.Errorf("%w: %w", ErrFrame, c)
	}
	if f.err == nil && f.got > f.r.Offset() {
		t := &format.TruncatedError{Offset: f.before + f.r.Offset(), Entry: f.r.ID() + 1}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, t
		}
		return nil, fmt.Errorf("%w: %w", t, err)
	}
	return nil, err
}

// eof returns nil if err says that the sender ended the connection between two entries, and err otherwise.
func eof(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, format.ErrTruncated) {
		return nil
	}
	return err
}
