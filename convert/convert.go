package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/deadtrace"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/wire"
)

// ErrSameFile is returned when output and input are one file, by whatever names.
var ErrSameFile = errors.New("input and output are the same file")

// Options say what to convert to.
type Options struct {
	// Format is the storage format of the output.
	Format format.StorageFormat
	// Version is the disk version of the output. The default is the input's.
	Version format.Version
	// Replace lets File replace an output that is there.
	Replace bool
	// Progress, if set, is called now and then with how many bytes of how many
	// are done; total is 0 where it is not known.
	Progress func(done, total int64)
}

// File converts the trace file in to the file out. The output appears under its
// name when it is complete and synced, readable by the user alone; it does not
// follow a symbolic link.
//
// An input that stops within an entry gives an output of the whole ones and an
// error that is [format.ErrTruncated]. With any other error there is no output:
// fs.ErrExist when out is there already, ErrSameFile, format.ErrLocked when a process
// records to out, a [*format.CorruptError].
func File(ctx context.Context, in, out string, o Options) error {
	in = format.Find(in)
	fi, err := os.Stat(in)
	if err != nil {
		return err
	}
	src, err := deadtrace.OpenSource(in, false)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := checkOutput(fi, out, o.Replace); err != nil {
		return err
	}
	if quick, err := finalizes(src.Reader(), o); err != nil {
		return fmt.Errorf("convert %s: %w", in, err)
	} else if quick && src.Size() == src.Stored {
		return finalize(ctx, in, out, o)
	}
	if o.Progress != nil {
		progress := o.Progress
		o.Progress = func(done, _ int64) { progress(done, src.Size()) }
	}
	tmp, err := osfile.CreateTemp(out)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	cut := Stream(ctx, tmp, src.Reader(), o)
	if cut != nil && !errors.Is(cut, format.ErrTruncated) {
		return fmt.Errorf("convert %s: %w", in, cut)
	}
	if err := commit(tmp, out, o.Replace); err != nil {
		return err
	}
	if cut != nil {
		return fmt.Errorf("convert %s: %w", in, cut)
	}
	return nil
}

// finalizes reports whether src is an IET of which only an ET is to be made, which
// takes no copy of the entries besides the output.
func finalizes(src io.ReaderAt, o Options) (bool, error) {
	var magic [wire.MagicSize]byte
	n, err := src.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	v, f, err := format.ReadMagic(bytes.NewReader(magic[:n]))
	return f != format.ET && o.Format == format.ET && (o.Version == 0 || o.Version == v), err
}

func finalize(ctx context.Context, in, out string, o Options) error {
	var cut error
	err := format.Finalize(ctx, in, out, &format.FinalizeOptions{
		Replace: o.Replace, Progress: o.Progress, Torn: func(err error) { cut = err },
	})
	if err == nil && cut != nil {
		err = fmt.Errorf("convert %s: %w", in, cut)
	}
	return err
}

// checkOutput finds out early what would make the rename at the end fail.
func checkOutput(in os.FileInfo, out string, replace bool) error {
	there, err := os.Stat(out)
	if err == nil && os.SameFile(in, there) {
		return fmt.Errorf("%s: %w", out, ErrSameFile)
	}
	link, err := os.Lstat(out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return checkRecording(out)
	case err != nil:
		return err
	case !replace:
		return &fs.PathError{Op: "convert to", Path: out, Err: fs.ErrExist}
	case link.Mode()&fs.ModeSymlink == 0 && !link.Mode().IsRegular():
		return fmt.Errorf("%s: %w", out, format.ErrNotRegular)
	}
	return checkRecording(out)
}

// checkRecording returns format.ErrLocked if a process is recording to out or to the IET
// that will become out. A conversion must not take that name.
func checkRecording(out string) error {
	names := []string{out}
	if base, ok := strings.CutSuffix(out, ".et"); ok {
		names = append(names, base+".iet")
	}
	for _, name := range names {
		if osfile.Locked(name) {
			return fmt.Errorf("%s: %w", name, format.ErrLocked)
		}
	}
	return nil
}

// commit renames the temporary file to out.
func commit(tmp *osfile.Temp, out string, replace bool) error {
	if err := checkRecording(out); err != nil { // a recording may have begun meanwhile
		return err
	}
	return tmp.Commit(replace)
}

// Stream converts the trace that r holds, whatever its format, to w. An input
// that stops within an entry is converted up to there, and the error is
// [format.ErrTruncated]; one that is damaged, too, and it is a [*format.CorruptError].
//
// Only for an ET is the output kept in a temporary file until the input ends.
func Stream(ctx context.Context, w io.Writer, r io.Reader, o Options) error {
	in, err := format.NewReader(r, nil)
	if err != nil {
		return err
	}
	v := o.Version
	if v == 0 {
		v = in.Version()
	}
	out, err := format.NewWriter(w, v, o.Format, nil)
	if err != nil {
		return err
	}
	defer func() { _ = out.Abort() }() // if a callback panics
	err = entries(ctx, out, in, v, o.Progress)
	_, corrupt := errors.AsType[*format.CorruptError](err)
	if err != nil && !corrupt && !errors.Is(err, format.ErrTruncated) {
		return errors.Join(err, out.Abort())
	}
	if cerr := out.Close(); cerr != nil {
		return cerr // and not that the input is not whole, which is no failure
	}
	return err
}

func entries(ctx context.Context, out *format.Writer, in *format.Reader, v format.Version, progress func(done, total int64)) error {
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if v == in.Version() {
			_, err = out.WriteRaw(in.Raw(), e.Parent)
		} else {
			_, err = out.Write(e)
		}
		if err != nil {
			return err
		}
		if in.ID()%4096 == 0 {
			if progress != nil {
				progress(in.Offset(), 0)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
}
