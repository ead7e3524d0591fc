package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/entrace-go/entrace/internal/raw"
	"github.com/entrace-go/entrace/internal/wire"

	"github.com/entrace-go/entrace/internal/osfile"
)

// FinalizeOptions change how [Finalize] works.
type FinalizeOptions struct {
	// Replace lets the ET take the place of a file that is there.
	Replace bool
	// RemoveSource removes the IET when the ET is durable.
	RemoveSource bool
	// Progress, if set, is called now and then with how many bytes of how many
	// are done.
	Progress func(done, total int64)
	// Torn, if set, is called with the [*TruncatedError] of an IET that stops
	// within an entry.
	Torn func(error)

	// File, if set, is the open IET. With RemoveSource it is open for writing. It is not closed.
	File *os.File
	// Lenient makes an ET of what is before damage as well.
	Lenient bool
	// Index, if set, is that of the IET. It saves reading the file once if it ends where the
	// file does.
	Index *raw.Index
}

// A FinalizeError says which step did not succeed. The IET is as it was, and
// there is no new ET.
type FinalizeError struct {
	Step     string
	IET, ET  string
	Err      error
	Finished bool // the ET is complete, but the IET could not be removed
}

func (e *FinalizeError) Error() string {
	return fmt.Sprintf("finalize %s to %s: %s: %v", e.IET, e.ET, e.Step, e.Err)
}

// Unwrap returns Err.
func (e *FinalizeError) Unwrap() error { return e.Err }

// Finalize makes the ET file et out of the IET or IETPrefix file iet, with the
// same bytes as its data section. An IET that stops within an entry gives an ET
// of the whole ones; other damage is an error. A nil o means defaults.
//
// The new file appears under its name when it is complete, synced and verified,
// never before. Errors are [*FinalizeError], fs.ErrExist within when et is there
// already.
func Finalize(ctx context.Context, iet, et string, o *FinalizeOptions) error {
	if o == nil {
		o = &FinalizeOptions{}
	}
	fail := func(step string, err error) error {
		if err == nil {
			return nil
		}
		return &FinalizeError{Step: step, IET: iet, ET: et, Err: err}
	}
	f := o.File
	if f == nil {
		open := osfile.OpenRead
		if o.RemoveSource {
			open = osfile.OpenWrite // Windows syncs no file that is open for reading
		}
		var err error
		if f, err = open(iet); err != nil {
			return fail("open", err)
		}
		defer f.Close()
	}
	fi, err := f.Stat()
	if err != nil {
		return fail("stat", err)
	}
	if have, err := os.Lstat(et); err == nil {
		switch {
		case os.SameFile(fi, have):
			return fail("open", errors.New("source and destination are the same file"))
		case have.Mode()&fs.ModeSymlink != 0 && o.Replace: // the link itself is replaced
		case !have.Mode().IsRegular():
			return fail("open", ErrNotRegular)
		}
	}
	size := fi.Size()
	step := func(done int64) error {
		if o.Progress != nil {
			o.Progress(done, 2*size)
		}
		return ctx.Err()
	}
	// Before anything is written, else a rename could outlive what it replaced.
	synced := make(chan error, 1)
	if o.RemoveSource {
		go func() { synced <- f.Sync() }()
	} else {
		synced <- nil
	}
	t, v, err := tableOf(f, size, o.Index, step)
	serr := <-synced
	if errors.Is(err, ErrTruncated) && t != nil {
		if o.Torn != nil {
			o.Torn(err)
		}
		err = nil
	}
	if _, corrupt := errors.AsType[*CorruptError](err); err != nil && (!o.Lenient || !corrupt) {
		return fail("read", err)
	}
	if serr != nil {
		return fail("sync", serr)
	}
	tmp, err := osfile.CreateTemp(et)
	if err != nil {
		return fail("create", err)
	}
	defer tmp.Discard()
	ahead := newSyncer(tmp.Sync)
	err = writeET(tmp.File, v, t, f, func(n int64) error {
		ahead.wrote(n)
		return step(size + n)
	})
	if err = errors.Join(err, ahead.stop()); err != nil {
		return fail("write", err)
	}
	if err := tmp.Sync(); err != nil {
		return fail("sync", err)
	}
	if err := verifyET(tmp.Name(), t); err != nil {
		return fail("verify", err)
	}
	if err := tmp.Commit(o.Replace); err != nil {
		return fail("rename", err)
	}
	if o.RemoveSource && osfile.SameFile(f, iet) {
		if err := errors.Join(osfile.Remove(f, iet), osfile.SyncDir(iet)); err != nil {
			return &FinalizeError{Step: "remove", IET: iet, ET: et, Err: err, Finished: true}
		}
	}
	return nil
}

// tableOf returns the table of the IET or IETPrefix f of size bytes, which may end
// in a part of an entry: that of x, if it fits, else what a scan finds.
func tableOf(f io.ReaderAt, size int64, x *raw.Index, step func(int64) error) (*table, Version, error) {
	var magic [wire.MagicSize]byte
	n, err := f.ReadAt(magic[:min(size, wire.MagicSize)], 0)
	if err != nil {
		return nil, 0, err
	}
	v, format, err := parseMagic(magic[:n])
	if err != nil {
		return nil, 0, err
	}
	if format == ET {
		return nil, 0, fmt.Errorf("%w: it is an ET already", ErrUnsupported)
	}
	if x != nil && format == IET && wire.MagicSize+x.Size() == size {
		return tableIn(x), v, step(size)
	}
	t, err := scanEntries(io.NewSectionReader(f, 0, size), size, step)
	t.prefixed = format == IETPrefix
	return t, v, err
}

