package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

const (
	// maxUncompressed is how large a page or a dictionary may be. Writers end a page
	// at a megabyte or so; ours have one entry more than rowGroupBytes at most.
	maxUncompressed = 128 << 20
	// maxResident is how large the pages and dictionaries of all columns may be that
	// are in memory at once.
	maxResident = 256 << 20
)

// The kinds of pages, and the encodings that are read. The numbers are Parquet's.
const (
	pageData       = 0
	pageIndex      = 1
	pageDictionary = 2
	pageDataV2     = 3

	encodingPlain     = 0
	encodingPlainDict = 2
	encodingRLE       = 3
	encodingRLEDict   = 8
)

// A leaf reads the values of a column in the order of rows.
//
// Its methods return what lies in the page and is valid until a later row is read.
type leaf struct {
	leafSchema

	r        io.ReaderAt
	column   string
	codec    int64
	off, end int64 // of what is left of the chunk
	page     int64 // offset of the page
	resident *int64

	left   int64 // values of the chunk that are in no page yet
	inPage int64 // values of the page that are not read
	reps   hybrid
	defs   hybrid
	rep    int // of the value that next took
	def    int

	// The values of the page: one behind the other in data, or numbers of items of
	// the dictionary, or bits.
	data    []byte
	bit     uint
	indexed bool
	indices hybrid
	runs    bool  // bits are in indices
	deltas  int64 // the encoding of differences that data is in, 0 for none
	prefix  delta // numbers of DELTA_BYTE_ARRAY
	lengths delta // whole numbers, or how long the bytes in data are
	last    []byte
	step    int // how far the bytes of a number are from each other
	number  [8]byte
	dict    dictionary

	packed, unpacked []byte   // buffers
	taken            [3]int64 // by values, dictionary, packed
}

// A dictionary is the values that a chunk names by number: in data the items that
// begin at offs, or of a fixed size.
type dictionary struct {
	data []byte
	offs []uint32
	n    int
}

// open begins with a chunk.
func (l *leaf) open(r io.ReaderAt, c *chunk) {
	l.r, l.codec, l.off, l.end, l.left, l.inPage = r, c.codec, c.off, c.end, c.numValues, 0
	l.page = c.off
	l.dict, l.data, l.indexed = dictionary{}, nil, false
	l.take(0, 0)
	l.take(1, 0)
}

// take counts what a page (0), a dictionary (1) or what is read of the file (2)
// takes of memory.
func (l *leaf) take(what int, size int64) bool {
	*l.resident += size - l.taken[what]
	l.taken[what] = size
	return *l.resident <= maxResident
}

// next goes to the next value, and reports false at the end of the chunk.
func (l *leaf) next() (bool, error) {
	for l.inPage == 0 {
		if l.left == 0 {
			return false, nil
		}
		if err := l.load(); err != nil {
			return false, err
		}
	}
	l.inPage--
	l.rep, l.def = 0, 0
	ok := true
	if l.maxRep > 0 {
		l.rep, ok = l.level(&l.reps, l.maxRep)
	}
	if l.maxDef > 0 && ok {
		l.def, ok = l.level(&l.defs, l.maxDef)
	}
	if !ok {
		return false, problem(ErrCorrupt, "the levels are damaged")
	}
	return true, nil
}

func (l *leaf) level(h *hybrid, most int) (int, bool) {
	n, ok := h.next()
	return int(n), ok && int64(n) <= int64(most)
}

// isNull reports whether the value has nothing to read.
func (l *leaf) isNull() bool { return l.def < l.maxDef }

// load reads pages up to one with values.
func (l *leaf) load() error {
	for {
		h, body, err := l.header()
		if err != nil {
			return err
		}
		switch h.kind {
		case pageIndex:
			continue
		case pageDictionary:
			if err := l.dictionary(h, body); err != nil {
				return err
			}
			continue
		case pageData, pageDataV2:
			return l.values(h, body)
		}
		return problem(ErrUnsupported, fmt.Sprint("page of type ", h.kind))
	}
}

const tooLarge = "the pages are too large to have one of each column in memory"

// headerSize is how much of a page is read to find its header; most are smaller.
const headerSize = 512

