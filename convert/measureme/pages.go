package measureme

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"math"
	"sort"
)

// chunkEvents is how many events are allocated together.
const chunkEvents = 8192

// readSize is how much of a page is looked at together.
const readSize = 64 << 10

// A scanner takes the pages of a file apart into its three streams.
type scanner struct {
	ctx     context.Context
	r       *bufio.Reader
	off     int64 // of the next byte of r
	page    int64
	version uint32
	streams [numTags]stream
	damage  *Error // the first that did not end the file
	first   hash.Hash

	// Invariants: chunks hold chunkEvents each but for the last; the ids of all
	// records of the file, so that an index is the record's number.
	chunks [][]event
	count  int64
	starts []eventsAt

	data  stringData
	index []indexEntry
}

// A stream is what the pages of one tag hold together.
type stream struct {
	head    [headerSize]byte
	headLen int
	part    [eventSize]byte // a record that began in an earlier page
	partLen int
	partAt  int64
}

// An eventsAt says where in the file the records from number on lie.
type eventsAt struct {
	number int64
	offset int64
}

func newScanner(ctx context.Context, r io.Reader) *scanner {
	return &scanner{ctx: ctx, r: bufio.NewReaderSize(r, 4*readSize), data: stringData{keep: maxHead}}
}

// scan reads all pages, and returns what ends them early: an [*Error] unless
// reading or ctx failed.
func (s *scanner) scan() error {
	var head [headerSize]byte
	n, err := io.ReadFull(s.r, head[:])
	if string(head[:min(n, len(magicFile))]) != magicFile[:min(n, len(magicFile))] {
		return &Error{Page: None, Event: None, Err: ErrMagic}
	}
	if err != nil {
		return s.stop(err, int64(n))
	}
	s.off = headerSize
	s.version = binary.LittleEndian.Uint32(head[4:])
	if s.version != version && s.version != oldVersion {
		return &Error{Offset: 4, Page: None, Event: None, Err: &VersionError{Version: s.version}}
	}
	s.first = sha256.New()
	for ; ; s.page++ {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		b, err := s.r.Peek(pageHeaderSize)
		if len(b) == 0 && errors.Is(err, io.EOF) {
			return s.end()
		}
		if err != nil {
			return s.stop(err, s.off+int64(len(b)))
		}
		tag, size := b[0], binary.LittleEndian.Uint32(b[1:])
		switch {
		case size == 0 && tag == 0:
			if err := s.hole(); err != nil {
				return err
			}
			continue
		case tag >= numTags:
			return s.fail(s.off, ErrTag)
		case size == 0:
			return s.fail(s.off, ErrPageSize)
		}
		s.skip(pageHeaderSize)
		if err := s.payload(tag, int64(size)); err != nil {
			return err
		}
	}
}

func (s *scanner) skip(n int) {
	_, _ = s.r.Discard(n) // of what Peek has returned, which cannot fail
	s.off += int64(n)
}

func (s *scanner) fail(offset int64, err error) *Error {
	return &Error{Offset: offset, Page: s.page, Event: None, Err: err}
}

// stop is the error for input that ends, or cannot be read on, before offset.
func (s *scanner) stop(err error, offset int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return truncated(offset, s.page)
	}
	return err
}

// note keeps damage that does not end the file.
func (s *scanner) note(err *Error) {
	if s.damage == nil {
		s.damage = err
	}
}

// end checks what is there when the pages are over.
func (s *scanner) end() error {
	for i := range s.streams {
		if s.streams[i].headLen < headerSize {
			return truncated(s.off, s.page) // the writer died before it flushed it
		}
	}
	for i := range s.streams {
		if st := &s.streams[i]; st.partLen > 0 {
			return truncated(st.partAt, s.page)
		}
	}
	return nil
}

// hole passes over pages that were given a place and never written. They are
// pages of events, as only those have this size.
func (s *scanner) hole() error {
	at := s.off
	for {
		left := fullPageSize
		for left > 0 {
			b, err := s.r.Peek(min(left, readSize))
			for _, c := range b {
				if c != 0 {
					return s.fail(at, ErrPageSize)
				}
			}
			s.skip(len(b))
			left -= len(b)
			if left > 0 && err != nil {
				return s.stop(err, at)
			}
		}
		s.note(s.fail(at, ErrHole))
		b, _ := s.r.Peek(pageHeaderSize)
		for _, c := range b {
			if c != 0 {
				return nil
			}
		}
		if len(b) == 0 {
			return nil
		}
	}
}

