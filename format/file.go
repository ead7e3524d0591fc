package format

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// OpenOptions change how [Open] works.
type OpenOptions struct {
	ReaderOptions

	// File, if set, is the open file to read. The name is then used only in errors. The [File] that Open returns
	// owns this file. If Open fails, it closes this file.
	File *os.File
	// Lenient makes Open accept a corrupt file. The File then has the entries before the damage, and [File.Damage]
	// returns the damage. If the tables of an ET are valid, Open reads only the last entry of the ET: if another
	// entry is damaged, reading that entry returns an error.
	Lenient bool
	// Prefix implies Lenient, and makes Open read every entry of an ET. The File then has only the entries before
	// the first damaged entry.
	Prefix bool
}

// A File gives random access to the entries of a trace file. For an ET, it uses the table in the file. For an IET
// or IETPrefix, Open scans the file once and builds an index. The file is mapped into memory. A File has the
// entries that were in the file when it was opened. It needs a little more than 2 bytes of memory for each entry,
// and 8 more bytes after the first call of [File.Children].
//
// A File is safe for concurrent use.
type File struct {
	src     *mapfile.File
	name    string
	stored  int64 // the number of bytes in the file itself; the rest of src came from a journal
	missing error // see Journal
	version Version
	format  StorageFormat
	maxSize int
	damage  error

	growing sync.Mutex
	damaged atomic.Pointer[error] // set by grow; replaces damage

	// Invariants, for n entries: offsets has n+1 items, which are ascending and relative to data. The last item is the end
	// of the last complete entry.
	data    int64
	offsets atomic.Pointer[positions]
	gap     int64 // the size of the length before each entry: 8 in IETPrefix, otherwise 0
	longer  bool  // a number in an ET's tables is not in its shortest form

	// Set by the first call of Children. Invariants: first has n+1 items, and
	// kids[first[i]:first[i+1]] are the children of i, ascending.
	tree  sync.Once
	first []uint32
	kids  []uint32
}

// Open opens the trace file name, which must be a regular file. If the file does not exist, Open uses the name
// that [Find] returns: x.iet for x.et, or x.et for x.iet. A nil o means defaults. If the writer died, package
// recorder's Open also reads the entries in the writer's journal.
//
// If the writer died, the file may stop within an entry. Open accepts such a file: the File has the complete entries,
// and [File.Damage] says where the file stops. Any other damage is an error, usually a [*CorruptError]; see
// [OpenOptions].
func Open(name string, o *OpenOptions) (*File, error) {
	var m *mapfile.File
	var err error
	if o != nil && o.File != nil {
		m, err = mapfile.New(o.File)
	} else {
		name = Find(name)
		m, err = mapfile.Open(name)
	}
	if err != nil {
		return nil, err
	}
	return openMapped(m, name, m.Size(), nil, o)
}

// openMapped opens a file that is already mapped. Packages of this module call it as entrybytes.OpenMapped.
func openMapped(m *mapfile.File, name string, stored int64, missing error, o *OpenOptions) (*File, error) {
	if o == nil {
		o = &OpenOptions{}
	}
	f := &File{src: m, name: name, stored: stored, missing: missing, maxSize: o.maxEntrySize()}
	f.offsets.Store(new(positions))
	if err := f.index(o); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", name, err), m.Close())
	}
	return f, nil
}

// index reads the magic, and fills the tables of f.
func (f *File) index(o *OpenOptions) error {
	var err error
	f.version, f.format, err = ReadMagic(io.NewSectionReader(f.src, 0, f.src.Size()))
	if err != nil {
		return f.readError(err)
	}
	if f.format == ET {
		_, err = f.tables(false)
		err = f.readError(err)
		if err == nil && !o.Prefix {
			return nil
		}
	}
	serr := f.readError(f.scan())
	if serr == nil && f.src.Shrunk() {
		serr = ErrShrunk // a truncated page reads as zeros
	}
	if errors.Is(serr, ErrShrunk) {
		return serr
	}
	cut, torn := errors.AsType[*TruncatedError](serr)
	switch {
	case err == nil:
		err = serr
	case torn:
		// The tables of a truncated ET do not match its size. Report the ET as truncated.
		if cut.Entry >= 0 || !errors.Is(err, ErrTruncated) {
			err = serr
		}
	case !o.Lenient && !o.Prefix:
		return err
	}
	f.damage = err
	if o.Lenient || o.Prefix || err == nil || errors.Is(err, ErrTruncated) {
		return nil
	}
	return err
}

// scan fills the tables of f from the entries themselves.
func (f *File) scan() error {
	t := newTable()
	t.placesOnly = true
	size := f.src.Size()
	r, err := newReader(io.NewSectionReader(f.src, 0, size), &ReaderOptions{MaxEntrySize: f.maxSize}, walkSize)
	if err == nil {
		t.data = r.off
		err = t.scan(r, size, nil)
	}
	f.data = t.data
	f.offsets.Store(&t.offsets)
	if f.format == IETPrefix {
		f.gap = prefixSize
	}
	return err
}

