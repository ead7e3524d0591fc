package format

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/entrace-go/entrace/internal/mapfile"
	"github.com/entrace-go/entrace/internal/wire"
)

// A Last is the last entries of a trace file.
type Last struct {
	name    string
	version Version
	format  StorageFormat
	gap     int
	base    int64 // where buf is in the file
	buf     []byte
	at      []int // where the entries begin in buf, and where the last ends
	first   int64 // the id of the first, -1 if it is not known
}

// lastSize is how much of a file ReadLast looks at.
const lastSize = 4 << 20

// ReadLast reads the last entries of the trace file name, of a few megabytes, which takes the same
// moment for a file of any size. Where entries begin it finds by trying: a chain of entries that
// leads to the end of the file is one, and the table of an ET must have it. It returns nil if it
// finds none or several, and if the file is so small that [Open] takes no longer. An IET that grows
// may end within an entry. An IET has no table: where one has a trace of several megabytes as an
// attribute within its last few, the entries of that can be taken for its own.
func ReadLast(name string, grows bool) (*Last, error) {
	name = Find(name)
	src, err := mapfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if src.Size() < 4*lastSize {
		return nil, nil //nolint:nilnil // none is an answer
	}
	// What an ET's table says is at its beginning.
	var head [64]byte
	if _, err := src.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	l := &Last{name: name, base: src.Size() - lastSize, buf: make([]byte, lastSize), first: -1}
	if _, err = src.ReadAt(l.buf, l.base); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if src.Shrunk() {
		return nil, ErrShrunk
	}
	if l.version, l.format, err = ParseMagic(head[:]); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	if l.format == IETPrefix {
		l.gap = prefixSize
	}
	if !l.find(l.format != ET && grows) {
		return nil, nil //nolint:nilnil // as above
	}
	if l.format == ET && !l.inTable(src, head[:]) {
		return nil, nil //nolint:nilnil // as above
	}
	return l, nil
}

// inTable reports whether the entries are those that the table of an ET has last, and finds their
// ids. The larger an offset the more bytes it takes: so those of one size can be counted.
func (l *Last) inTable(src io.ReaderAt, head []byte) bool {
	d := decoder{version: l.version}
	d.reset(head, 0, noEntry)
	d.off = MagicSize
	n := int64(d.Uint("offsets", 64))
	if l.first = n - int64(l.Len()); d.Err() != nil || l.first < 1 {
		return false
	}
	at := int64(d.off)
	offset := func(place int64) (uint64, int) {
		var b [9]byte
		k, _ := src.ReadAt(b[:], place)
		d := decoder{version: l.version}
		d.reset(b[:k], place, noEntry)
		v := d.Uint("offsets", 64)
		if d.Err() != nil {
			return 0, 0
		}
		return v, d.off
	}
	// Those of one and of three bytes come first, and are few.
	i := int64(0)
	size := int64(0)
	for ; i < n; i++ {
		_, k := offset(at)
		if size = int64(k); size == 0 || size >= 5 {
			break
		}
		at += size
	}
	if size != 5 && size != 9 {
		return false
	}
	// Then those of five: the first of nine is where that no longer fits.
	fives := int64(0)
	if size == 5 {
		fives = int64(sort.Search(int(n-i), func(k int) bool {
			_, size := offset(at + 5*int64(k))
			return size != 5
		}))
	}
	place := func(id int64) int64 {
		if id -= i; id < fives {
			return at + 5*id
		}
		return at + 5*fives + 9*(id-fives)
	}
	if l.first < i {
		return false
	}
	last, k := offset(place(n - 1))
	data := l.base + int64(l.at[l.Len()-1]) - int64(last)
	if k == 0 || data < place(n) {
		return false
	}
	for k := range l.Len() {
		if o, size := offset(place(l.first + int64(k))); size == 0 || data+int64(o) != l.base+int64(l.at[k]) {
			return false
		}
	}
	return true
}

// find finds the entries in buf. The first ones of a chain may be none: they only lead to one
// that is. So what begins in the first eighth is not taken. Nothing is, if another chain from there
// leads to the end as well: what is in an attribute can look like entries. All chains together are
// not longer than a few times buf: bytes that are made for it make each of them long.
func (l *Last) find(grows bool) bool {
	left := 8 * len(l.buf)
	var first []int
	for from := 0; from < len(l.buf)/8; from++ {
		end, same := l.chain(from, first)
		if left -= end - from; left < 0 {
			return false
		}
		if same {
			continue
		}
		if l.at = append(l.at, end); !l.isEnd(end, grows) {
			continue
		}
		if first != nil {
			return false
		}
		if first, l.at = l.at, nil; l.format == ET {
			break // its table is the proof
		}
	}
	from, _ := slices.BinarySearch(first, len(l.buf)/8)
	l.at = first[from:]
	return len(l.at) > fewEntries
}

// fewEntries is how many entries a chain has at least.
const fewEntries = 32

// chain fills at with the entries that follow each other from a place on, and returns where the
// last one ends, or comes to an entry of a chain that is known.
func (l *Last) chain(from int, known []int) (end int, same bool) {
	l.at = l.at[:0]
	columns := l.version.HasColumns()
	for pos := from; ; {
		at := pos + l.gap
		if at >= len(l.buf) {
			return pos, false
		}
		if _, same := slices.BinarySearch(known, pos); same {
			return pos, true
		}
		_, size, ok := wire.SkipEntry(l.buf[at:], columns)
		if !ok || l.gap > 0 && prefix(l.buf[pos:]) != uint64(size) {
			return pos, false
		}
		l.at = append(l.at, pos)
		pos = at + size
	}
}

// isEnd reports whether a chain that ends at a place leads to the end of the file, or, of one that
// grows, to an entry that is being written. Zeros at the end of such a file are no entries yet.
func (l *Last) isEnd(end int, grows bool) bool {
	if end < len(l.buf) {
		d := decoder{version: l.version, maxSize: DefaultMaxEntrySize}
		_, size, err := d.next(l.buf[end:], l.base+int64(end), noEntry, l.gap > 0, new(TraceEntry))
		if !grows || size > 0 || err != nil {
			return false
		}
	}
	for n := len(l.at); n > 1 && isZero(l.buf[l.at[n-2]:l.at[n-1]]); n-- {
		if !grows {
			return false
		}
		l.at = l.at[:n-1]
	}
	return len(l.at) > fewEntries
}

// Name returns the name of the file that was read.
func (l *Last) Name() string { return l.name }

// Format returns the storage format.
func (l *Last) Format() StorageFormat { return l.format }

// Len returns how many entries there are.
func (l *Last) Len() int { return len(l.at) - 1 }

// ID returns the id of the i-th entry, -1 if that cannot be known without reading the whole file.
func (l *Last) ID(i int) int64 {
	if l.first < 0 {
		return -1
	}
	return l.first + int64(i)
}

// WholeSize returns where the last entry ends in the file, as [File.WholeSize] does.
func (l *Last) WholeSize() int64 { return l.base + int64(l.at[len(l.at)-1]) }

// Entry returns the i-th entry. The caller owns it.
func (l *Last) Entry(i int) (*TraceEntry, error) {
	d := decoder{version: l.version, maxSize: DefaultMaxEntrySize, whole: true}
	from := l.at[i] + l.gap
	d.reset(append([]byte(nil), l.buf[from:l.at[i+1]]...), l.base+int64(from), l.ID(i))
	entry := new(TraceEntry)
	d.traceEntry(entry)
	return entry, d.Err()
}
