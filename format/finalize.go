package format

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/wire"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

// FinalizeOptions change how [Finalize] works.
type FinalizeOptions struct {
	// Replace allows the ET to replace an existing file.
	Replace bool
	// RemoveSource removes the IET when the ET is durable.
	RemoveSource bool
	// Progress, if set, is called from time to time with the number of processed bytes and the total number of
	// bytes.
	Progress func(done, total int64)
	// Torn, if set, is called with the [*TruncatedError] of an IET that stops
	// within an entry.
	Torn func(error)

	// File, if set, is the open IET. With RemoveSource it must be open for writing. Finalize does not close it.
	File *os.File
	// Lenient makes Finalize accept a corrupt IET. The ET then has the entries before the damage.
	Lenient bool
	// Folder, if set, describes the folder of the IET and the ET. If another folder has its path now, no ET is made.
	Folder os.FileInfo
}

// A FinalizeError names the step of [Finalize] that failed. The IET is unchanged. A new ET exists only if Finished
// is true.
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

// Finalize makes the ET file et from the IET or IETPrefix file iet. It copies the encoded entries unchanged. If iet
// stops within an entry, the ET has the entries before that entry. Other damage is an error. A nil o means defaults.
//
// The new file gets its name only when it is complete, synced and verified. Errors are [*FinalizeError]. If et
// already exists, the error wraps fs.ErrExist.
func Finalize(ctx context.Context, iet, et string, o *FinalizeOptions) error {
	return finalize(ctx, iet, et, o, nil)
}

// finalize is Finalize with the index of the IET, see entrybytes.Finalize.
func finalize(ctx context.Context, iet, et string, o *FinalizeOptions, x *entrybytes.Index) error {
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
			open = osfile.OpenWrite // Windows cannot sync a file that is open only for reading
		}
		var err error
		f, err = open(iet)
		if err != nil {
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
		case have.Mode()&fs.ModeSymlink != 0 && o.Replace: // replaces the link itself
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
	// Sync the IET before the ET gets its name. Otherwise a crash could preserve the name of the ET, but lose the
	// content of the IET.
	synced := make(chan error, 1)
	if o.RemoveSource {
		go func() { synced <- f.Sync() }()
	} else {
		synced <- nil
	}
	t, v, err := tableOf(f, size, x, step)
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
	// After CreateTemp: if the folder is renamed later, the ET cannot get its name.
	if now, err := os.Stat(filepath.Dir(et)); o.Folder != nil && err == nil && !os.SameFile(now, o.Folder) {
		return fail("create", errMoved)
	}
	ahead := newSyncer(tmp.Sync)
	err = writeET(tmp.File, v, t, f, func(n int64) error {
		ahead.wrote(n)
		return step(size + n)
	})
	err = errors.Join(err, ahead.stop())
	if err != nil {
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

// errMoved means that the folder of the IET was renamed. An ET in a folder that now has the old path would be a
// second trace of the same entries.
var errMoved = errors.New("the folder was renamed")

// tableOf returns the table of f, an IET or IETPrefix file of size bytes, which may stop within an entry. It makes
// the table from the index x, or if x does not cover the whole file, from a scan.
func tableOf(f io.ReaderAt, size int64, x *entrybytes.Index, step func(int64) error) (*table, Version, error) {
	v, format, err := ReadMagic(f)
	if err != nil {
		return nil, 0, err
	}
	if format == ET {
		return nil, 0, fmt.Errorf("%w: the file is an ET already", ErrUnsupported)
	}
	if x != nil && format == IET && wire.MagicSize+x.Size() == size {
		return tableIn(x), v, step(size)
	}
	t, err := scanEntries(io.NewSectionReader(f, 0, size), size, step)
	t.prefixed = format == IETPrefix
	return t, v, err
}

// tableIn makes a table from the index x of a complete file.
func tableIn(x *entrybytes.Index) *table {
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

// copySize is the number of bytes that are copied at once. A sync begins whenever syncSize more bytes were
// written.
const (
	copySize = 1 << 20
	syncSize = 32 << 20
)

// A syncer syncs a file while it is being written, so that the disk works all the time and not only at the end.
type syncer struct {
	next int64         // the number of written bytes at which the next sync begins
	kick chan struct{} // has an item if a sync is requested
	done chan error
}

func newSyncer(sync func() error) *syncer {
	s := &syncer{next: syncSize, kick: make(chan struct{}, 1), done: make(chan error, 1)}
	go func() {
		var err error
		for range s.kick {
			// The system reports an error only once: a later sync may return no error.
			err = errors.Join(err, sync())
		}
		s.done <- err
	}()
	return s
}

// wrote passes s the total number of written bytes. It requests a sync if enough bytes were added.
func (s *syncer) wrote(n int64) {
	if n < s.next {
		return
	}
	s.next = n + syncSize
	select {
	case s.kick <- struct{}{}:
	default: // a sync is already requested
	}
}

// stop waits for the requested syncs, and returns the errors of all syncs.
func (s *syncer) stop() error {
	close(s.kick)
	return <-s.done
}

// writeET writes an ET to w. It copies the entries of t from src. From time to time it calls step with the number
// of copied bytes of entries.
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

// copyRange copies n bytes from offset off of src to w through buf. A copy in the kernel would be slower if the
// bytes have different offsets within a page in src and w.
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

// noEOF returns io.ErrUnexpectedEOF instead of io.EOF, and other errors unchanged. An io.EOF here means that a source
// ends before the bytes that its table lists.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// copyUnprefixed copies the entries of an IETPrefix without the length before each entry.
func copyUnprefixed(w io.Writer, t *table, src io.ReaderAt, buf []byte, step func(int64) error) error {
	n := len(t.parents)
	for i := 0; i < n; {
		first := t.offsets.at(i)
		last := i + 1
		for last < n && t.offsets.at(last+1)-first <= uint64(len(buf)) {
			last++
		}
		size := int64(t.offsets.at(last) - first)
		if size > int64(len(buf)) { // a single entry is larger than buf
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

// writeTables writes the parts of an ET before its entries: magic, offsets and pool.
func writeTables(w io.Writer, v Version, t *table) error {
	n := len(t.parents)
	out := bufio.NewWriterSize(w, walkSize)
	put := func(b []byte) { _, _ = out.Write(b) } // Flush returns the error
	number := func(x uint64) { put(wire.AppendUint(out.AvailableBuffer(), x)) }
	put(wire.AppendMagic(nil, v, ET))
	number(uint64(n))
	gap := uint64(t.gap())
	for i := range n {
		number(t.offsets.at(i) - uint64(i)*gap)
	}
	number(uint64(n))
	first, kids := children(t.parents)
	for i := range n {
		number(uint64(first[i+1] - first[i]))
		for _, id := range kids[first[i]:first[i+1]] {
			number(uint64(id))
		}
	}
	return out.Flush()
}

// verifyET opens the ET called name, which was just written, and compares its tables with t.
func verifyET(name string, t *table) error {
	f, err := Open(name, nil)
	if err != nil {
		return err
	}
	pool, err := f.tables(true)
	if err != nil {
		return errors.Join(f.readError(err), f.Close())
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
		return errors.New("the new file, read again, differs from what was written")
	}
	return nil
}
