package format

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/entrace-go/entrace/internal/core/wire"
)

// tables reads the offsets and the pool of an ET. It checks that the entries fit into the file, and that the pool
// describes a tree of the entries. If wantPool is true, it returns the parent of each entry according to the pool.
// If the file is not mapped, tables reads only the tables and the last entry.
func (f *File) tables(wantPool bool) (pool []uint32, err error) {
	size := f.src.Size()
	part := size
	if !f.src.Mapped() {
		part = min(size, 1<<20)
	}
	for {
		err := f.src.View(0, part, func(b []byte) (err error) {
			pool, err = f.header(b, size, wantPool)
			return err
		})
		if part == size || !errors.Is(err, ErrTruncated) {
			if err != nil || f.Len() == 0 {
				return pool, err
			}
			break
		}
		part = min(4*part, size)
	}
	// The tables do not contain the end of the last entry: if the file was truncated within the last entry, the
	// tables still match. So decode the last entry.
	n := f.Len()
	at := f.data + int64(f.offsets.Load().at(n-1))
	return pool, f.src.View(at, min(size-at, int64(f.maxSize)+1), func(last []byte) error {
		d := decoder{version: f.version, maxSize: f.maxSize}
		d.reset(last, at, int64(n-1))
		return d.single(new(TraceEntry))
	})
}

// header reads the tables of an ET from b, the first bytes of the file. The parameter of is the size of the whole
// file.
func (f *File) header(b []byte, of int64, wantPool bool) ([]uint32, error) {
	d := decoder{version: f.version, maxSize: math.MaxInt}
	d.reset(b, 0, noEntry)
	d.off = wire.MagicSize
	// Each entry has at least one byte in each table, in addition to its encoding. This limits the number of
	// entries.
	at, least := d.off, 2
	if int64(len(b)) == of {
		least += f.version.minEntrySize()
	}
	n := d.Len("offsets", least)
	if err := d.Err(); err != nil {
		return nil, err
	}
	if uint64(n) > math.MaxUint32 {
		return nil, &CorruptError{Offset: int64(at), Entry: noEntry, Field: "offsets", Err: ErrFull}
	}
	offsets, err := decodeOffsets(&d, n)
	if err != nil {
		return nil, err
	}
	pool, err := decodePool(&d, n, wantPool)
	if err != nil {
		return nil, err
	}
	f.data, f.longer = int64(d.off), d.longer
	f.offsets.Store(offsets)
	size := uint64(of - f.data)
	if n > 0 && offsets.last() >= size {
		return pool, &CorruptError{Offset: f.data, Entry: int64(n - 1), Field: "offsets", Err: errBadOffset}
	}
	if n == 0 && size > 0 {
		return nil, &CorruptError{Offset: f.data, Entry: noEntry, Err: errTrailingBytes}
	}
	offsets.add(size)
	return pool, nil
}

// decodeOffsets reads n offsets. The result has room for one more offset.
func decodeOffsets(d *decoder, n int) (*positions, error) {
	// A sparse file can claim more offsets than it has: above 1<<20 offsets, allocate memory only while reading.
	p := new(positions)
	p.grow(min(n+1, 1<<20))
	var some [1024]uint64
	for i := 0; i < n; {
		if i > 0 {
			k, size := ascending(some[:min(n-i, len(some))], d.b[d.off:], p.last())
			d.off += size
			for _, o := range some[:k] {
				p.add(o)
			}
			i += k
			if k > 0 {
				continue
			}
		}
		// This is the first offset, or an offset at which ascending stopped.
		at := d.off
		o := d.Uint("offsets", 64)
		if i == 0 && o != 0 || i > 0 && o <= p.last() {
			return nil, firstError(d, at, int64(i), "offsets", errBadOffset)
		}
		p.add(o)
		i++
	}
	return p, d.Err()
}

