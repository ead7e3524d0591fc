package measureme

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/chunked"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/input"
)

// someEvents is the number of events that are read between two checks of the context.
const someEvents = 8192

// A scanner reads the pages of a file and separates the three streams.
type scanner struct {
	ctx      context.Context
	b        []byte // the whole file
	progress func(done int64)
	off      int // offset of the next byte
	page     int64
	version  uint32
	streams  [numTags]stream
	damage   *input.Error // the first damage after which scanning continued
	first    [sha256.Size]byte

	events chunked.List[event] // by number
	starts []eventsAt

	data  stringData
	index []indexEntry
}

// A stream is the content of all pages of one tag.
type stream struct {
	head    [headerSize]byte
	headLen int
	part    [eventSize]byte // the beginning of a record that continues in the next page
	partLen int
	partAt  int
}

// An eventsAt has the file offset and the number of the first record that begins in a page.
type eventsAt struct {
	number int64
	offset int
}

// scan reads all pages. The error is an [*input.Error] if the pages end early, or the error of ctx.
func (s *scanner) scan() error {
	n := min(len(s.b), len(magicFile))
	if string(s.b[:n]) != magicFile[:n] {
		return &input.Error{Err: errMagic}
	}
	if len(s.b) < headerSize {
		return s.truncated(len(s.b))
	}
	s.off = headerSize
	v := binary.LittleEndian.Uint32(s.b[4:])
	if v != version && v != oldVersion {
		return &input.Error{Offset: 4, Err: fmt.Errorf("unsupported version %d, expected %d or %d", v, oldVersion, version)}
	}
	s.version = v
	for ; s.off < len(s.b); s.page++ {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		s.progress(int64(s.off))
		if len(s.b)-s.off < pageHeaderSize {
			return s.truncated(len(s.b))
		}
		tag, size := s.b[s.off], binary.LittleEndian.Uint32(s.b[s.off+1:])
		switch {
		case size == 0 && tag == 0:
			if err := s.hole(); err != nil {
				return err
			}
			continue
		case tag >= numTags:
			return s.fail(s.off, errTag)
		case size == 0:
			return s.fail(s.off, errPageSize)
		}
		s.off += pageHeaderSize
		payload := s.b[s.off:][:min(int64(size), int64(len(s.b)-s.off))]
		if s.page == 0 {
			s.first = sha256.Sum256(payload)
		}
		if err := s.addPage(tag, payload); err != nil {
			return err
		}
		if len(payload) < int(size) {
			return s.truncated(s.off)
		}
		s.off += len(payload)
	}
	return s.end()
}

func (s *scanner) fail(offset int, err error) *input.Error {
	return &input.Error{Offset: int64(offset), Unit: input.Unit("page", s.page), Err: err}
}

// truncated returns the error for a file that ends too early at offset.
func (s *scanner) truncated(offset int) *input.Error { return s.fail(offset, format.ErrTruncated) }

// setDamage stores err if it is the first damage after which scanning continues.
func (s *scanner) setDamage(err *input.Error) {
	if s.damage == nil {
		s.damage = err
	}
}

// end checks the streams when all pages were read.
func (s *scanner) end() error {
	for i := range s.streams {
		if s.streams[i].headLen < headerSize {
			return s.truncated(s.off) // the writer died before it wrote the stream
		}
	}
	for i := range s.streams {
		if st := &s.streams[i]; st.partLen > 0 {
			return s.truncated(st.partAt)
		}
	}
	return nil
}

// hole skips pages that were reserved but never written. They must be pages of events, because only pages of events
// have this size.
func (s *scanner) hole() error {
	at := s.off
	for s.off < len(s.b) && wire.IsZero(s.b[s.off:][:min(pageHeaderSize, len(s.b)-s.off)]) {
		page := s.b[s.off:][:min(fullPageSize, len(s.b)-s.off)]
		switch {
		case !wire.IsZero(page):
			return s.fail(at, errPageSize)
		case len(page) < fullPageSize:
			return s.truncated(at)
		}
		s.setDamage(s.fail(at, errHole))
		s.off += fullPageSize
	}
	return nil
}

// addPage appends b to a stream. b is the payload of a page, at the offset s.off.
func (s *scanner) addPage(tag byte, b []byte) error {
	st := &s.streams[tag]
	at := s.off
	if st.headLen < headerSize {
		n := copy(st.head[st.headLen:], b)
		st.headLen += n
		b, at = b[n:], at+n
		if st.headLen < headerSize {
			return nil
		}
		if string(st.head[:4]) != streamMagics[tag] {
			return s.fail(s.off, errMagic)
		}
		if v := binary.LittleEndian.Uint32(st.head[4:]); v != s.version {
			return s.fail(s.off, fmt.Errorf("the stream has version %d, but the file has version %d", v, s.version))
		}
	}
	switch tag {
	case tagStrings:
		s.data.add(b)
		return nil
	case tagIndex:
		return st.records(b, at, s.size(indexSize, indexSizeV8), func(b []byte, _ int) error {
			s.addIndex(b)
			return nil
		})
	}
	seen := false // a record that begins in this page was found
	return st.records(b, at, s.size(eventSize, eventSizeV8), func(b []byte, at int) error {
		n := int64(s.events.Len())
		if n >= math.MaxInt32 {
			return s.fail(at, errTooMany)
		}
		if !seen && at >= s.off {
			seen = true
			s.starts = append(s.starts, eventsAt{n, at})
		}
		if n%someEvents == 0 && s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		s.events.Add(event{}).parse(b, s.version)
		return nil
	})
}

// size returns now, or before if the file has the old version.
func (s *scanner) size(now, before int) int {
	if s.version == oldVersion {
		return before
	}
	return now
}

// records calls fn for each record of width bytes, with the offset of the record. A record may begin in an earlier
// page.
func (st *stream) records(b []byte, at, width int, fn func(b []byte, at int) error) error {
	for len(b) > 0 {
		if st.partLen > 0 || len(b) < width {
			if st.partLen == 0 {
				st.partAt = at
			}
			n := copy(st.part[st.partLen:width], b)
			st.partLen += n
			b, at = b[n:], at+n
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
		b, at = b[width:], at+width
	}
	return nil
}

// event returns record i.
func (s *scanner) event(i int64) *event { return s.events.At(int(i)) }

// offset returns the file offset of record i. It follows from the offset of the first record that begins in the same
// page.
func (s *scanner) offset(i int64) int64 {
	n := sort.Search(len(s.starts), func(n int) bool { return s.starts[n].number > i })
	if n == 0 {
		return 0
	}
	return int64(s.starts[n-1].offset) + (i-s.starts[n-1].number)*int64(s.size(eventSize, eventSizeV8))
}

func (s *scanner) eventError(i int64, err error) *input.Error {
	return &input.Error{Offset: s.offset(i), Unit: input.Unit("event", i), Err: err}
}
