package format

import (
	"errors"
	"io"
	"math"
	"os"

	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// ReaderOptions are limits for input that may be hostile.
type ReaderOptions struct {
	// MaxEntrySize is the limit for the size of an entry, in bytes. A larger entry
	// counts as damage. The default is [DefaultMaxEntrySize], 64 MiB.
	MaxEntrySize int
}

func (o *ReaderOptions) maxEntrySize() int {
	if o == nil || o.MaxEntrySize <= 0 {
		return DefaultMaxEntrySize
	}
	return min(o.MaxEntrySize, math.MaxInt32)
}

// A Reader reads the entries of a trace in order. It reads any version and storage format from any io.Reader, for
// example a pipe. It needs memory for the largest entry, and for an ET eight bytes for each entry.
//
// A Reader is not safe for concurrent use.
type Reader struct {
	r       io.Reader
	live    entrybytes.Connection // r, if r is a Connection
	file    *os.File              // if not nil, the file to read instead of r; it may grow
	version Version
	format  StorageFormat

	// Invariants: 0 <= start <= end <= len(buf). buf[start] is at offset off+zeros of the file. The bytes of the
	// file from off to off+zeros are zeros that were read, and are not in buf.
	buf        []byte
	start, end int
	off        int64
	zeros      int64
	zerosTo    int64 // if file is not nil: from the end of an entry to this offset, the file had only zeros
	eof        bool  // the source has ended
	rerr       error // the error that ended the source; nil for io.EOF

	d       decoder
	entry   TraceEntry
	raw     []byte
	lent    []byte // the encoding of the entry that Next returned, if it is in buf
	id      int64  // the id of the last entry
	err     error
	offsets []uint64 // for an ET: the offsets of its entries
	data    int64    // the offset of an ET's data section
}

const readSize = 64 << 10

// NewReader returns a Reader of the trace in r. It reads the magic, and for an ET also the offsets and the pool. A
// nil o means defaults. The errors are the errors of [ReadMagic] and of r.
func NewReader(r io.Reader, o *ReaderOptions) (*Reader, error) { return newReader(r, o, readSize) }

// newReader does the same as NewReader, with a buffer of size bytes.
func newReader(r io.Reader, o *ReaderOptions, size int) (*Reader, error) {
	rd := &Reader{r: r, id: -1, buf: make([]byte, size)}
	rd.live, _ = r.(entrybytes.Connection)
	rd.fill(wire.MagicSize)
	v, f, err := parseMagic(rd.buf[rd.start:rd.end])
	if err != nil {
		return nil, rd.cause(err)
	}
	rd.version, rd.format = v, f
	rd.d = decoder{version: v, maxSize: o.maxEntrySize()}
	rd.consume(wire.MagicSize)
	if f == ET {
		if err := rd.header(); err != nil {
			return nil, rd.cause(err)
		}
	}
	return rd, nil
}

// Version returns the disk version of the trace.
func (r *Reader) Version() Version { return r.version }

// Format returns the storage format of the trace.
func (r *Reader) Format() StorageFormat { return r.format }

// ID returns the id of the entry that Next returned last, or -1 before the first call of Next.
func (r *Reader) ID() int64 { return r.id }

// Offset returns the offset of the end of the entry that Next returned last. All entries before it are complete.
func (r *Reader) Offset() int64 { return r.off }

// Raw returns the encoding of the entry that Next returned last, without the length
// before the entry. The slice is valid until the next call of Next.
func (r *Reader) Raw() []byte { return r.raw }

// Next returns the next entry, which is valid until the next call. The error is [io.EOF] at the end of a complete
// trace, a [*TruncatedError] if the input stops within an entry, a [*CorruptError] for other damage, or the error of
// the source. After an error, every further call returns the same error.
func (r *Reader) Next() (*TraceEntry, error) {
	if r.err != nil {
		return nil, r.err
	}
	entrybytes.Spoil(r.lent)
	r.lent = nil
	if err := r.next(); err != nil {
		r.err, r.raw = r.cause(err), nil
		return nil, r.err
	}
	r.id++
	return &r.entry, nil
}

// cause returns the error of the source if it ended the input, otherwise err.
func (r *Reader) cause(err error) error {
	if r.rerr != nil && (errors.Is(err, io.EOF) || errors.Is(err, ErrTruncated)) {
		return r.rerr
	}
	return err
}

func (r *Reader) next() error {
	id := r.id + 1
	if id > math.MaxUint32 {
		return &CorruptError{Offset: r.off, Entry: id, Err: ErrFull}
	}
	switch {
	case r.zeros > 0:
		return r.zeroEntry()
	case r.format == ET:
		if id == int64(len(r.offsets)) {
			return r.atEnd(id)
		}
		if at := r.off - r.data; at != int64(r.offsets[id]) {
			return &CorruptError{Offset: r.off, Entry: id, Field: "offsets", Err: errBadOffset}
		}
	}
	n, err := r.decode(id)
	if err != nil {
		return err
	}
	if r.format == IET && n == r.version.minEntrySize() && wire.IsZero(r.raw) {
		return r.zeroRun(id)
	}
	r.lent = r.raw
	r.consume(n)
	return nil
}

// decode decodes the entry at buf[start], and returns its size. It reads more bytes if it needs them.
func (r *Reader) decode(id int64) (int, error) {
	prefixed := r.format == IETPrefix
	for {
		b := r.buf[r.start:r.end]
		raw, n, err := r.d.next(b, r.off, id, prefixed, &r.entry)
		if n > 0 {
			r.raw = raw
			return n, nil
		}
		if err != nil {
			if prefixed && r.live == nil && prefix(b) == 0 {
				at := r.off
				r.onlyZeros()
				if r.end == r.start {
					err = &TruncatedError{Offset: at, Entry: id, ZeroTail: true}
				}
				r.off = at // the zeros are not part of a complete entry
			}
			return 0, err
		}
		r.fill(r.d.need)
		if r.end-r.start < r.d.need {
			if r.end-r.start > len(b) {
				continue // still too few bytes, but decoding them makes the error name the missing part
			}
			return 0, r.tail()
		}
	}
}

// skim skips entries in the buffer, and calls found with the parent of each entry. It stops before an entry that is
// not completely in the buffer or may be damaged. The caller reads such an entry with Next.
func (r *Reader) skim(found func(parent uint32)) {
	if r.format == ET || r.zeros > 0 || r.err != nil {
		return
	}
	for id := r.id + 1; id <= math.MaxUint32; id++ {
		b := r.buf[r.start:r.end]
		gap := 0
		if r.format == IETPrefix {
			if len(b) < prefixSize {
				return
			}
			n := prefix(b)
			gap = prefixSize
			if n > uint64(len(b)-gap) {
				return
			}
			b = b[gap : gap+int(n)]
		}
		parent, n, ok := wire.SkipEntry(b, r.version.hasColumns())
		switch {
		case !ok, n > r.d.maxSize, parent != 0 && int64(parent) >= id, gap > 0 && n < len(b):
			return
		case n == r.version.minEntrySize() && wire.IsZero(b[:n]): // a crash may have caused the zeros
			return
		}
		r.id = id
		r.consume(gap + n)
		found(parent)
	}
}

// tail returns the error for input that ends within the entry that r.d has decoded in part.
func (r *Reader) tail() error {
	rest := r.buf[r.start:r.end]
	if len(rest) == 0 && r.format != ET {
		return io.EOF
	}
	err := r.d.Err()
	if t, ok := errors.AsType[*TruncatedError](err); ok && r.format != ET && wire.IsZero(rest) {
		t.ZeroTail, t.Field, t.length = true, "", nil
	}
	return err
}

// atEnd returns io.EOF if an ET ends after its last entry, otherwise an error.
func (r *Reader) atEnd(id int64) error {
	r.fill(1)
	if r.end > r.start {
		return &CorruptError{Offset: r.off, Entry: id - 1, Err: errTrailingBytes}
	}
	return io.EOF
}

// zeroRun handles an entry of zero bytes. If the rest of the input is also zero, the zeros are the result of a crash,
// and the error is a TruncatedError. Otherwise zeroRun makes the entry from the zeros.
func (r *Reader) zeroRun(id int64) error {
	at := r.off
	n := r.onlyZeros()
	r.off = at
	if r.end == r.start {
		return &TruncatedError{Offset: at, Entry: id, ZeroTail: true}
	}
	r.zeros = n
	return r.zeroEntry()
}

// onlyZeros consumes zero bytes, up to the first other byte or the end of the input, and returns their number.
func (r *Reader) onlyZeros() (n int64) {
	for {
		for r.start < r.end && r.buf[r.start] == 0 {
			r.consume(1)
			n++
		}
		if r.start < r.end {
			return n
		}
		if skip := r.zerosTo - r.off; skip > 0 {
			r.off += skip
			n += skip
		}
		r.fill(1)
		if r.start == r.end {
			if r.file != nil {
				r.zerosTo = r.off
			}
			return n
		}
	}
}

var zeroBytes [10]byte

// zeroEntry makes the next entry from zeros that onlyZeros consumed.
func (r *Reader) zeroEntry() error {
	size := r.version.minEntrySize()
	if r.zeros < int64(size) {
		r.unread(int(r.zeros))
		r.zeros = 0
		return r.next()
	}
	r.raw = zeroBytes[:size]
	r.entry = TraceEntry{Attributes: r.entry.Attributes[:0]}
	r.zeros -= int64(size)
	r.off += int64(size)
	return nil
}

// unread inserts n zero bytes before buf[start]. n is smaller than the size of an entry.
func (r *Reader) unread(n int) {
	if r.start < n {
		b := make([]byte, max(len(r.buf), r.end-r.start+n))
		copy(b[n:], r.buf[r.start:r.end])
		r.end += n - r.start
		r.buf, r.start = b, n
	}
	clear(r.buf[r.start-n : r.start])
	r.start -= n
}

// header reads the offsets and the pool of an ET.
func (r *Reader) header() error {
	n, err := r.number("offsets", 64)
	if err != nil {
		return err
	}
	for i := range n {
		at := r.off
		o, err := r.number("offsets", 64)
		if err != nil {
			return err
		}
		if i == 0 && o != 0 || i > 0 && o <= r.offsets[i-1] {
			return &CorruptError{Offset: at, Entry: int64(i), Field: "offsets", Err: errBadOffset}
		}
		r.offsets = append(r.offsets, o)
	}
	at := r.off
	pools, err := r.number("pool", 64)
	if err != nil {
		return err
	}
	if pools != n {
		return &CorruptError{Offset: at, Entry: noEntry, Field: "pool", Err: errBadPool}
	}
	for i := range pools {
		kids, err := r.number("pool", 64)
		if err != nil {
			return err
		}
		for range kids {
			at := r.off
			id, err := r.number("pool", 32)
			if err != nil {
				return err
			}
			if id <= i || id >= n {
				return &CorruptError{Offset: at, Entry: int64(i), Field: "pool", Err: errBadPool}
			}
		}
	}
	r.data = r.off
	return nil
}

func (r *Reader) number(field string, bits int) (uint64, error) {
	if r.end-r.start < 9 {
		r.fill(9)
	}
	r.d.reset(r.buf[r.start:r.end], r.off, noEntry)
	n := r.d.Uint(field, bits)
	if err := r.d.Err(); err != nil {
		return 0, err
	}
	r.consume(r.d.off)
	return n, nil
}