// payload hands the payload of a page on.
func (s *scanner) payload(tag byte, left int64) error {
	begin := s.off
	seen := false // a record that begins in this page
	for left > 0 {
		b, err := s.r.Peek(int(min(left, readSize)))
		if s.page == 0 {
			s.first.Write(b)
		}
		if len(b) > 0 {
			if err := s.take(tag, b, &seen); err != nil {
				return err
			}
			s.skip(len(b))
			left -= int64(len(b))
		}
		if err != nil && left > 0 {
			return s.stop(err, begin)
		}
		if err := s.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// take gives b, which lies at s.off, to a stream.
func (s *scanner) take(tag byte, b []byte, seen *bool) error {
	st := &s.streams[tag]
	at := s.off
	if st.headLen < headerSize {
		n := copy(st.head[st.headLen:], b)
		st.headLen += n
		b, at = b[n:], at+int64(n)
		if st.headLen < headerSize {
			return nil
		}
		if string(st.head[:4]) != streamMagics[tag] {
			return s.fail(s.off, ErrMagic)
		}
		if v := binary.LittleEndian.Uint32(st.head[4:]); v != s.version {
			return s.fail(s.off, &VersionError{Version: v, Want: s.version})
		}
	}
	switch tag {
	case tagStrings:
		return s.data.write(b)
	case tagIndex:
		width := indexSize
		if s.version == oldVersion {
			width = indexSizeV8
		}
		return st.records(b, at, width, func(b []byte, _ int64) error {
			s.addIndex(b)
			return nil
		})
	}
	width := eventSize
	if s.version == oldVersion {
		width = eventSizeV8
	}
	return st.records(b, at, width, func(b []byte, at int64) error {
		if s.count >= math.MaxInt32 {
			return s.fail(at, ErrTooMany)
		}
		if !*seen && at >= s.off {
			*seen = true
			s.starts = append(s.starts, eventsAt{s.count, at})
		}
		if s.count%chunkEvents == 0 {
			// A small file does not pay for a whole chunk.
			s.chunks = append(s.chunks, make([]event, 0, min(chunkEvents, max(16, len(b)/width))))
		}
		last := &s.chunks[len(s.chunks)-1]
		*last = append(*last, event{})
		(*last)[len(*last)-1].parse(b, s.version)
		s.count++
		return nil
	})
}

// records calls fn for each record of so many bytes, with where it begins.
func (st *stream) records(b []byte, at int64, width int, fn func(b []byte, at int64) error) error {
	for len(b) > 0 {
		if st.partLen > 0 || len(b) < width {
			if st.partLen == 0 {
				st.partAt = at
			}
			n := copy(st.part[st.partLen:width], b)
			st.partLen += n
			b, at = b[n:], at+int64(n)
			if st.partLen < width {
				return nil
			}
			st.partLen = 0
			if err := fn(st.part[:width], st.partAt); err != nil {
				return err
			}
			continue
		}
		if err := fn(b, at); err != nil {
			return err
		}
		b, at = b[width:], at+int64(width)
	}
	return nil
}

// event returns the record of that number.
func (s *scanner) event(i int64) *event { return &s.chunks[i/chunkEvents][i%chunkEvents] }

// offset returns where in the file record i begins, or began the one before it
// in the same page if that is all that is known.
func (s *scanner) offset(i int64) int64 {
	n := sort.Search(len(s.starts), func(n int) bool { return s.starts[n].number > i })
	if n == 0 {
		return 0
	}
	width := int64(eventSize)
	if s.version == oldVersion {
		width = eventSizeV8
	}
	return s.starts[n-1].offset + (i-s.starts[n-1].number)*width
}

func (s *scanner) eventError(i int64, err error) *Error {
	return &Error{Offset: s.offset(i), Page: None, Event: i, Err: err}
}