// tableIn returns the table of x, which is whole.
func tableIn(x *raw.Index) *table {
	t := newTable()
	t.offsets.grow(x.Len() + 1)
	t.parents = make([]uint32, 0, x.Len())
	off := uint64(0)
	x.Each(func(size, parent uint32, _ bool) bool {
		off += uint64(size)
		t.offsets.add(off)
		t.parents = append(t.parents, parent)
		return true
	})
	return t
}

// copySize is how much of a file is copied at once, and syncSize after how much
// more of it the disk is set to work.
const (
	copySize = 1 << 20
	syncSize = 32 << 20
)

// A syncer syncs a file while it is being written, so that the disk does not
// stand idle until the end.
type syncer struct {
	next int64         // sync when so much is written
	kick chan struct{} // has one while a sync is due
	done chan error
}

func newSyncer(sync func() error) *syncer {
	s := &syncer{next: syncSize, kick: make(chan struct{}, 1), done: make(chan error, 1)}
	go func() {
		var err error
		for range s.kick {
			// An error is reported once: the last sync may not know of it.
			err = errors.Join(err, sync())
		}
		s.done <- err
	}()
	return s
}

// wrote takes note that n bytes are written.
func (s *syncer) wrote(n int64) {
	if n < s.next {
		return
	}
	s.next = n + syncSize
	select {
	case s.kick <- struct{}{}:
	default: // the disk is behind anyway
	}
}

// stop waits for the sync that is under way and returns what went wrong.
func (s *syncer) stop() error {
	close(s.kick)
	return <-s.done
}

// writeET writes an ET to w whose entries are those of t in src. Now and then it
// calls step with how many bytes of entries were copied.
func writeET(w io.Writer, v Version, t *table, src io.ReaderAt, step func(int64) error) error {
	if err := writeTables(w, v, t); err != nil {
		return err
	}
	buf := make([]byte, min(copySize, t.offsets.last()))
	if t.prefixed {
		return copyUnprefixed(w, t, src, buf, step)
	}
	return copyRange(w, src, t.data, int64(t.offsets.last()), buf, step)
}

// copyRange copies n bytes at off of src to w through buf. A copy within the
// kernel is slower where the two do not lie alike in their pages.
func copyRange(w io.Writer, src io.ReaderAt, off, n int64, buf []byte, step func(int64) error) error {
	for done := int64(0); done < n; {
		b := buf[:min(int64(len(buf)), n-done)]
		if k, err := src.ReadAt(b, off+done); k < len(b) {
			return noEOF(err)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		done += int64(len(b))
		if err := step(done); err != nil {
			return err
		}
	}
	return nil
}

// noEOF is for a source that ends before what is known to be there.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// copyUnprefixed copies the entries without the lengths of IETPrefix.
func copyUnprefixed(w io.Writer, t *table, src io.ReaderAt, buf []byte, step func(int64) error) error {
	n := len(t.parents)
	for i := 0; i < n; {
		first := t.offsets.at(i)
		last := i + 1
		for last < n && t.offsets.at(last+1)-first <= uint64(len(buf)) {
			last++
		}
		size := int64(t.offsets.at(last) - first)
		if size > int64(len(buf)) { // one entry
			err := copyRange(w, src, t.data+int64(first)+prefixSize, size-prefixSize, buf, func(int64) error { return nil })
			if err != nil {
				return err
			}
		} else {
			if k, err := src.ReadAt(buf[:size], t.data+int64(first)); int64(k) < size {
				return noEOF(err)
			}
			at := 0
			for ; i < last; i++ {
				at += copy(buf[at:], buf[t.offsets.at(i)-first+prefixSize:t.offsets.at(i+1)-first])
			}
			if _, err := w.Write(buf[:at]); err != nil {
				return err
			}
		}
		i = last
		if err := step(int64(t.offsets.at(last))); err != nil {
			return err
		}
	}
	return nil
}

// writeTables writes what an ET has before its entries.
func writeTables(w io.Writer, v Version, t *table) error {
	n := len(t.parents)
	b := make([]byte, 0, walkSize)
	put := func() error {
		_, err := w.Write(b)
		b = b[:0]
		return err
	}
	b = wire.AppendMagic(b, v, ET)
	b = wire.AppendUint(b, uint64(n))
	gap := uint64(t.gap())
	for i := range n {
		if len(b) > walkSize-16 {
			if err := put(); err != nil {
				return err
			}
		}
		b = wire.AppendUint(b, t.offsets.at(i)-uint64(i)*gap)
	}
	b = wire.AppendUint(b, uint64(n))
	first, kids := children(t.parents)
	for i := range n {
		b = wire.AppendUint(b, uint64(first[i+1]-first[i]))
		for _, id := range kids[first[i]:first[i+1]] {
			b = wire.AppendUint(b, uint64(id))
			if len(b) > walkSize-32 {
				if err := put(); err != nil {
					return err
				}
			}
		}
		if len(b) > walkSize-32 {
			if err := put(); err != nil {
				return err
			}
		}
	}
	return put()
}

// verifyET opens what was written and compares its tables with t.
func verifyET(name string, t *table) error {
	f, pool, err := openPool(name)
	if err != nil {
		return err
	}
	n, gap := len(t.parents), uint64(t.gap())
	same := slices.Equal(pool, t.parents)
	for i := 0; same && i <= n; i++ {
		same = f.offsets.Load().at(i) == t.offsets.at(i)-uint64(i)*gap
	}
	if err := f.Close(); err != nil {
		return err
	}
	if !same {
		return errors.New("what was written reads differently")
	}
	return nil
}
