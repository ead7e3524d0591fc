package format

import (
	"errors"
	"io"
	"math"
	"os"
)

// goOn makes r go on at an offset of the file f with entry id, whatever it came to before. Only an
// ET does not grow.
func (r *Reader) goOn(f *os.File, off, id int64) {
	if r.format == ET {
		r.r = io.NewSectionReader(f, off, math.MaxInt64-off)
	} else {
		r.file = f
	}
	r.start, r.end, r.zeros = 0, 0, 0
	r.off, r.id = off, id-1
	r.err, r.rerr, r.eof = nil, nil, false
}

func (r *Reader) consume(n int) {
	r.start += n
	r.off += int64(n)
}

// fill reads until n bytes are buffered or the input ends; whatever it ends with
// is an end, so that what came before is whole. It allocates no more than twice
// what really came.
func (r *Reader) fill(n int) {
	if r.file != nil && !r.eof && r.end-r.start < n {
		r.fillAnew(n)
		return
	}
	for r.end-r.start < n && !r.eof {
		if r.end == len(r.buf) || r.live != nil && r.end == r.start {
			r.makeRoom(n)
		}
		if !r.eof {
			r.read()
		}
	}
}

// makeRoom makes room in buf, of whose bytes there are to be n.
func (r *Reader) makeRoom(n int) {
	size := len(r.buf)
	switch {
	case r.live != nil && r.start == r.end && size > 1<<20 && n <= readSize:
		size = readSize // after a large entry
	case r.live != nil && r.start == 0 && r.end == size:
		size = min(2*size, n+readSize)
	case r.live == nil && r.start <= size/2:
		size *= 2
	}
	if size == len(r.buf) {
		r.end = copy(r.buf, r.buf[r.start:r.end])
	} else {
		if r.live != nil {
			if r.rerr = r.live.Room(size, n); r.rerr != nil {
				r.eof = true
				return
			}
		}
		b := make([]byte, size)
		r.end = copy(b, r.buf[r.start:r.end])
		r.buf = b
	}
	r.start = 0
}

// fillAnew is fill of a file that may grow, if that has as much. It reads what is buffered again: a
// writer takes a part of an entry back that it could not finish.
func (r *Reader) fillAnew(n int) {
	fi, err := r.file.Stat()
	at := r.off + r.zeros
	if r.rerr = err; err != nil || fi.Size()-at < int64(n) {
		r.eof = true
		return
	}
	if n > len(r.buf) {
		r.buf = make([]byte, max(n, 2*len(r.buf)))
	}
	n, err = r.file.ReadAt(r.buf, at)
	r.start, r.end = 0, n
	if err != nil {
		r.ended(err)
	}
}

func (r *Reader) read() {
	for range 100 { // a source that returns nothing for ever is broken
		n, err := r.r.Read(r.buf[r.end:])
		r.end += n
		if err != nil {
			r.ended(err)
		}
		if n > 0 || err != nil {
			return
		}
	}
	r.ended(io.ErrNoProgress)
}

func (r *Reader) ended(err error) {
	r.eof = true
	if !errors.Is(err, io.EOF) {
		r.rerr = err
	}
}
