package format

import (
	"context"
	"errors"

	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/file/mapfile"
)

func init() {
	entrybytes.Of = func(f any) entrybytes.Entries { return entries{f.(*File)} }
	entrybytes.OpenMapped = func(m *mapfile.File, name string, stored int64, missing error, o any) (any, error) {
		return openMapped(m, name, stored, missing, o.(*OpenOptions))
	}
	entrybytes.Finalize = func(ctx context.Context, iet, et string, o any, x *entrybytes.Index) error {
		return finalize(ctx, iet, et, o.(*FinalizeOptions), x)
	}
}

// DecodeRaw decodes b, the encoding of the entry with the given id, into e. The texts of e alias b. DecodeRaw is
// meant for packages of this module.
func (f *File) DecodeRaw(b []byte, id uint32, e *TraceEntry) error { return f.decode(b, id, e) }

// entries implements entrybytes.Entries.
type entries struct{ f *File }

func (e entries) Columns() bool                  { return e.f.version.hasColumns() }
func (e entries) Gap() int                       { return int(e.f.gap) }
func (e entries) Offset(id uint32) int64         { return e.f.data + int64(e.f.offsets.Load().at(int(id))) }
func (e entries) End() int64                     { return e.f.WholeSize() }
func (e entries) Grow(ctx context.Context) error { return e.f.grow(ctx) }

func (e entries) Append(buf []byte, id uint32) ([]byte, error) { return e.f.appendRaw(buf, id) }

func (e entries) View(off, n int64, fn func(b []byte)) error { return e.f.view(off, n, fn) }

// grow adds the entries that were written to the file since it was opened or since the last call. The bytes of an
// incomplete entry at the end, and zeros at the end, can still change: grow ignores them, and a later call reads them
// again. grow adds nothing to an ET, nor to a File that has entries from the journal of a dead writer.
func (f *File) grow(ctx context.Context) error {
	if f.format == ET {
		return nil
	}
	f.growing.Lock()
	defer f.growing.Unlock()
	if f.stored != f.src.Size() {
		return nil
	}
	fi, err := f.src.File().Stat()
	if err != nil {
		return err
	}
	from, was := f.WholeSize(), f.Len()
	if fi.Size() < from {
		return ErrShrunk
	}
	t := &table{data: f.data, offsets: *f.offsets.Load(), placesOnly: true}
	t.offsets.shared = true
	r := &Reader{version: f.version, format: f.format, d: decoder{version: f.version, maxSize: f.maxSize}}
	r.buf = make([]byte, min(fi.Size()-from, walkSize))
	r.goOn(f.src.File(), from, int64(was))
	damage := t.scan(r, fi.Size(), func(int64) error { return ctx.Err() })
	_, corrupt := errors.AsType[*CorruptError](damage)
	switch {
	case corrupt:
	case damage == nil, errors.Is(damage, ErrTruncated):
		damage = nil // the rest is not yet written
	default:
		return damage
	}
	f.damaged.Store(&damage)
	if t.len() > was {
		f.src.Grow(f.data + int64(t.offsets.last()))
		f.stored = f.src.Size()
		f.offsets.Store(&t.offsets)
	}
	return nil
}