// ascending decodes ascending numbers from b into out. The first number must be larger than last. ascending stops
// at a number that is not in its shortest form, or not larger than the number before it. It returns how many
// numbers it decoded, and the size of their encoding.
func ascending(out []uint64, b []byte, last uint64) (n, size int) {
	for n < len(out) && size < len(b) {
		var o, least uint64 // 0 if a number is incomplete or has an unknown tag
		width := 1
		switch rest := b[size+1:]; {
		case b[size] == wire.Tag32 && len(rest) >= 4:
			o, width, least = uint64(binary.LittleEndian.Uint32(rest)), 5, math.MaxUint16+1
		case b[size] < wire.Tag16:
			o = uint64(b[size])
		case b[size] == wire.Tag16 && len(rest) >= 2:
			o, width, least = uint64(binary.LittleEndian.Uint16(rest)), 3, wire.Tag16
		case b[size] == wire.Tag64 && len(rest) >= 8:
			o, width, least = binary.LittleEndian.Uint64(rest), 9, math.MaxUint32+1
		}
		if o <= last || o < least {
			break
		}
		out[n], last = o, o
		n++
		size += width
	}
	return n, size
}

// decodePool reads the pool of an ET of n entries. If wanted is true, it returns the parent of each entry.
func decodePool(d *decoder, n int, wanted bool) (parents []uint32, err error) {
	at := d.off
	if d.Len("pool", 1) != n {
		return nil, firstError(d, at, noEntry, "pool", errBadPool)
	}
	if wanted {
		parents = make([]uint32, n)
	}
	seen := make([]uint64, n/64+1) // a bit for each entry that has a parent
	b, p, kids := d.b, d.off, 0
	for i := range n {
		at, count := p, 0
		if p < len(b) && b[p] < wire.Tag16 && int(b[p]) < len(b)-p {
			count = int(b[p])
			p++
		} else {
			d.off = p
			count = d.Len("pool", 1)
			p = d.off
			if err := d.Err(); err != nil {
				return nil, err
			}
		}
		if count > n-1-kids {
			return nil, firstError(d, at, int64(i), "pool", errBadPool)
		}
		last := uint64(i) // the ids of children are ascending, and larger than the parent's id
		for range count {
			at := p
			var id uint64
			switch {
			case p < len(b) && b[p] < wire.Tag16:
				id = uint64(b[p])
				p++
			case len(b)-p >= 5 && b[p] == wire.Tag32:
				id = uint64(binary.LittleEndian.Uint32(b[p+1:]))
				d.longer = d.longer || id <= math.MaxUint16
				p += 5
			default:
				d.off = p
				id = d.Uint("pool", 32)
				p = d.off
			}
			if id <= last || id >= uint64(n) || seen[id/64]>>(id%64)&1 != 0 {
				return nil, firstError(d, at, int64(i), "pool", errBadPool)
			}
			seen[id/64] |= 1 << (id % 64)
			if wanted {
				parents[id] = uint32(i)
			}
			last = id
		}
		kids += count
	}
	d.off = p
	if err := d.Err(); err != nil {
		return nil, err
	}
	if n > 0 && kids != n-1 {
		return nil, &CorruptError{Offset: int64(d.off), Entry: noEntry, Field: "pool", Err: errBadPool}
	}
	return parents, nil
}

// maxUintSize is the maximum size of an encoded 64-bit number.
const maxUintSize = 9

// parentIn returns the parent of the encoded entry b with the given id. It returns 0 if the parent is not an
// earlier entry.
func parentIn(b []byte, id uint32) uint32 {
	d := decoder{b: b}
	if p := d.Uint("", 64); p < uint64(id) {
		return uint32(p)
	}
	return 0
}

// firstError returns the error of d if d has failed. Otherwise it returns a CorruptError with err.
func firstError(d *decoder, at int, entry int64, field string, err error) error {
	if derr := d.Err(); derr != nil {
		return derr
	}
	return &CorruptError{Offset: int64(at), Entry: entry, Field: field, Err: err}
}

// A table holds the offsets and the parents of the entries of a trace.
type table struct {
	data     int64     // the offset of the first entry in the file
	offsets  positions // relative to data: the start of each entry, and then the end of the last entry
	parents  []uint32  // nil with placesOnly
	prefixed bool      // the length of each entry precedes it

	placesOnly bool // whether parents are omitted
}

