package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	meta "github.com/parquet-go/parquet-go/format"

	"github.com/entrace-go/entrace/format"
)

const (
	// maxPage is the maximum size of a page, a dictionary or the footer. Most programs end a page at about 1 MB,
	// DuckDB at about 100 MB. Our pages are larger than rowGroupBytes by at most one entry.
	maxPage = 128 << 20
	// maxResident is the maximum memory of all data that is used at the same time: a page and a dictionary of each
	// column, and one page as it is stored in the file.
	maxResident = 144 << 20
	// spare is the number of unused bytes after a page. The library reads several bytes at a time, also beyond the
	// end.
	spare = 32
)

// A leaf reads the values of a column, in the order of the rows. The values refer to the memory of the page, and
// are valid until a later row is read.
type leaf struct {
	leafSchema

	column   string
	memory   *memory
	codec    meta.CompressionCodec
	off, end int64 // the part of the chunk that was not read yet
	page     int64 // offset of the current page
	left     int64 // number of values of the chunk that are in later pages

	reps, defs []byte // levels of the values in the page, including nulls
	at, inPage int    // index of the next value, and number of values in the page
	rep        int    // repetition level of the current value
	def        int

	values  values
	indices []int32 // if inDict is set: the indices of the values in dict
	inDict  bool
	dict    values
	val     int    // index of the next value that is not null
	last    []byte // the previous value, for a BYTE_ARRAY with prefixes

	unpacked []byte   // the page of a BYTE_ARRAY, decompressed
	before   []byte   // for a map: the previous page, which may have the beginning of the row
	began    rowStart // the page in which the current row began
	taken    [4]int64 // the memory that is reserved for the chunk, by kind
}

// memory is shared by all leaves of a file. It has the file, a buffer for a page, and the total memory of the
// leaves.
type memory struct {
	r        io.ReaderAt
	packed   []byte
	resident int64
	zstd     *zstd.Decoder
}

// plainDictionary is the old name of two encodings: of meta.RLEDictionary, and in a dictionary of meta.Plain.
const plainDictionary meta.Encoding = 2

// The kinds of memory of a chunk.
const (
	ofPages = iota
	ofLevels
	ofValues // decoded values, and offsets of texts
	ofDictionary
)

// A rowStart says in which page a row began.
type rowStart uint8

const (
	inNoPage rowStart = iota
	inThisPage
	inPageBefore
)

// open begins to read the chunk c.
func (l *leaf) open(c *meta.ColumnMetaData) {
	l.codec, l.off, l.end, l.left, l.at, l.inPage = c.Codec, c.DataPageOffset, c.DataPageOffset+c.TotalCompressedSize, c.NumValues, 0, 0
	l.page, l.began = l.off, inNoPage
	l.values, l.dict, l.indices, l.reps, l.defs, l.unpacked, l.before = values{}, values{}, nil, nil, nil, nil, nil
	for i := range l.taken {
		l.memory.resident -= l.taken[i]
		l.taken[i] = 0
	}
}

// need reserves memory for the chunk, of the kind what. It reserves only the difference to an earlier page, because
// pages reuse the memory.
func (l *leaf) need(what int, size int64) error {
	more := max(size-l.taken[what], 0)
	l.taken[what] += more
	return l.memory.take(more)
}

func (m *memory) take(size int64) error {
	if m.resident += size; m.resident > maxResident {
		return problem(errUnsupported, "the pages are too large to have one of each column in memory")
	}
	return nil
}

// next reads the next value. It returns false at the end of the chunk.
func (l *leaf) next() (bool, error) {
	for l.at == l.inPage {
		if l.left == 0 {
			return false, nil
		}
		if err := l.load(); err != nil {
			return false, err
		}
	}
	l.rep, l.def = 0, 0
	if l.maxRep > 0 {
		if l.rep = int(l.reps[l.at]); l.rep == 0 {
			l.began = inThisPage
		}
	}
	if l.maxDef > 0 {
		l.def = int(l.defs[l.at])
	}
	l.at++
	if l.rep > l.maxRep || l.def > l.maxDef {
		return false, errLevels
	}
	return true, nil
}

// more returns how many of the following values in the page belong to the current row.
func (l *leaf) more() int {
	rest := l.reps[l.at:l.inPage]
	if n := bytes.IndexByte(rest, 0); n >= 0 {
		return n
	}
	return len(rest)
}

// isNull reports whether the current value is null.
func (l *leaf) isNull() bool { return l.def < l.maxDef }

// load reads pages until one has values.
func (l *leaf) load() error {
	for {
		h, body, err := l.header()
		if err != nil {
			return err
		}
		switch {
		case h.Type == meta.IndexPage:
			continue
		case h.Type == meta.DictionaryPage && h.DictionaryPageHeader.Valid:
			if err := l.dictionary(h, body); err != nil {
				return err
			}
			continue
		case h.Type == meta.DataPage && h.DataPageHeader.Valid, h.Type == meta.DataPageV2 && h.DataPageHeaderV2.Valid:
			return l.data(h, body)
		}
		return problem(errUnsupported, fmt.Sprint("page of type ", h.Type))
	}
}

