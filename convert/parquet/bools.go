package parquet

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/bits"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	meta "github.com/parquet-go/parquet-go/format"
)

// boolPages reads the pages of a map of booleans. The library decodes them wrongly if they are in runs: it takes the
// byte of a run for eight values.
type boolPages struct {
	column  *pq.Column
	codec   compress.Codec
	r       *bufio.Reader
	headers *thrift.Decoder
}

func newBoolPages(r io.ReaderAt, c *pq.Column, m *meta.ColumnMetaData) *boolPages {
	p := &boolPages{column: c, codec: pq.LookupCompressionCodec(m.Codec)}
	p.r = bufio.NewReader(io.NewSectionReader(r, firstPage(m), m.TotalCompressedSize))
	p.headers = thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(p.r))
	return p
}

// read returns the values of the next page.
func (p *boolPages) read() ([]pq.Value, error) {
	h := new(meta.PageHeader)
	if err := p.headers.Decode(h); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(p.r, int64(h.CompressedPageSize)))
	if err != nil {
		return nil, err
	}
	if len(b) != int(h.CompressedPageSize) || h.CRC != 0 && crc32.ChecksumIEEE(b) != uint32(h.CRC) {
		return nil, problem(errCorrupt, "a page is cut off, or its checksum is wrong")
	}
	v1, v2 := &h.DataPageHeader.V, &h.DataPageHeaderV2.V
	n, enc, codec, size := int(v1.NumValues), v1.Encoding, p.codec, int(h.UncompressedPageSize)
	var reps, defs []byte
	if h.Type == meta.DataPageV2 {
		n, enc = int(v2.NumValues), v2.Encoding
		from, to := v2.RepetitionLevelsByteLength, v2.RepetitionLevelsByteLength+v2.DefinitionLevelsByteLength
		reps, defs, b = b[:from], b[from:to], b[to:] // they are not compressed
		size -= int(to)
		if v2.IsCompressed.Valid && !v2.IsCompressed.V {
			codec = &pq.Uncompressed
		}
	}
	if size > 0 { // some programs compress an empty page, and others do not
		b, err = codec.Decode(make([]byte, size), b)
		if err != nil {
			return nil, err
		}
	}
	if h.Type == meta.DataPage {
		reps, b = prefixed(b)
		defs, b = prefixed(b)
	}
	maxDef := p.column.MaxDefinitionLevel()
	reps, err = unrun(reps, 1, n)
	if err == nil {
		defs, err = unrun(defs, bits.Len(uint(maxDef)), n)
	}
	if err != nil {
		return nil, err
	}
	set, err := decodeBools(enc, b, bytes.Count(defs, []byte{byte(maxDef)}))
	if err != nil {
		return nil, err
	}
	values := make([]pq.Value, n)
	for i := range values {
		if int(defs[i]) == maxDef {
			values[i], set = pq.BooleanValue(set[0] != 0), set[1:]
		}
		values[i] = values[i].Level(int(reps[i]), int(defs[i]), p.column.Index())
	}
	return values, nil
}

// decodeBools decodes the n booleans in b, which are not null, to a byte each.
func decodeBools(enc meta.Encoding, b []byte, n int) ([]byte, error) {
	switch {
	case n == 0:
		return nil, nil
	case enc == meta.RLE:
		runs, _ := prefixed(b)
		return unrun(runs, 1, n)
	case enc != meta.Plain:
		return nil, problem(errUnsupported, "booleans in encoding "+enc.String())
	}
	set := make([]byte, n)
	for i := range set {
		set[i] = b[i/8] >> (i % 8) & 1
	}
	return set, nil
}

// prefixed splits b after the part at its beginning whose length precedes it.
func prefixed(b []byte) (head, rest []byte) {
	n := 4 + binary.LittleEndian.Uint32(b)
	return b[4:n], b[n:]
}

// unrun decodes n numbers of the given width in bits.
func unrun(b []byte, width, n int) ([]byte, error) {
	b, err := (&rle.Encoding{BitWidth: width}).DecodeLevels(nil, b)
	if err == nil && len(b) < n {
		err = errEarly
	}
	return b[:min(n, len(b))], err
}
