package deadtrace

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// copyBroken copies the corrupt file name, which is open as f, and returns the name of the copy. If a
// killed recovery has already made such a copy, copyBroken returns the name of that copy.
func copyBroken(f *os.File, name string) (broken string, err error) {
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	err = untilFree(name, tracename.Broken, func(to string) error {
		broken = to
		if same, err := hasBytes(to, f, fi.Size()); same || err != nil {
			return err
		}
		tmp, err := osfile.CreateTemp(to)
		if err != nil {
			return err
		}
		defer tmp.Discard()
		if _, err := io.Copy(tmp, io.NewSectionReader(f, 0, fi.Size())); err != nil {
			return err
		}
		return tmp.Commit(false)
	})
	return broken, err
}

// SameBytes reports whether two files can be read and have the same bytes. ETs with the same entries
// have the same bytes.
func SameBytes(a, b string) bool {
	f, err := osfile.OpenRead(a)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	same, err := hasBytes(b, f, fi.Size())
	return same && err == nil
}

// hasBytes reports whether the file name has exactly the first size bytes of f. If it has other bytes, or
// cannot be read, the error is [fs.ErrExist].
func hasBytes(name string, f io.ReaderAt, size int64) (bool, error) {
	o, err := osfile.OpenRead(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fs.ErrExist
	}
	defer o.Close()
	if fi, err := o.Stat(); err != nil || fi.Size() != size {
		return false, fs.ErrExist
	}
	err = compare(f, o, size)
	return err == nil, err
}

// linkBroken gives the file called name, open as f, a second name, because a new file will replace it. If the file
// system has no hard links, linkBroken copies the file.
func linkBroken(f *os.File, name string) (broken string, err error) {
	err = untilFree(name, tracename.Broken, func(to string) error {
		broken = to
		err := os.Link(name, to)
		if errors.Is(err, fs.ErrExist) && osfile.SameFile(f, to) {
			return nil // a killed recovery has made this link
		}
		return err
	})
	if err != nil {
		return copyBroken(f, name)
	}
	return broken, nil
}

// copyTo writes the entries of f to the file output, and returns their number. If f is corrupt, or an ET
// without its end, copyTo adds an entry that says so. If replace is set, output is the file of f itself,
// and keeps its format.
func copyTo(f *format.File, output string, replace bool) (n int, err error) {
	tmp, err := osfile.CreateTemp(output)
	if err != nil {
		return 0, err
	}
	defer tmp.Discard()
	to := format.ET
	if isStream(output) {
		to = format.IET
	}
	if replace {
		to = f.Format()
	}
	out, err := format.NewWriter(tmp, f.Version(), to, nil)
	if err != nil {
		return 0, err
	}
	var w entrybytes.Window
	all := entrybytes.Of(f)
	for n = f.Len(); n > 0 && to == format.IET; n-- {
		b, err := w.Entry(all, uint32(n-1))
		if err != nil || !wire.IsZero(b) {
			break // an IET cannot end with entries of zeros
		}
	}
	for id := range uint32(n) {
		b, err := w.Entry(all, id)
		if err == nil {
			_, err = out.WriteRaw(b, f.Parent(id))
		}
		if err != nil {
			return 0, errors.Join(err, out.Abort())
		}
	}
	if (f.Format() == format.ET && f.Damage() != nil || isCorrupt(f.Damage())) && f.Len() > 0 {
		if err := markDamaged(out, f); err != nil {
			return 0, errors.Join(err, out.Abort())
		}
	}
	if err := out.Close(); err != nil {
		return 0, err
	}
	return n, tmp.Commit(replace)
}

// markDamaged writes to out the reason why the complete entries of f end, unless the last entry of f says
// how the recording ended.
func markDamaged(out *format.Writer, f *format.File) error {
	last, err := f.Entry(uint32(f.Len() - 1))
	if err != nil || last.IsEnd() || last.IsRecovered() {
		return err
	}
	_, err = out.Write(recovered(format.CutReasonOf(f.Damage()), 0))
	return err
}
