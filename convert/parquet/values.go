package parquet

import (
	"encoding/binary"
	"slices"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/rle"
	meta "github.com/parquet-go/parquet-go/format"
)

// A values holds the values of a page or a dictionary, without nulls.
type values struct {
	n       int
	int32s  []int32
	int64s  []int64 // also INT32
	doubles []float64
	bools   []byte // 0 means false

	// Value i of a BYTE_ARRAY is data[offsets[i]+gap:offsets[i+1]]. If there are prefixes, the value begins with
	// the first prefixes[i] bytes of the value before it.
	data     []byte
	offsets  []uint32
	gap      uint32
	prefixes []int32
}

// decode decodes the values in b, but no more than the limit most. Values of a BYTE_ARRAY refer to b.
func (v *values) decode(kind meta.Type, enc meta.Encoding, b []byte, most int) (err error) {
	defer contain(&err)
	v.n, v.data, v.prefixes = 0, nil, nil
	size := fixedSize(kind)
	if size > 0 && enc == meta.Plain {
		b = b[:min(len(b)/size, most)*size]
	}
	switch e := pq.LookupEncoding(enc); {
	case kind == meta.Boolean && enc == meta.Plain:
		v.n = min(8*len(b), most)
		v.bools = slices.Grow(v.bools[:0], v.n)[:v.n]
		for i := range v.bools {
			v.bools[i] = b[i/8] >> (i % 8) & 1
		}
	case kind == meta.Boolean && enc == meta.RLE && len(b) >= 4:
		// Do not use the library's encoding of booleans: it takes the byte of a run for eight values.
		v.bools, err = unrun(v.bools, b[4:], 1, most)
		v.n = len(v.bools)
	case kind == meta.ByteArray && enc == meta.Plain:
		v.plainTexts(b, most)
	case kind == meta.ByteArray && enc == meta.DeltaByteArray:
		var prefixes []int32
		if prefixes, b, err = deltas(nil, b, most); err == nil {
			err = v.texts(b, most)
			v.prefixes, v.n = prefixes, min(v.n, len(prefixes))
		}
	case kind == meta.ByteArray && enc == meta.DeltaLengthByteArray:
		err = v.texts(b, most)
	case size == 0 || enc != meta.Plain && enc != meta.ByteStreamSplit && (enc != meta.DeltaBinaryPacked || kind == meta.Double):
		return problem(errUnsupported, "values in encoding "+enc.String())
	case enc == meta.DeltaBinaryPacked && deltasEnd(b, most, 8*size) == 0:
		return errDeltas
	case kind == meta.Int32:
		v.int32s, err = e.DecodeInt32(v.int32s[:0], b)
		v.int64s = slices.Grow(v.int64s[:0], len(v.int32s))
		for _, n := range v.int32s {
			v.int64s = append(v.int64s, int64(n))
		}
		v.n = len(v.int64s)
	case kind == meta.Int64:
		v.int64s, err = e.DecodeInt64(v.int64s[:0], b)
		v.n = len(v.int64s)
	default:
		v.doubles, err = e.DecodeDouble(v.doubles[:0], b)
		v.n = len(v.doubles)
	}
	return err
}

// fixedSize returns the size in bytes of a value, or 0 if values of this type vary in size.
func fixedSize(kind meta.Type) int {
	switch kind {
	case meta.Int32:
		return 4
	case meta.Int64, meta.Double:
		return 8
	}
	return 0
}

// plainTexts finds the values in b. The length of each value precedes it.
func (v *values) plainTexts(b []byte, most int) {
	v.data, v.offsets, v.gap = b, v.offsets[:0], 4
	at := 0
	for n := 0; v.n < most && len(b)-at >= 4; v.n++ {
		if n = int(binary.LittleEndian.Uint32(b[at:])); n > len(b)-at-4 {
			break
		}
		v.offsets = append(v.offsets, uint32(at))
		at += 4 + n
	}
	v.offsets = append(v.offsets, uint32(at))
}

