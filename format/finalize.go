package format

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

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

	// lenient makes an ET of what is before damage, too.
	lenient bool
	// table is what the recorder knows of the IET, which saves reading it.
	table *table
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
	f, err := osfile.OpenRead(iet)
	if err != nil {
		return &FinalizeError{Step: "open", IET: iet, ET: et, Err: openError(err)}
	}
	defer f.Close()
	return finalizeOpen(ctx, f, iet, et, o)
}

func finalizeOpen(ctx context.Context, f *os.File, iet, et string, o *FinalizeOptions) error {
	if o == nil {
		o = &FinalizeOptions{}
	}
	fail := func(step string, err error) error {
		if err == nil {
			return nil
		}
		return &FinalizeError{Step: step, IET: iet, ET: et, Err: openError(err)}
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
	t, v, err := scanStream(f, size, step)
	if errors.Is(err, ErrTruncated) && t != nil {
		if o.Torn != nil {
			o.Torn(err)
		}
		err = nil
	}
	if err != nil && (!o.lenient || !isCorrupt(err)) {
		return fail("read", err)
	}
	tmp, err := osfile.CreateTemp(et)
	if err != nil {
		return fail("create", err)
	}
	defer tmp.Discard()
	copied := func(n int64) error { return step(size + n) }
	if err := writeET(tmp.File, v, t, f, copied); err != nil {
		return fail("write", err)
	}
	if err := verifyET(tmp.Name(), t); err != nil {
		return fail("verify", err)
	}
	if o.RemoveSource {
		if err := f.Sync(); err != nil { // else a rename could outlive what it replaced
			return fail("sync", err)
		}
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

// scanStream is scanEntries over an IET or IETPrefix of size bytes that may end
// in a part of an entry.
func scanStream(f io.ReaderAt, size int64, step func(int64) error) (*table, Version, error) {
	var magic [MagicSize]byte
	n, err := f.ReadAt(magic[:min(size, MagicSize)], 0)
	if err != nil {
		return nil, 0, err
	}
	v, format, err := ParseMagic(magic[:n])
	if err != nil {
		return nil, 0, err
	}
	if format == ET {
		return nil, 0, &StorageFormatError{Format: format}
	}
	t, err := scanEntries(io.NewSectionReader(f, 0, size), nil, step)
	t.prefixed = format == IETPrefix
	return t, v, err
}

// writeET writes an ET to w whose entries are those of t in src.
func writeET(w io.Writer, v Version, t *table, src io.ReaderAt, step func(int64) error) error {
	bw := bufio.NewWriterSize(w, flushSize)
	if _, err := bw.Write(AppendMagic(nil, v, ET)); err != nil {
		return err
	}
	if err := writeTables(bw, t); err != nil {
		return err
	}
	if t.prefixed {
		if err := writeUnprefixed(bw, t, src, step); err != nil {
			return err
		}
		return bw.Flush()
	}
	if err := bw.Flush(); err != nil {
		return err
	}
	// Plain chunks of one file to another are copied within the kernel.
	const chunk = 32 << 20
	for done, size := int64(0), int64(t.offsets[len(t.parents)]); done < size; {
		n := min(chunk, size-done)
		if _, err := copyRange(w, src, t.data+done, n); err != nil {
			return err
		}
		done += n
		if err := step(done); err != nil {
			return err
		}
	}
	return nil
}

// copyRange copies n bytes at off of src to w.
func copyRange(w io.Writer, src io.ReaderAt, off, n int64) (int64, error) {
	if f, ok := src.(*os.File); ok {
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			return 0, err
		}
		return io.CopyN(w, f, n)
	}
	return io.Copy(w, io.NewSectionReader(src, off, n))
}

// writeTables writes the offsets and the pool.
func writeTables(w *bufio.Writer, t *table) error {
	n := len(t.parents)
	b := appendUint(make([]byte, 0, 4096), uint64(n))
	put := func() error {
		if len(b) < 2048 {
			return nil
		}
		_, err := w.Write(b)
		b = b[:0]
		return err
	}
	for i := range n {
		b = appendUint(b, t.offsets[i]-uint64(i)*uint64(t.gap()))
		if err := put(); err != nil {
			return err
		}
	}
	b = appendUint(b, uint64(n))
	first, kids := children(t.parents)
	for i := range n {
		b = AppendPoolEntry(b, PoolEntry{Children: kids[first[i]:first[i+1]]})
		if err := put(); err != nil {
			return err
		}
	}
	_, err := w.Write(b)
	return err
}

// writeUnprefixed writes the entries without the lengths of IETPrefix.
func writeUnprefixed(w io.Writer, t *table, src io.ReaderAt, step func(int64) error) error {
	r, err := NewReader(io.NewSectionReader(src, 0, t.data+int64(t.offsets[len(t.parents)])), nil)
	if err != nil {
		return err
	}
	r.scan = true
	for range t.parents {
		if _, err := r.Next(); err != nil {
			return err
		}
		if _, err := w.Write(r.Raw()); err != nil {
			return err
		}
		if r.id%4096 == 0 {
			if err := step(r.off); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifyET opens what was written and compares its tables with t.
func verifyET(name string, t *table) error {
	f, err := Open(name, nil)
	if err != nil {
		return err
	}
	n := len(t.parents)
	same := f.Len() == n && f.offsets[n] == t.offsets[n]-uint64(n)*uint64(t.gap())
	for i := 0; same && i < n; i++ {
		same = f.offsets[i] == t.offsets[i]-uint64(i)*uint64(t.gap()) && f.parents[i] == t.parents[i]
	}
	if err := f.Close(); err != nil {
		return err
	}
	if !same {
		return errors.New("what was written reads differently")
	}
	return nil
}