func newTable() *table {
	t := &table{data: wire.MagicSize}
	t.offsets.add(0)
	return t
}

// len returns the number of entries.
func (t *table) len() int { return t.offsets.len() - 1 }

// gap returns the size of the length that precedes each entry, or 0 if no length precedes entries.
func (t *table) gap() int {
	if t.prefixed {
		return prefixSize
	}
	return 0
}

// stepSize is the number of bytes after which a scan calls step.
const stepSize = 1 << 20

// scanEntries reads a trace of size bytes. The table has all complete entries, even if the error is not nil. If step is
// not nil, scanEntries calls it from time to time with the number of bytes that were read.
func scanEntries(src io.Reader, size int64, step func(int64) error) (*table, error) {
	t := newTable()
	r, err := newReader(src, nil, walkSize)
	if err != nil {
		return t, err
	}
	t.data = r.off
	return t, t.scan(r, size, step)
}

// scan adds the entries that r has not read yet to t. The parameters size and step are as in scanEntries.
func (t *table) scan(r *Reader, size int64, step func(int64) error) error {
	add := func(parent uint32) {
		if t.offsets.len() == cap(t.offsets.deltas) {
			t.grow(size - r.off)
		}
		if !t.placesOnly {
			t.parents = append(t.parents, parent)
		}
		t.offsets.add(uint64(r.off - t.data))
	}
	whole := t.len() // the number of entries up to the last entry that is not all zeros
	for next := int64(0); ; {
		n := t.len()
		r.skim(add)
		if t.len() > n {
			whole = t.len()
		}
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return t.dropZeros(r.format, whole, err)
		}
		add(e.Parent)
		if r.format != IET || !wire.IsZero(r.raw) {
			whole = t.len()
		}
		if step != nil && r.off >= next {
			if err := step(r.off); err != nil {
				return err
			}
			next = r.off + stepSize
		}
	}
}

// grow makes room for the probable number of entries in the unread bytes, whose number is left. The file can be
// sparse, so grow makes room for at most three times as many additional entries as t has, plus 1024.
func (t *table) grow(left int64) {
	n := t.len()
	most := 4*n + 1024
	if read := int64(t.offsets.last()); read > 0 {
		// Add a sixteenth, because later entries can be smaller.
		more := max(left, read) / (read / int64(n))
		most = int(min(int64(most), int64(n)+more+more/16+64))
	}
	if !t.placesOnly {
		t.parents = append(make([]uint32, 0, most), t.parents...)
	}
	t.offsets.grow(most + 1)
}

// dropZeros removes all but the first keep entries of t. The removed entries consist of zeros, so they are part of
// the damage err.
func (t *table) dropZeros(f StorageFormat, keep int, err error) error {
	if f != IET || keep == t.len() {
		return err
	}
	if !t.placesOnly {
		t.parents = t.parents[:keep]
	}
	t.offsets.cut(keep + 1)
	if errors.Is(err, ErrTruncated) {
		return &TruncatedError{Offset: t.data + int64(t.offsets.last()), Entry: int64(keep)}
	}
	return err
}

// children returns the children of each entry. The parameter parents has the parent of each entry. The children of
// entry i are kids[first[i]:first[i+1]].
func children(parents []uint32) (first, kids []uint32) {
	n := len(parents)
	first = make([]uint32, n+1)
	if n == 0 {
		return first, nil
	}
	for _, p := range parents[1:] {
		first[p+1]++
	}
	for i := range n {
		first[i+1] += first[i]
	}
	kids = make([]uint32, n-1)
	// Append each child to the list of its parent. After the loop, first[i] is the end of list i. The copy makes
	// it the start of list i again.
	for i, p := range parents[1:] {
		kids[first[p]] = uint32(i + 1)
		first[p]++
	}
	copy(first[1:], first[:n])
	first[0] = 0
	return first, kids
}