// texts finds the values in b. The lengths of all values precede the first.
func (v *values) texts(b []byte, most int) (err error) {
	v.int32s, v.data, err = deltas(v.int32s, b, most)
	v.offsets, v.gap = append(v.offsets[:0], 0), 0
	at := 0
	for _, n := range v.int32s {
		if n < 0 || int(n) > len(v.data)-at {
			break
		}
		at += int(n)
		v.offsets = append(v.offsets, uint32(at))
	}
	v.n = len(v.offsets) - 1
	return err
}

// deltas decodes the numbers at the beginning of b, which are in DELTA_BINARY_PACKED, and returns the rest of b.
func deltas(dst []int32, b []byte, most int) (numbers []int32, rest []byte, err error) {
	end := deltasEnd(b, most, 32)
	if end == 0 {
		return nil, nil, errDeltas
	}
	numbers, err = pq.DeltaBinaryPacked.DecodeInt32(dst[:0], b)
	return numbers, b[end:], err
}

// deltasEnd returns the offset after the DELTA_BINARY_PACKED numbers at the beginning of b. It returns 0 if the
// numbers are damaged, or if the header claims more than most. The library would allocate memory for all claimed
// numbers.
func deltasEnd(b []byte, most, width int) int {
	at := 0
	next := func() uint64 {
		n, size := binary.Uvarint(b[at:])
		if size <= 0 {
			at, size = len(b), 0
		}
		at += size
		return n
	}
	block, minis, left := next(), next(), next()
	next() // skip the first number
	if minis == 0 || block > 1<<16 || block%minis != 0 || left > uint64(most) {
		return 0
	}
	for left = max(left, 1) - 1; left > 0; {
		next() // skip the least difference
		if at >= len(b) || uint64(len(b)-at) < minis {
			return 0
		}
		widths := b[at : at+int(minis)]
		at += int(minis)
		for _, w := range widths {
			if left > 0 {
				at += int(block/minis) * int(w) / 8
				left -= min(left, block/minis)
			}
			if int(w) > width || at > len(b) {
				return 0
			}
		}
	}
	return at
}

// runSlack is how many numbers runs may have beyond the needed ones. DuckDB packs 256 numbers at a time.
const runSlack = 1024

// runs returns the runs at the beginning of b that have the first n numbers of width bits. It limits the length of
// a run, because the library allocates memory for as many numbers as a run claims.
func runs(b []byte, width, n int) ([]byte, error) {
	at, got := 0, uint64(0)
	for got < uint64(n) {
		head, size := binary.Uvarint(b[at:])
		if size <= 0 || head>>1 > uint64(n)+runSlack {
			return nil, errRuns
		}
		at += size
		length, count := (width+7)/8, head>>1
		if head&1 != 0 {
			// A group has eight numbers. Some programs omit the padding of the last group.
			length, count = int(count)*width, 8*count
			if missing := length - (len(b) - at); missing > 0 && missing < width {
				b = append(make([]byte, 0, len(b)+missing+spare), b...)[:len(b)+missing]
			}
		}
		if at += length; at > len(b) {
			return nil, errRuns
		}
		got += count
	}
	if got > uint64(n)+runSlack {
		return nil, errRuns
	}
	return b[:at], nil
}

// unrun decodes n numbers of at most 8 bits.
func unrun(dst, b []byte, width, n int) ([]byte, error) {
	b, err := runs(b, width, n)
	if err != nil {
		return dst[:0], err
	}
	dst, err = (&rle.Encoding{BitWidth: width}).DecodeLevels(slices.Grow(dst[:0], n+runSlack), b)
	return dst[:min(len(dst), n)], err
}

// numbers decodes n indices into a dictionary.
func numbers(dst []int32, b []byte, n int) ([]int32, error) {
	if len(b) == 0 || b[0] > 32 {
		return nil, errRuns
	}
	dst = slices.Grow(dst[:0], n+runSlack)
	if b[0] == 0 {
		clear(dst[:n])
		return dst[:n], nil
	}
	b, width := b[1:], int(b[0])
	b, err := runs(b, width, n)
	if err != nil {
		return nil, err
	}
	return (&rle.Encoding{BitWidth: width}).DecodeInt32(dst, b)
}
