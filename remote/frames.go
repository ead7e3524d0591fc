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
	"github.com/entrace-go/entrace/internal/wire"
)

// A timed connection stops to read at a time, or when ctx is done.
type timed struct {
	net.Conn

	ctx context.Context
}

// until sets the time, zero for none.
func (t *timed) until(d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = t.SetReadDeadline(at) // if that fails so does the next read
	if t.ctx.Err() != nil {   // it may have set its own just before
		_ = t.SetReadDeadline(time.Unix(1, 0))
	}
}

// frames reads the entries of a connection and vouches for them. It is the raw.Connection of its
// Reader.
type frames struct {
	conn  *timed
	limit int
	frame time.Duration
	idle  time.Duration
	wait  func() error // is called before a read that may take a while, if it is set

	buffers *budget      // that a buffer counts for if it is larger than bufSize
	from    netip.Prefix // the sender
	size    int          // of the buffer

	r       *format.Reader
	greeted []byte // of the magic: what r has not read yet
	before  int64  // bytes that came before the magic
	got     int64  // bytes from the magic on
	renewed int64  // of these, when the time of a frame began
	err     error  // why no more comes, if that is not the sender
}

const (
	bufSize = 64 << 10
	// frameSize is how much of an entry gets the time of a frame anew.
	frameSize = 1 << 20
)

// greet reads what comes before the first entry: the token, if there is to be
// one, and the magic. It reads no more than ten bytes of what is not that.
func (f *frames) greet(token string) error {
	var room [wire.MagicSize]byte
	if token != "" {
		want := appendPreface(nil, token)
		if err := f.full(room[:]); err != nil {
			return fmt.Errorf("%w: %w", ErrToken, err)
		}
		if !bytes.Equal(room[:], want[:len(room)]) { // the word alone, which is no secret
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
	// Byte by byte as far as needed: who sends one that is wrong is not waited for.
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
	if stored != format.IETPrefix { // of an ET a Reader would read more at once
		return fmt.Errorf("the stream is %v, want ietprefix", stored)
	}
	f.before, f.got, f.greeted = f.got-wire.MagicSize, 0, room[:]
	var err error
	f.r, err = format.NewReader(f, &format.ReaderOptions{MaxEntrySize: f.limit})
	return err
}

// strange returns err, with what a sender is that begins with such a byte.
func strange(first byte, err error) error {
	switch first {
	case 0x16:
		return fmt.Errorf("the sender speaks TLS, this receiver has no certificate (receive: --tls-cert and --tls-key): %w", err)
	case tokenWord[0]:
		return fmt.Errorf("the sender shows a token, this receiver has none (receive: --token-env): %w", err)
	case 'G', 'P', 'H': // GET, POST, PUT, HEAD, PRI
		return fmt.Errorf("the sender speaks HTTP: %w", err)
	}
	return err
}

func (f *frames) full(b []byte) error {
	n, err := io.ReadFull(f.conn, b)
	f.got += int64(n)
	return err
}

// Read reads for the Reader. Between two entries it waits as long as a sender may be idle; within
// one, each mebibyte has the time of a frame.
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
		err = fmt.Errorf("nothing came for %v: %w", f.idle, err)
	}
	f.got += int64(n)
	return n, err
}

// Room reserves the bytes of a buffer of another size.
func (f *frames) Room(size, need int) error {
	if size > bufSize && !f.buffers.reserve(f.from, int64(size)) {
		return fmt.Errorf("%w: there is no room for an entry of %d bytes", ErrBusy, need-prefixSize)
	}
	f.release()
	f.size = size
	return nil
}

// release returns the size of the buffer to the budget. The buffer is of no use then.
func (f *frames) release() {
	if f.size > bufSize {
		f.buffers.release(f.from, int64(f.size))
	}
	f.size = 0
}

// next returns the encoding of the next entry, which is valid until the next call.
// The error is [io.EOF] when the sender has gone between two entries, and wraps
// [format.ErrTruncated] when within one.
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

// eof returns err unless that is the sender's farewell.
func eof(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, format.ErrTruncated) {
		return nil
	}
	return err
}
