package format

import (
	"errors"
	"io"
	"math"
	"os"
)

// goOn makes r continue with the entry id, which begins at offset off of the file f. This also works after an
// error. All files except ETs may grow.
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

// fill reads until n bytes are buffered or the input ends. An error of the source counts as the end, so that the
// entries before the error are returned. fill allocates at most twice as many bytes as it has read.
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

// makeRoom makes room in buf for more bytes. n is the total number of bytes that fill needs.
func (r *Reader) makeRoom(n int) {
	size := len(r.buf)
	switch {
	case r.live != nil && r.start == r.end && size > 1<<20 && n <= readSize:
		size = readSize // after a large entry, buf shrinks again
	case r.live != nil && r.start == 0 && r.end == size:
		size = min(2*size, n+readSize)
	case r.live == nil && r.start <= size/2:
		size *= 2
	}
	if size == len(r.buf) {
		r.end = copy(r.buf, r.buf[r.start:r.end])
	} else {
		if r.live != nil {
			r.rerr = r.live.Room(size, n)
			if r.rerr != nil {
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

// fillAnew does the same as fill for a file that may grow. It reads only if the file has n bytes from the current
// position on. It also reads the buffered bytes again, because they can change: a writer that cannot finish an
// entry removes the part that it has written.
func (r *Reader) fillAnew(n int) {
	fi, err := r.file.Stat()
	at := r.off + r.zeros
	r.rerr = err
	if err != nil || fi.Size()-at < int64(n) {
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
	for range 100 { // a source that returns neither bytes nor an error 100 times is broken
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