// header reads the header of the next page, and the page, which is in a buffer.
func (l *leaf) header() (*pageHeader, []byte, error) {
	l.page = l.off
	var h pageHeader
	for size := int64(headerSize); ; size *= 8 {
		size = min(size, l.end-l.off)
		if size == 0 {
			return nil, nil, problem(ErrCorrupt, "the values end early")
		}
		b, err := l.read(size)
		if err != nil {
			return nil, nil, err
		}
		t := thrift{b: b}
		h = readPageHeader(&t)
		if !t.failed {
			l.off += int64(t.off)
			break
		}
		if !t.short || size == l.end-l.off {
			return nil, nil, problem(ErrCorrupt, "the header of a page is damaged")
		}
	}
	if h.compressed > l.end-l.off || h.uncompressed > maxUncompressed {
		return nil, nil, problem(ErrCorrupt, "a page is too large")
	}
	if !l.take(2, max(h.compressed, int64(cap(l.packed)))) {
		return nil, nil, problem(ErrUnsupported, tooLarge)
	}
	body, err := l.read(h.compressed)
	if err != nil {
		return nil, nil, err
	}
	if h.hasCRC && crc32.ChecksumIEEE(body) != h.crc {
		return nil, nil, problem(ErrCorrupt, "the checksum of a page is wrong")
	}
	l.off += h.compressed
	return &h, body, nil
}

// read reads bytes of the chunk, of which there are enough.
func (l *leaf) read(n int64) ([]byte, error) {
	if int64(cap(l.packed)) < n {
		l.packed = make([]byte, n)
	}
	b := l.packed[:n]
	if m, err := l.r.ReadAt(b, l.off); int64(m) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b, nil
}

// unpack decompresses a page into memory that outlives the row, as a row of a map
// may go over several pages.
func (l *leaf) unpack(what int, b []byte, size int64) ([]byte, error) {
	if !l.take(what, size) {
		return nil, problem(ErrUnsupported, tooLarge)
	}
	if what == 1 || l.maxRep > 0 {
		return decompress(l.codec, nil, b, int(size))
	}
	out, err := decompress(l.codec, l.unpacked, b, int(size))
	if err == nil {
		l.unpacked = out
	}
	return out, err
}

func (l *leaf) dictionary(h *pageHeader, body []byte) error {
	if h.encoding != encodingPlain && h.encoding != encodingPlainDict {
		return problem(ErrUnsupported, fmt.Sprint("dictionary in encoding ", h.encoding))
	}
	b, err := l.unpack(1, body, h.uncompressed)
	if err != nil {
		return err
	}
	d := dictionary{data: b}
	if size := fixedSize(l.physical); size > 0 {
		d.n = len(b) / size
	} else {
		for at := 0; at < len(b); {
			if len(b)-at < 4 || uint64(binary.LittleEndian.Uint32(b[at:])) > uint64(len(b)-at-4) {
				return problem(ErrCorrupt, "the dictionary is damaged")
			}
			d.offs = append(d.offs, uint32(at))
			at += 4 + int(binary.LittleEndian.Uint32(b[at:]))
		}
		d.n = len(d.offs)
	}
	l.dict = d
	return nil
}

// fixedSize returns how many bytes a value of a type takes in a dictionary; 0 if
// that says its length.
func fixedSize(physical int32) int {
	switch physical {
	case typeInt32:
		return 4
	case typeInt64, typeDouble:
		return 8
	}
	return 0
}

// values begins with a page of values.
func (l *leaf) values(h *pageHeader, body []byte) error {
	if h.numValues > l.left || h.numValues > math.MaxInt32 {
		return problem(ErrCorrupt, "a page has more values than the column")
	}
	l.left -= h.numValues
	l.inPage = h.numValues
	var b []byte
	var err error
	if h.kind == pageDataV2 {
		b, err = l.levelsV2(h, body)
	} else if b, err = l.unpack(0, body, h.uncompressed); err == nil {
		b, err = l.levelsV1(h, b)
	}
	if err != nil {
		return err
	}
	l.data, l.bit, l.indexed, l.runs, l.deltas = b, 0, false, false, 0
	switch h.encoding {
	case encodingPlain:
	case encodingPlainDict, encodingRLEDict:
		l.indexed = true
		if len(b) > 0 {
			l.indices = hybrid{b: b[1:], width: uint(b[0])}
		} else {
			l.indices = hybrid{}
		}
	case encodingRLE:
		if l.physical != typeBoolean {
			return problem(ErrUnsupported, "values in encoding 3")
		}
		if len(b) >= 4 {
			b = b[4:] // the length of what follows
		}
		l.runs, l.indices = true, hybrid{b: b, width: 1}
	case encodingDelta, encodingDeltaLength, encodingDeltaBytes, encodingSplit:
		return l.differences(h)
	default:
		return problem(ErrUnsupported, fmt.Sprint("values in encoding ", h.encoding))
	}
	return nil
}