// Name returns the name of the file that was opened.
func (f *File) Name() string { return f.name }

// Version returns the disk version.
func (f *File) Version() Version { return f.version }

// Format returns the storage format.
func (f *File) Format() StorageFormat { return f.format }

// Size returns the size in bytes of the file, plus the size of the entries that came from a journal.
func (f *File) Size() int64 { return f.src.Size() }

// Journal returns the number of entries that are not in the file but came from the journal of its dead writer. Only
// package recorder's Open reads a journal. The error missing says why entries are missing or may be missing. If a
// living process has not yet written its last entries to the file, missing is [ErrLocked]; the process writes them
// within a tenth of a second. Otherwise missing is the error of reading the journal.
func (f *File) Journal() (entries int, missing error) {
	f.growing.Lock()
	defer f.growing.Unlock()
	n := f.Len()
	for i := n; i > 0 && f.data+int64(f.offsets.Load().at(i)) > f.stored; i-- {
		entries++
	}
	if entries > 0 {
		if e, err := f.Entry(uint32(n - 1)); err == nil && e.IsRecovered() {
			entries-- // recovery appended this entry: it was in no journal
		}
	}
	return entries, f.missing
}

// WholeSize returns the size in bytes of the header and the complete entries.
func (f *File) WholeSize() int64 { return f.data + int64(f.offsets.Load().last()) }

// Damage says why the entries end before the end of the file, or returns nil if the file is complete. The error is a
// [*TruncatedError], or if the file was opened with [OpenOptions].Lenient, possibly a [*CorruptError].
func (f *File) Damage() error {
	if d := f.damaged.Load(); d != nil {
		return *d
	}
	return f.damage
}

// Len returns the number of complete entries. Their ids are 0 to Len()-1.
func (f *File) Len() int { return max(f.offsets.Load().len()-1, 0) }

// Children returns the ids of the children of an entry, ascending. It returns nil if the entry does not exist. The
// caller must not change the slice. The first call reads the whole file, which takes about 30 nanoseconds per
// entry.
func (f *File) Children(id uint32) []uint32 {
	if int64(id) >= int64(f.Len()) {
		return nil
	}
	f.tree.Do(f.children)
	if int64(id)+1 >= int64(len(f.first)) {
		return nil // the entry was added after the first call
	}
	a, b := f.first[id], f.first[id+1]
	return f.kids[a:b:b]
}

// Parent returns the id of the parent of the entry with the given id. It returns 0 for the root, for an entry that
// does not exist, and for an entry that cannot be read.
func (f *File) Parent(id uint32) uint32 {
	if int64(id) >= int64(f.Len()) {
		return 0
	}
	off, n, err := f.span(id)
	if err != nil {
		return 0
	}
	var parent uint32
	_ = f.view(off, min(n, maxUintSize), func(raw []byte) { parent = parentIn(raw, id) })
	return parent
}

// children fills f.first and f.kids.
func (f *File) children() {
	parents := make([]uint32, f.Len())
	err := f.walkRaw(0, func(id uint32, raw []byte) error {
		parents[id] = parentIn(raw, id)
		return nil
	})
	if err != nil {
		parents = parents[:0] // the file was closed or truncated
	}
	f.first, f.kids = children(parents)
}

// span returns the offset of an entry in the file, and its size.
func (f *File) span(id uint32) (off, n int64, err error) {
	if int64(id) >= int64(f.Len()) {
		return 0, 0, fmt.Errorf("format: no entry %d: the file has %d entries", id, f.Len())
	}
	a, b := int64(f.offsets.Load().at(int(id)))+f.gap, int64(f.offsets.Load().at(int(id)+1))
	return f.data + a, b - a, f.checkSize(id, b-a)
}

// checkSize returns an error if n, the size of entry id, exceeds the limit, because the offsets of an ET can claim
// any size.
func (f *File) checkSize(id uint32, n int64) error {
	if n <= int64(f.maxSize) {
		return nil
	}
	return &CorruptError{
		Offset: f.data + int64(f.offsets.Load().at(int(id))), Entry: int64(id), Field: "offsets",
		Err: &lengthError{Claimed: uint64(n), Remaining: uint64(f.maxSize)},
	}
}

// appendRaw appends the encoding of entry id to b, and returns the extended slice.
func (f *File) appendRaw(b []byte, id uint32) ([]byte, error) {
	off, n, err := f.span(id)
	if err != nil {
		return b, err
	}
	at := len(b)
	err = f.view(off, n, func(v []byte) { b = append(b, v...) })
	if err != nil {
		return b[:at], err
	}
	return b, nil
}

// view calls fn with n bytes of the file from offset off on. If the file was truncated within a page, the rest of
// the page reads as zeros and causes no fault. In this case view returns ErrShrunk.
func (f *File) view(off, n int64, fn func(v []byte)) error {
	doubtful := false
	err := f.src.View(off, n, func(v []byte) error {
		fn(v)
		doubtful = len(v) > 0 && v[len(v)-1] == 0
		return nil
	})
	if err == nil && doubtful && f.src.Shrunk() {
		return ErrShrunk
	}
	return f.readError(err)
}

