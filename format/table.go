package format

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/entrace-go/entrace/internal/wire"
)

// tables reads the offsets and the pool of an ET and checks that they make a tree over
// entries that fit. It returns the parents that the pool says, if they are wanted. Where there is no map it does not read the rest of the file.
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
	// The tables do not tell where the last entry ends: a file that was cut there looks
	// like a whole one.
	n := f.Len()
	at := f.data + int64(f.offsets.Load().at(n-1))
	return pool, f.src.View(at, min(size-at, int64(f.maxSize)+1), func(last []byte) error {
		d := decoder{version: f.version, maxSize: f.maxSize}
		d.reset(last, at, int64(n-1))
		d.traceEntry(new(TraceEntry))
		if err := d.Err(); err != nil {
			return err
		}
		if d.off < len(last) {
			return &CorruptError{Offset: d.base + int64(d.off), Entry: int64(n - 1), Err: errTrailingBytes}
		}
		return nil
	})
}

// openPool is Open, and returns the parents that the pool of an ET says, nil for other formats.
func openPool(name string) (f *File, pool []uint32, err error) {
	if f, err = Open(name, nil); err == nil && f.format == ET {
		if pool, err = f.tables(true); err != nil {
			err = errors.Join(f.readError(err), f.Close())
		}
	}
	return f, pool, err
}

// header reads the tables that b begins with, of an ET of so many bytes.
func (f *File) header(b []byte, of int64, wantPool bool) ([]uint32, error) {
	d := decoder{version: f.version, maxSize: math.MaxInt}
	d.reset(b, 0, noEntry)
	d.off = wire.MagicSize
	// An entry takes a byte in each table besides its own: more cannot be there.
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

// decodeOffsets reads n offsets and leaves room for one more.
func decodeOffsets(d *decoder, n int) (*positions, error) {
	// A sparse file can claim many that are not there: more room comes as they do.
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
			if i += k; k > 0 {
				continue
			}
		}
		// The first, or one that is out of the ordinary.
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

// ascending decodes numbers off b into out for as long as each is larger than the
// one before it, which is last before the first, and in its shortest form. It
// returns how many there are and how many bytes they take.
func ascending(out []uint64, b []byte, last uint64) (n, size int) {
	at := 0
	for n < len(out) && at < len(b) {
		// The larger a number the more bytes it takes: there are runs of one size.
		run := n
		switch b[at] {
		case wire.Tag16:
			last = max(last, wire.Tag16-1)
			for n < len(out) && len(b)-at >= 3 && b[at] == wire.Tag16 {
				o := uint64(binary.LittleEndian.Uint16(b[at+1:]))
				if o <= last {
					return n, at
				}
				out[n], last = o, o
				n++
				at += 3
			}
		case wire.Tag32:
			last = max(last, math.MaxUint16)
			for n < len(out) && len(b)-at >= 5 && b[at] == wire.Tag32 {
				o := uint64(binary.LittleEndian.Uint32(b[at+1:]))
				if o <= last {
					return n, at
				}
				out[n], last = o, o
				n++
				at += 5
			}
		case wire.Tag64:
			last = max(last, math.MaxUint32)
			for n < len(out) && len(b)-at >= 9 && b[at] == wire.Tag64 {
				o := binary.LittleEndian.Uint64(b[at+1:])
				if o <= last {
					return n, at
				}
				out[n], last = o, o
				n++
				at += 9
			}
		default:
			for n < len(out) && at < len(b) && b[at] < wire.Tag16 {
				o := uint64(b[at])
				if o <= last {
					return n, at
				}
				out[n], last = o, o
				n++
				at++
			}
		}
		if n == run {
			break
		}
	}
	return n, at
}

// decodePool reads the pool of an ET of n entries, and returns their parents if they are
// wanted.
func decodePool(d *decoder, n int, wanted bool) (parents []uint32, err error) {
	at := d.off
	if d.Len("pool", 1) != n {
		return nil, firstError(d, at, noEntry, "pool", errBadPool)
	}
	if wanted {
		parents = make([]uint32, n)
	}
	seen := make([]uint64, n/64+1) // a bit for each that has a parent
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
		last := uint64(i) // a child is later than its parent, and they come in order
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
			if seen[id/64] |= 1 << (id % 64); wanted {
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

// maxUintSize is how many bytes a number takes at most.
const maxUintSize = 9

// parentIn returns the parent that the encoded entry b begins with, 0 if it is none.
func parentIn(b []byte) uint32 {
	d := decoder{b: b}
	p := d.Uint("", 64)
	if p > math.MaxUint32 {
		return 0
	}
	return uint32(p)
}

// firstError returns what d met, else the damage err.
func firstError(d *decoder, at int, entry int64, field string, err error) error {
	if derr := d.Err(); derr != nil {
		return derr
	}
	return &CorruptError{Offset: int64(at), Entry: entry, Field: field, Err: err}
}

// A table is where the entries of a trace begin and what their parents are.
type table struct {
	data     int64     // offset of the first entry in the file
	offsets  positions // relative to data; one more than there are entries
	parents  []uint32  // nil: not wanted
	prefixed bool      // each entry comes behind its length

	placesOnly bool // parents are not wanted
}

func newTable() *table {
	t := &table{data: wire.MagicSize}
	t.offsets.add(0)
	return t
}

// len returns the number of entries.
func (t *table) len() int { return t.offsets.len() - 1 }

// gap returns how many bytes are before each entry.
func (t *table) gap() int {
	if t.prefixed {
		return prefixSize
	}
	return 0
}

// stepSize is after how many bytes a scan reports what it has done.
const stepSize = 1 << 20

// scanEntries reads through a trace of size bytes. What it returns holds whatever is whole,
// even with an error. Now and then it calls step, unless that is nil, with the
// bytes that were read.
func scanEntries(src io.Reader, size int64, step func(int64) error) (*table, error) {
	t := newTable()
	r, err := newReader(src, nil, walkSize)
	if err != nil {
		return t, err
	}
	t.data = r.off
	return t, t.scan(r, size, step)
}

// scan is scanEntries of what r still has, which t adds to what it has.
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
	whole := t.len() // entries up to the last that is not all zeros
	for next := int64(0); ; {
		n := t.len()
		if r.skim(add); t.len() > n {
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

// grow makes room for as many entries as are likely in the left bytes that are
// still to be read, but for few times as many as there are: the file can be
// sparse.
func (t *table) grow(left int64) {
	n := t.len()
	most := 4*n + 1024
	if read := int64(t.offsets.last()); read > 0 {
		// A sixteenth more, for the later ones can be smaller.
		more := max(left, read) / (read / int64(n))
		most = int(min(int64(most), int64(n)+more+more/16+64))
	}
	if !t.placesOnly {
		t.parents = append(make([]uint32, 0, most), t.parents...)
	}
	t.offsets.grow(most + 1)
}

// dropZeros drops the entries of nothing but zeros before damage: they belong to
// it.
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

// children turns a table of parents around.
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
	// Put each child at the end of what its parent has so far; first then has
	// moved on by one place, which the copy puts right.
	for i, p := range parents[1:] {
		kids[first[p]] = uint32(i + 1)
		first[p]++
	}
	copy(first[1:], first[:n])
	first[0] = 0
	return first, kids
}
