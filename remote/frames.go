package remote

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"time"

	"github.com/entrace-go/entrace/format"
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

// frames reads the entries of a connection and vouches for them.
type frames struct {
	conn    *timed
	limit   int
	frame   time.Duration
	idle    time.Duration
	version format.Version

	buffers *budget      // that buf counts for if it is larger than bufSize
	from    netip.Prefix // the sender

	// Invariants: 0 <= start <= end <= len(buf); buf[start] lies at off among
	// what was sent.
	buf        []byte
	size       int // of the current frame, including its length
	start, end int
	off        int64
	id         int64 // of the next entry
	entry      format.TraceEntry
}

const (
	bufSize = 64 << 10
	// renewed is how much of an entry gets the time of a frame anew.
	renewed = 1 << 20
)

// greet reads what comes before the first entry: the token, if there is to be
// one, and the magic. It reads no more than ten bytes of what is not that.
func (f *frames) greet(token string) error {
	var room [format.MagicSize]byte
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
	for n := range room {
		if err := f.full(room[n : n+1]); err != nil {
			return fmt.Errorf("magic: %w", err)
		}
		if _, _, err := format.ParseMagic(room[:n+1]); err != nil && !errors.Is(err, format.ErrTruncated) {
			return strange(room[0], err)
		}
	}
	v, storage, err := format.ParseMagic(room[:])
	if err != nil {
		return err
	}
	if storage != format.IETPrefix {
		return fmt.Errorf("the stream is %v, want ietprefix", storage)
	}
	f.version, f.buf = v, make([]byte, bufSize)
	return nil
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
	f.off += int64(n)
	return err
}

// ready reports whether there is something without waiting for it.
func (f *frames) ready() bool {
	have := f.end - f.start
	if have < prefixSize {
		return false
	}
	return uint64(have-prefixSize) >= binary.LittleEndian.Uint64(f.buf[f.start:])
}

// next returns the encoding of the next entry, which is valid until the next call.
// The error is [io.EOF] when the sender has gone between two entries, and wraps
// [format.ErrTruncated] when within one.
func (f *frames) next() ([]byte, error) {
	if f.end == f.start {
		f.conn.until(f.idle)
		if err := f.fill(1); err != nil {
			if isTimeout(err) && f.idle > 0 {
				err = fmt.Errorf("nothing came for %v: %w", f.idle, err)
			}
			return nil, err
		}
	}
	if f.end-f.start < prefixSize {
		f.conn.until(f.frame)
		if err := f.fill(prefixSize); err != nil {
			return nil, f.cut(err)
		}
	}
	if f.id > math.MaxUint32 {
		return nil, f.bad("", format.ErrFull)
	}
	n := binary.LittleEndian.Uint64(f.buf[f.start:])
	if n == 0 || n > uint64(f.limit) {
		return nil, f.bad("length", &format.LengthError{Claimed: n, Remaining: uint64(f.limit)})
	}
	size := prefixSize + int(n)
	f.size = size
	for f.end-f.start < size {
		f.conn.until(f.frame)
		if err := f.fill(min(size, f.end-f.start+renewed)); err != nil {
			return nil, f.cut(err)
		}
	}
	raw := f.buf[f.start+prefixSize : f.start+size]
	used, err := format.DecodeTraceEntry(raw, f.version, &f.entry)
	switch {
	case err != nil:
		return nil, f.bad("", err)
	case used < len(raw):
		return nil, f.bad("", format.ErrTrailingBytes)
	case int64(f.entry.Parent) >= max(f.id, 1):
		return nil, f.bad("parent", format.ErrBadParent)
	}
	f.start += size
	f.off += int64(size)
	f.id++
	return raw, nil
}

// bad says what is wrong with the frame at start.
func (f *frames) bad(field string, err error) error {
	if c, ok := errors.AsType[*format.CorruptError](err); ok {
		field, err = c.Field, c.Err
	}
	if t, ok := errors.AsType[*format.TruncatedError](err); ok { // by its length, so the input goes on
		field, err = t.Field, errShort
	}
	return fmt.Errorf("%w: %w", ErrFrame, &format.CorruptError{Offset: f.off, Entry: f.id, Field: field, Err: err})
}

var errShort = errors.New("the entry is longer than its length says")

// cut says that the input stops within the frame at start.
func (f *frames) cut(err error) error {
	t := &format.TruncatedError{Offset: f.off, Entry: f.id}
	if errors.Is(err, io.EOF) {
		return t
	}
	return fmt.Errorf("%w: %w", t, err)
}

// eof returns err unless that is the sender's farewell.
func eof(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, format.ErrTruncated) {
		return nil
	}
	return err
}

// grow replaces the full buffer by one of twice its size, or of the size of the frame if
// that is smaller.
func (f *frames) grow() error {
	n := min(2*len(f.buf), f.size+bufSize)
	if !f.buffers.reserve(f.from, int64(n)) {
		return fmt.Errorf("%w: there is no room for an entry of %d bytes", ErrBusy, f.size-prefixSize)
	}
	b := make([]byte, n)
	f.end = copy(b, f.buf[:f.end])
	f.release()
	f.buf = b
	return nil
}

// release drops the buffer and returns its size to the budget.
func (f *frames) release() {
	if n := len(f.buf); n > bufSize {
		f.buffers.release(f.from, int64(n))
	}
	f.buf = nil
}

// fill reads until there are n bytes. It allocates no more than twice what came.
func (f *frames) fill(n int) error {
	for f.end-f.start < n {
		switch {
		case f.end == f.start:
			f.start, f.end = 0, 0
			if len(f.buf) > renewed && n <= bufSize { // after a large entry
				f.release()
				f.buf = make([]byte, bufSize)
			}
		case f.end < len(f.buf):
		case f.start > 0:
			f.end = copy(f.buf, f.buf[f.start:f.end])
			f.start = 0
		default:
			if err := f.grow(); err != nil {
				return err
			}
		}
		k, err := f.conn.Read(f.buf[f.end:])
		f.end += k
		if err != nil && f.end-f.start < n {
			return err
		}
	}
	return nil
}