// headerSize is how many bytes of a page are first read to decode its header. Most headers are smaller.
const headerSize = 512

// header reads the next page into a buffer. It returns the header and the rest of the page.
func (l *leaf) header() (*meta.PageHeader, []byte, error) {
	l.page = l.off
	h := new(meta.PageHeader)
	for size := int64(headerSize); ; size *= 8 {
		size = min(size, l.end-l.off)
		if size == 0 {
			return nil, nil, errEarly
		}
		b, err := l.memory.read(l.off, size)
		if err != nil {
			return nil, nil, err
		}
		w := walker{b: b}
		if w.pass(kindStruct, 1); !w.failed {
			if err := unmarshal(b[:w.off], h); err != nil {
				return nil, nil, err
			}
			l.off += int64(w.off)
			break
		}
		if !w.short || size == l.end-l.off || size > maxPage {
			return nil, nil, problem(errCorrupt, "the header of a page is damaged")
		}
	}
	size := int64(h.CompressedPageSize)
	if size < 0 || size > min(l.end-l.off, maxPage) || h.UncompressedPageSize < 0 || h.UncompressedPageSize > maxPage {
		return nil, nil, problem(errCorrupt, "a page is too large")
	}
	body, err := l.memory.read(l.off, size)
	if err != nil {
		return nil, nil, err
	}
	if h.CRC != 0 && crc32.ChecksumIEEE(body) != uint32(h.CRC) {
		return nil, nil, problem(errCorrupt, "the checksum of a page is wrong")
	}
	l.off += size
	return h, body, nil
}

// read reads n bytes at the offset off into the buffer.
func (m *memory) read(off, n int64) ([]byte, error) {
	if more := n + spare - int64(cap(m.packed)); more > 0 {
		if err := m.take(more); err != nil {
			return nil, err
		}
		m.packed = make([]byte, n+spare)
	}
	b := m.packed[:n]
	if got, err := m.r.ReadAt(b, off); int64(got) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b, nil
}

// unpack decompresses a page into memory that is valid for longer than a row. A row of a map may span several
// pages, so the page in which it began must not be overwritten. Usually this is the previous page, and the page
// before that can be reused.
func (l *leaf) unpack(codec meta.CompressionCodec, b []byte, size int) (out []byte, err error) {
	if l.maxRep > 0 && l.began != inNoPage {
		l.unpacked, l.before = l.before, l.unpacked
		if l.began == inPageBefore {
			l.unpacked = nil
		}
		l.began = inPageBefore
	}
	if err := l.need(ofPages, int64(size+len(l.before))); err != nil {
		return nil, err
	}
	if out, err = l.memory.decompress(codec, l.unpacked, b, size); err == nil {
		l.unpacked = out
	}
	return out, err
}

// decompress returns the decompressed content of src, which must have size bytes. It uses dst if dst is large
// enough. It checks that src can have so much content before it allocates memory.
func (m *memory) decompress(codec meta.CompressionCodec, dst, src []byte, size int) (out []byte, err error) {
	defer contain(&err)
	most := len(src)
	switch codec {
	case meta.Uncompressed:
	case meta.Snappy:
		most = 22*len(src) + 64
	case meta.Zstd:
		most = len(src) << 15 // a block of four bytes can have 128 KiB of content
	default:
		return nil, problem(errUnsupported, "compression codec "+codec.String())
	}
	if size > most {
		return nil, problem(errCorrupt, "the page cannot be as long as its header says")
	}
	if cap(dst) < size+spare {
		dst = make([]byte, size+spare)
	}
	dst = dst[:size:cap(dst)]
	switch n := 0; codec {
	case meta.Snappy:
		// Otherwise the library would allocate as much memory as src claims.
		if n, err = snappy.DecodedLen(src); err == nil && n == size {
			out, err = snappy.Decode(dst, src)
		}
	case meta.Zstd:
		if m.zstd == nil {
			m.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(maxPage/2))
		}
		if err == nil {
			out, err = m.zstd.DecodeAll(src, dst[:0])
		}
	default:
		out = append(dst[:0], src...)
	}
	if err == nil && len(out) != size {
		err = problem(errCorrupt, "the page is not as long as its header says")
	}
	return out, err
}

func (l *leaf) dictionary(h *meta.PageHeader, body []byte) error {
	d, size := &h.DictionaryPageHeader.V, int(h.UncompressedPageSize)
	if d.Encoding != meta.Plain && d.Encoding != plainDictionary {
		return problem(errUnsupported, "dictionary in encoding "+d.Encoding.String())
	}
	l.dict = values{}
	if err := l.need(ofDictionary, int64(3*size)); err != nil { // numbers are copied, and texts need offsets
		return err
	}
	b, err := l.memory.decompress(l.codec, nil, body, size)
	if err != nil {
		return err
	}
	return l.dict.decode(l.physical, meta.Plain, b, size)
}

