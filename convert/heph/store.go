package heph

import (
	"bufio"
	"errors"
	"io"

	"github.com/entrace-go/entrace/internal/osfile"
)

const (
	memorySize = 16 << 20 // as much of the input is kept in memory
	pageSize   = 64 << 10
	numPages   = 128
)

// A store lets an input be read a second time, at any place: from the input itself
// if that can be done, else from a temporary file of what does not go into memory.
type store struct {
	r      io.Reader
	memory []byte
	size   int64

	at   io.ReaderAt // has what is behind memory, or all of it
	base int64       // where the input begins in at
	temp *osfile.Spool
	w    *bufio.Writer

	pages   [numPages]page
	scratch []byte
}

var errBadRead = errors.New("the input returned an impossible count from Read")

// A page is a part of the input that was read again.
type page struct {
	number int64 // from 1 on
	bytes  []byte
}

func newStore(r io.Reader) *store {
	s := &store{r: r}
	at, ok := r.(io.ReaderAt)
	seeker, seeks := r.(io.Seeker)
	if ok && seeks {
		if base, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			s.at, s.base = at, base
		}
	}
	return s
}

// Read reads the input for the first time.
func (s *store) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if n < 0 || n > len(b) {
		return 0, errBadRead
	}
	b = b[:n]
	kept := min(memorySize-len(s.memory), n)
	s.memory = append(s.memory, b[:kept]...)
	b = b[kept:]
	s.size += int64(kept)
	if len(b) == 0 || s.at != nil && s.temp == nil {
		s.size += int64(len(b))
		return n, err
	}
	// What could not be read again does not count as read.
	if s.temp == nil {
		temp, terr := osfile.CreateSpool("")
		if terr != nil {
			return kept, terr
		}
		s.temp, s.at, s.base = temp, temp, -memorySize
		s.w = bufio.NewWriterSize(temp, readSize)
	}
	if _, werr := s.w.Write(b); werr != nil {
		return kept, werr
	}
	s.size += int64(len(b))
	return n, err
}

// rewind ends the first reading.
func (s *store) rewind() error {
	if s.w == nil {
		return nil
	}
	return s.w.Flush()
}

// view returns n bytes of the input at off, which were read before. They are valid
// until the next call.
func (s *store) view(off int64, n int) ([]byte, error) {
	if off+int64(n) <= int64(len(s.memory)) {
		return s.memory[off : off+int64(n)], nil
	}
	if off < int64(len(s.memory)) {
		return s.collect(off, n)
	}
	if number := off / pageSize; (off+int64(n)-1)/pageSize == number {
		p, err := s.page(number)
		if err != nil {
			return nil, err
		}
		from := int(off - number*pageSize)
		if from+n > len(p) {
			return nil, io.ErrUnexpectedEOF // it shrank
		}
		return p[from : from+n], nil
	}
	return s.collect(off, n)
}

// collect reads what lies in no single place.
func (s *store) collect(off int64, n int) ([]byte, error) {
	if cap(s.scratch) < n {
		s.scratch = make([]byte, n)
	}
	b := s.scratch[:n]
	k := 0
	if off < int64(len(s.memory)) {
		k = copy(b, s.memory[off:])
	}
	if _, err := s.at.ReadAt(b[k:], s.base+off+int64(k)); err != nil {
		return nil, unexpected(err)
	}
	return b, nil
}

// page returns a page that lies behind memory, from which pages are a multiple.
func (s *store) page(number int64) ([]byte, error) {
	p := &s.pages[number%numPages]
	if p.number == number+1 {
		return p.bytes, nil
	}
	if p.bytes == nil {
		p.bytes = make([]byte, pageSize)
	}
	off := number * pageSize
	p.number, p.bytes = 0, p.bytes[:min(pageSize, s.size-off)]
	if _, err := s.at.ReadAt(p.bytes, s.base+off); err != nil {
		p.bytes = nil
		return nil, unexpected(err)
	}
	p.number = number + 1
	return p.bytes, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// close removes the temporary file.
func (s *store) close() error {
	if s.temp == nil {
		return nil
	}
	return s.temp.Close()
}