// Entry returns the entry with the given id. The caller owns the entry.
func (f *File) Entry(id uint32) (*TraceEntry, error) {
	raw, err := f.appendRaw(nil, id)
	if err != nil {
		return nil, err
	}
	e := new(TraceEntry)
	return e, f.decode(raw, id, e)
}

// decode decodes raw, the encoding of entry id, into e.
func (f *File) decode(raw []byte, id uint32, e *TraceEntry) error {
	d := f.decoder(raw, id)
	return f.readError(d.single(e))
}

func (f *File) decoder(raw []byte, id uint32) decoder {
	d := decoder{version: f.version, maxSize: f.maxSize, whole: true}
	d.reset(raw, f.data+int64(f.offsets.Load().at(int(id)))+f.gap, int64(id))
	return d
}

// readError returns ErrShrunk instead of err if the file was truncated after it was opened, and ErrClosed if the
// file was closed.
func (f *File) readError(err error) error {
	if err == nil {
		return nil
	}
	if fault, ok := errors.AsType[*mapfile.FaultError](err); ok {
		return fmt.Errorf("%w: no byte at offset %d", ErrShrunk, fault.Offset)
	}
	if errors.Is(err, mapfile.ErrClosed) {
		return ErrClosed
	}
	if f.src.Shrunk() {
		return ErrShrunk
	}
	return err
}

// Attribute returns the value of the first attribute called name of the entry with the given id. The result found is
// false if the entry does not have the attribute. Attribute decodes only the part of the entry that it needs, so it may
// not report damage after the attribute.
func (f *File) Attribute(id uint32, name string) (v Value, found bool, err error) {
	off, n, err := f.span(id)
	if err != nil {
		return Value{}, false, err
	}
	var derr error
	err = f.view(off, n, func(raw []byte) {
		if at, ok := wire.FindAttribute(raw, f.version.hasColumns(), name); ok {
			if at == wire.Nowhere {
				return
			}
			d := f.decoder(raw, id)
			d.off = at
			d.value("", &v)
			found = !d.failed()
			if found {
				v = v.clone()
				return
			}
		}
		var e TraceEntry
		derr = f.decode(raw, id, &e)
		if derr == nil {
			v, found = e.Attribute(name)
			v = v.clone()
		}
	})
	err = errors.Join(err, derr)
	if err != nil {
		return Value{}, false, err
	}
	return v, found, nil
}

// walkSize is the number of bytes of a file that Walk copies at once.
const walkSize = 256 << 10

// Walk calls fn for each entry from the given id on, in order, until fn returns an error or no entries are left.
// An entry is valid only until fn returns.
func (f *File) Walk(id uint32, fn func(id uint32, e *TraceEntry) error) error {
	var e TraceEntry
	return f.walkRaw(id, func(id uint32, raw []byte) error {
		if err := f.decode(raw, id, &e); err != nil {
			return err
		}
		return fn(id, &e)
	})
}

// walkRaw is like Walk, but passes the encoding of each entry to fn.
func (f *File) walkRaw(id uint32, fn func(id uint32, raw []byte) error) error {
	var buf []byte
	offsets := f.offsets.Load()
	for n := uint32(f.Len()); id < n; {
		base := offsets.at(int(id))
		last := id + 1
		for last < n && offsets.at(int(last)+1)-base <= walkSize {
			last++
		}
		size := int(offsets.at(int(last)) - base)
		if err := f.checkSize(id, int64(size)-f.gap); size > walkSize && err != nil {
			return err
		}
		if cap(buf) < size {
			buf = make([]byte, size)
		}
		buf = buf[:size]
		if err := f.view(f.data+int64(base), int64(size), func(v []byte) { copy(buf, v) }); err != nil {
			return err
		}
		for ; id < last; id++ {
			a, b := int64(offsets.at(int(id))-base)+f.gap, int64(offsets.at(int(id)+1)-base)
			if err := fn(id, buf[a:b]); err != nil {
				return err
			}
			entrybytes.Spoil(buf[a:b])
		}
	}
	return nil
}

// Close waits for running calls and then closes the file. Every later call, including
// a second Close, returns [ErrClosed].
func (f *File) Close() error {
	err := f.src.Close()
	if errors.Is(err, mapfile.ErrClosed) {
		return ErrClosed
	}
	return err
}

// Find returns the name of the file to read if a user names the file name. If the file exists, Find returns name.
// Otherwise Find tries the other name that a recorder uses: x.iet for x.et, and x.et for x.iet. If neither file
// exists, Find returns name.
func Find(name string) string {
	if osfile.Exists(name) {
		return name
	}
	other := tracename.Stream(name)
	if base, ok := strings.CutSuffix(name, tracename.IET); ok {
		other = base + tracename.ET
	}
	if other != name && osfile.Exists(other) {
		return other
	}
	return name
}