// data begins to read a page of values.
func (l *leaf) data(h *meta.PageHeader, body []byte) error {
	v1, v2 := &h.DataPageHeader.V, &h.DataPageHeaderV2.V
	n, enc, codec, size := int(v1.NumValues), v1.Encoding, l.codec, int(h.UncompressedPageSize)
	if h.Type == meta.DataPageV2 {
		n, enc = int(v2.NumValues), v2.Encoding
	}
	if n < 0 || int64(n) > l.left {
		return problem(errCorrupt, "a page has more values than the column")
	}
	l.at, l.inPage = 0, 0
	l.values.data, l.last = nil, nil
	var raw [2][]byte // levels: repetition, definition
	if h.Type == meta.DataPageV2 {
		reps, defs := int(v2.RepetitionLevelsByteLength), int(v2.DefinitionLevelsByteLength)
		if reps < 0 || defs < 0 || reps+defs > min(len(body), size) {
			return errLevels
		}
		raw = [2][]byte{body[:reps], body[reps : reps+defs]} // they are not compressed
		if v2.IsCompressed.Valid && !v2.IsCompressed.V {
			codec = meta.Uncompressed
		}
		body, size = body[reps+defs:], size-reps-defs
	}
	b, err := body[:0], error(nil)
	if size > 0 { // some programs compress an empty page, and others do not
		b, err = l.unpack(codec, body, size)
	}
	if err == nil && h.Type == meta.DataPage {
		if l.maxRep > 0 && v1.RepetitionLevelEncoding != meta.RLE || l.maxDef > 0 && v1.DefinitionLevelEncoding != meta.RLE {
			return problem(errUnsupported, "repetition or definition levels in an encoding other than RLE")
		}
		for i, most := range [2]int{l.maxRep, l.maxDef} {
			if most > 0 && err == nil {
				raw[i], b, err = prefixed(b)
			}
		}
	}
	if err == nil {
		err = l.decode(enc, raw, b, n)
	}
	if err != nil {
		return err
	}
	l.left, l.inPage = l.left-int64(n), n
	return nil
}

// prefixed splits b after the levels at its beginning, whose length precedes them.
func prefixed(b []byte) (head, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, errLevels
	}
	n := 4 + int(binary.LittleEndian.Uint32(b))
	return b[4:n], b[n:], nil
}

// decode decodes the levels in raw, and the n values in b.
func (l *leaf) decode(enc meta.Encoding, raw [2][]byte, b []byte, n int) (err error) {
	defer contain(&err)
	if err := l.need(ofLevels, int64(min(l.maxRep, 1)+min(l.maxDef, 1))*int64(n)); err != nil {
		return err
	}
	set := n // number of values that are not null
	if l.maxRep > 0 {
		l.reps, err = unrun(l.reps, raw[0], bits.Len(uint(l.maxRep)), n)
	}
	if l.maxDef > 0 && err == nil {
		l.defs, err = unrun(l.defs, raw[1], bits.Len(uint(l.maxDef)), n)
		set = bytes.Count(l.defs, []byte{byte(l.maxDef)})
	}
	if err == nil {
		err = l.need(ofValues, 12*int64(set))
	}
	l.val, l.last, l.inDict = 0, nil, enc == plainDictionary || enc == meta.RLEDictionary
	switch {
	case err != nil || set == 0:
	case l.inDict:
		l.indices, err = numbers(l.indices, b, set)
	default:
		err = l.values.decode(l.physical, enc, b, set)
	}
	return err
}

// value returns where the next value that is not null is stored: it is value i of v.
func (l *leaf) value() (v *values, i int, err error) {
	v, i = &l.values, l.val
	l.val++
	if l.inDict {
		if i >= len(l.indices) {
			return nil, 0, errEarly
		}
		v, i = &l.dict, int(uint32(l.indices[i]))
	}
	if i >= v.n {
		return nil, 0, problem(errCorrupt, "the values end early, or one is not in the dictionary")
	}
	return v, i, nil
}

// bytes returns the next value, of a BYTE_ARRAY.
func (l *leaf) bytes() ([]byte, error) {
	v, i, err := l.value()
	if err != nil {
		return nil, err
	}
	b := v.data[v.offsets[i]+v.gap : v.offsets[i+1] : v.offsets[i+1]]
	if v.prefixes != nil {
		n := v.prefixes[i]
		if n < 0 || int(n) > len(l.last) {
			return nil, problem(errCorrupt, "a value has a longer prefix than the previous value has bytes")
		}
		if n > 0 {
			b = append(l.last[:n:n], b...)
		}
		l.last = b
	}
	return b, nil
}

// fixed returns the next value, of an INT32, INT64, DOUBLE or BOOLEAN.
func (l *leaf) fixed() (format.Value, error) {
	v, i, err := l.value()
	switch {
	case err != nil:
		return format.Value{}, err
	case l.physical == meta.Boolean:
		return format.BoolValue(v.bools[i] != 0), nil
	case l.physical == meta.Double:
		return format.FloatValue(v.doubles[i]), nil
	}
	return format.I64Value(v.int64s[i]), nil
}
