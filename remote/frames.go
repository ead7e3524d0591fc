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
	"os"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// A timed is a connection with a time limit for reads. A read also fails once ctx is done.
type timed struct {
	net.Conn

	ctx context.Context
}

// until sets the deadline of reads to the current time plus d. Zero means no deadline.
func (t *timed) until(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = t.SetReadDeadline(at) // if this fails, the next read fails
	if t.ctx.Err() != nil {   // the line above may have replaced the deadline that was set when ctx was done
		_ = t.SetReadDeadline(time.Unix(1, 0))
	}
}

// A frames reads and checks the entries of a connection. It implements entrybytes.Connection for its format.Reader.
type frames struct {
	conn  *timed
	limit int
	frame time.Duration
	idle  time.Duration
	wait  func() error // called, if not nil, before a read that may block

	buffers *budget      // the limit for buffers larger than bufSize
	from    netip.Prefix // the address of the sender, for buffers
	size    int          // size of the current buffer

	r       *format.Reader
	greeted []byte // bytes of the magic that r has not read yet
	before  int64  // number of bytes on the connection before the magic
	got     int64  // number of bytes read, from the magic on
	renewed int64  // the value of got when the frame timeout was last restarted
	err     error  // the error that wait returned
}

const (
	bufSize = 64 << 10
	// frameSize is the number of bytes of an entry after which the frame timeout is restarted.
	frameSize = 1 << 20
)

// greet reads the bytes before the first entry: the token, if the receiver requires one, and the magic. From a
// client that sends something else, it reads at most ten bytes.
func (f *frames) greet(token string) error {
	var room [wire.MagicSize]byte
	if token != "" {
		want := appendPreface(nil, token)
		if err := f.full(room[:]); err != nil {
			return fmt.Errorf("%w: %w", ErrToken, err)
		}
		if !bytes.Equal(room[:], want[:len(room)]) { // this compares only the first word, which is not secret
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
	// Read byte by byte, so that the first wrong byte is an error at once.
	var stored format.StorageFormat
	for n := range room {
		err := f.full(room[n : n+1])
		if err != nil {
			return fmt.Errorf("magic: %w", err)
		}
		_, stored, err = format.ReadMagic(bytes.NewReader(room[:n+1]))
		if err != nil && !errors.Is(err, format.ErrTruncated) {
			return strange(room[0], err)
		}
	}
	if stored != format.IETPrefix { // the Reader would try to read the tables of an ET
		return fmt.Errorf("the sender sends the format %v, expected ietprefix", stored)
	}
	f.before, f.got, f.greeted = f.got-wire.MagicSize, 0, room[:]
	var err error
	f.r, err = format.NewReader(f, &format.ReaderOptions{MaxEntrySize: f.limit})
	return err
}

// strange adds to err the kind of client that sends the byte first as its first byte, if the kind is known.
func strange(first byte, err error) error {
	switch first {
	case 0x16:
		return fmt.Errorf("the sender uses TLS, but this receiver has no certificate (set --tls-cert and --tls-key of entrace receive): %w", err)
	case tokenWord[0]:
		return fmt.Errorf("the sender sends a token, but this receiver has none (set --token-env of entrace receive): %w", err)
	case 'G', 'P', 'H': // GET, POST, PUT, HEAD, PRI
		return fmt.Errorf("the sender uses HTTP, which this port does not accept: %w", err)
	}
	return err
}

func (f *frames) full(b []byte) error {
	n, err := io.ReadFull(f.conn, b)
	f.got += int64(n)
	return err
}

// Read implements io.Reader for the format.Reader. Between two entries it applies the idle timeout. Within an entry
// it applies the frame timeout to each mebibyte.
func (f *frames) Read(b []byte) (int, error) {
	if len(f.greeted) > 0 {
		n := copy(b, f.greeted)
		f.greeted = f.greeted[n:]
		f.got += int64(n)
		return n, nil
	}
	if f.wait != nil {
		f.err = f.wait()
		if f.err != nil {
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
	if f.got == whole && f.idle > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("nothing was received for %v: %w", f.idle, err)
	}
	f.got += int64(n)
	return n, err
}

// Room implements entrybytes.Connection. It reserves size bytes for a new buffer, and releases the bytes of the old
// buffer. The parameter need is the size of the next entry, including the length in front of it.
func (f *frames) Room(size, need int) error {
	if size > bufSize && !f.buffers.reserve(f.from, int64(size)) {
		return fmt.Errorf("%w: there is no room for an entry of %d bytes", ErrBusy, need-prefixSize)
	}
	f.release()
	f.size = size
	return nil
}

// release releases the bytes that were reserved for the buffer, which must not be used afterwards.
func (f *frames) release() {
	if f.size > bufSize {
		f.buffers.release(f.from, int64(f.size))
	}
	f.size = 0
}

// next returns the encoding of the next entry, which is valid until the next call. The error is [io.EOF] if the
// connection ended between two entries. If the connection ended within an entry, the error wraps
// [format.ErrTruncated].
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

// eof returns nil if err means that the connection ended between two entries. Otherwise it returns err.
func eof(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, format.ErrTruncated) {
		return nil
	}
	return err
}