// levelsV1 takes the levels off a page, each of which says how long they are.
func (l *leaf) levelsV1(h *pageHeader, b []byte) ([]byte, error) {
	for i, most := range [2]int{l.maxRep, l.maxDef} {
		if most == 0 {
			continue
		}
		if h.levels[1-i] != encodingRLE {
			return nil, problem(ErrUnsupported, "levels that are not in runs")
		}
		if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil, problem(ErrCorrupt, "the levels are damaged")
		}
		n := 4 + int(binary.LittleEndian.Uint32(b))
		l.setLevels(i, b[4:n], most)
		b = b[n:]
	}
	return b, nil
}

func (l *leaf) setLevels(i int, b []byte, most int) {
	h := hybrid{b: b, width: bitsOf(most)}
	if i == 0 {
		l.reps = h
	} else {
		l.defs = h
	}
}

// levelsV2 takes the levels off a page, which are not compressed, and decompresses
// the rest.
func (l *leaf) levelsV2(h *pageHeader, body []byte) ([]byte, error) {
	n := h.repSize + h.defSize
	if n > int64(len(body)) || n > h.uncompressed {
		return nil, problem(ErrCorrupt, "the levels are damaged")
	}
	levels := append([]byte(nil), body[:n]...) // the buffer is used again
	l.setLevels(0, levels[:h.repSize], l.maxRep)
	l.setLevels(1, levels[h.repSize:], l.maxDef)
	size := h.uncompressed - n
	if h.plain {
		codec := l.codec
		l.codec = codecNone
		b, err := l.unpack(0, body[n:], size)
		l.codec = codec
		return b, err
	}
	if size == 0 {
		return nil, l.skipEmpty(body[n:])
	}
	return l.unpack(0, body[n:], size)
}

// skipEmpty checks what holds no values, which some writers compress and some do
// not.
func (l *leaf) skipEmpty(b []byte) error {
	if len(b) > 64 {
		return problem(ErrCorrupt, "a page is larger than its header says")
	}
	return nil
}

// item returns the bytes of the next value of a type that takes size bytes, or of
// one that says its length when size is 0.
func (l *leaf) item(size int) ([]byte, error) {
	if l.deltas != 0 {
		return l.difference(size)
	}
	b := l.data
	if l.indexed {
		n, ok := l.indices.next()
		if !ok || uint64(n) >= uint64(l.dict.n) {
			return nil, problem(ErrCorrupt, "a value is not in the dictionary")
		}
		if size > 0 {
			return l.dict.data[int(n)*size : int(n+1)*size], nil
		}
		b = l.dict.data[l.dict.offs[n]:]
	}
	if size == 0 {
		if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil, problem(ErrCorrupt, "the values end early")
		}
		size = int(binary.LittleEndian.Uint32(b))
		b = b[4:]
		if !l.indexed {
			l.data = l.data[4:]
		}
	}
	if size > len(b) {
		return nil, problem(ErrCorrupt, "the values end early")
	}
	if !l.indexed {
		l.data = l.data[size:]
	}
	return b[:size:size], nil
}

// bytes returns the value, of a BYTE_ARRAY.
func (l *leaf) bytes() ([]byte, error) { return l.item(0) }

// int returns the value, of an INT32 or INT64.
func (l *leaf) int() (int64, error) {
	size := fixedSize(l.physical)
	b, err := l.item(size)
	switch {
	case err != nil:
		return 0, err
	case size == 4:
		return int64(int32(binary.LittleEndian.Uint32(b))), nil
	}
	return int64(binary.LittleEndian.Uint64(b)), nil
}

// float returns the value, of a DOUBLE.
func (l *leaf) float() (float64, error) {
	b, err := l.item(8)
	if err != nil {
		return 0, err
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
}

// bool returns the value, of a BOOLEAN.
func (l *leaf) bool() (bool, error) {
	if l.runs {
		n, ok := l.indices.next()
		if !ok {
			return false, problem(ErrCorrupt, "the values end early")
		}
		return n != 0, nil
	}
	if l.indexed || len(l.data) == 0 {
		return false, problem(ErrCorrupt, "the values end early")
	}
	v := l.data[0]>>l.bit&1 != 0
	if l.bit++; l.bit == 8 {
		l.data, l.bit = l.data[1:], 0
	}
	return v, nil
}
