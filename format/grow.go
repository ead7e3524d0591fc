package format

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"

	"github.com/entrace-go/entrace/internal/raw"
	"github.com/entrace-go/entrace/internal/wire"
)

// Raw returns the encoded entries of f. It is for packages of this module.
func (f *File) Raw() raw.Entries { return entries{f} }

// DecodeRaw decodes b, the encoding of entry id, into e, whose texts alias b. It is for packages of
// this module.
func (f *File) DecodeRaw(b []byte, id uint32, e *TraceEntry) error { return f.decode(b, id, e) }

// entries implements raw.Entries.
type entries struct{ f *File }

func (e entries) Columns() bool                  { return e.f.version.HasColumns() }
func (e entries) Gap() int                       { return int(e.f.gap) }
func (e entries) Offset(id uint32) int64         { return e.f.data + int64(e.f.offsets.Load().at(int(id))) }
func (e entries) End() int64                     { return e.f.WholeSize() }
func (e entries) Grow(ctx context.Context) error { return e.f.grow(ctx) }

func (e entries) Append(buf []byte, id uint32) ([]byte, error) { return e.f.AppendRaw(buf, id) }

func (e entries) View(off, n int64, fn func(b []byte)) error { return e.f.view(off, n, fn) }

// grow takes in the entries that were written to the file since it was opened or grew last. What
// comes last and is not whole, or nothing but zeros, can change, so it waits. An ET does not
// grow, nor what a dead writer has left in a journal.
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
	from := f.WholeSize()
	if fi.Size() < from {
		return ErrShrunk
	}
	p := *f.offsets.Load()
	p.shared = true
	was := p.len()
	d := decoder{version: f.version, maxSize: f.maxSize}
	buf := make([]byte, min(fi.Size()-from, walkSize))
	kept := was // up to the last entry that is not all zeros
	damage := error(nil)
	for at := from; at < fi.Size() && damage == nil; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.src.File().ReadAt(buf[:min(int64(len(buf)), fi.Size()-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		size := 0
		size, damage = f.takeWhole(&d, buf[:n], at, &p, &kept)
		if at += int64(size); size == 0 {
			if d.need <= len(buf) || int64(d.need) > fi.Size()-at {
				break // its rest is not there yet
			}
			buf = make([]byte, d.need)
		}
	}
	f.damaged.Store(&damage)
	if kept > was {
		p.cut(kept)
		f.src.Grow(f.data + int64(p.last()))
		f.stored = f.src.Size()
		f.offsets.Store(&p)
	}
	return nil
}

// takeWhole adds to p the whole entries that b begins with, which lies at off in the file, and
// returns how many bytes they take. Kept becomes the length of p behind the last that is not all
// zeros.
func (f *File) takeWhole(d *decoder, b []byte, off int64, p *positions, kept *int) (size int, damage error) {
	var e TraceEntry
	for {
		id := int64(p.len() - 1)
		if id > math.MaxUint32 {
			return size, &CorruptError{Offset: off + int64(size), Entry: id, Err: ErrFull}
		}
		raw, n := b[size:], 0
		parent, quick, ok := uint32(0), 0, false
		if f.gap == 0 {
			parent, quick, ok = wire.SkipEntry(raw, f.version.HasColumns())
		}
		if ok && quick <= f.maxSize && (parent == 0 || int64(parent) < id) {
			raw, n = raw[:quick], quick
		} else {
			var err error
			if raw, n, err = d.next(b[size:], off+int64(size), id, f.gap > 0, &e); n == 0 {
				return size, err
			}
		}
		size += n
		p.add(uint64(off + int64(size) - f.data))
		if f.format != IET || len(bytes.TrimLeft(raw, "\x00")) > 0 {
			*kept = p.len()
		}
	}
}
