package convert

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/entrace-go/entrace/internal/read/columns"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/view"
)

var errSameFile = errors.New("input and output are the same file")

// Options control what [Trace.Encode] and [Trace.EncodeFile] write.
type Options struct {
	// Version is the disk version of an output in one of ENTRACE's own formats. The default is the version of the
	// first input.
	Version format.Version
	// Replace lets EncodeFile replace an output file that already exists.
	Replace bool
	// CPU selects the samples of CPU profiles instead of spans: the output shows processor time, not elapsed time.
	// Only formats for flame graphs support it, see FormatInfo.CPU.
	CPU bool
}

// Encode writes the trace to w in a format. A nil o means defaults.
//
// In one of ENTRACE's own formats, the entries of a single file keep their bytes and their order, unless
// OpenOptions.Clock changes their times. Several files are merged into one, in which equal resources are written
// once. If the view shows an entry below a span of another file, and both have the same resource, the entry is
// written below that span. If their resources differ, the entry stays below its own resource and names the span. A
// view of the output shows the entry below the span.
//
// The entries of each file keep their order, but parents are written before their children. If a span was open when its
// recorder began a new file, both files have the span; it is written once, with the children from both files. If
// several files have the same entries about a process, these entries are also written once. Each recorder ends its file
// with an entry about its end. These entries are written in the order of the files. A last entry entrace.end marks the
// output as complete. Therefore the entries about ends are last only if every file has one. For a file of another
// format, which cannot record its end, Encode writes an entry entrace.end. Other formats do not get this entry. Merging
// needs 4 bytes of memory per entry.
//
// The error is a [*FormatError], a [*DamageError], or an error of w or ctx. Encode returns a [*DamageError] only if the
// trace was opened with OpenOptions.Once, because otherwise Open has already returned it. The output then has all
// complete entries. After an error of w or ctx, the output is unusable.
func (t *Trace) Encode(ctx context.Context, w io.Writer, f Format, o *Options) error {
	if o == nil {
		o = &Options{}
	}
	c := codecOf(f)
	if c == nil || !c.writes() {
		return &FormatError{Format: f, Write: true}
	}
	if o.CPU && c.encodeCPU == nil {
		return &FormatError{Format: f, Write: true, CPU: true}
	}
	if to, own := f.Own(); own {
		return t.encodeOwn(ctx, w, o.Version, to)
	}
	if t.once != nil {
		return t.encodeOnce(ctx, w, f, o)
	}
	b := bufio.NewWriterSize(w, 256<<10)
	encode := c.encode
	if o.CPU {
		encode = c.encodeCPU
	}
	if err := encode(ctx, b, t.view); err != nil {
		return err
	}
	return b.Flush()
}

// encodeOnce reads the input, which Open has not read, and encodes it in a format that needs a view.
func (t *Trace) encodeOnce(ctx context.Context, w io.Writer, f Format, o *Options) error {
	all, err := t.open(ctx)
	if all == nil {
		return err
	}
	return errors.Join(all.Encode(ctx, w, f, o), err, all.Close())
}

// encodeOwn writes the trace in one of ENTRACE's own formats.
func (t *Trace) encodeOwn(ctx context.Context, w io.Writer, v format.Version, to format.StorageFormat) error {
	if t.once != nil {
		t.once.final = true
		return t.once.titled(t.once.writeTo(ctx, w, v, to, &t.options))
	}
	return t.write(ctx, t.view, w, v, to, nil)
}

// write writes the rows of v for which keep returns true, with their ancestors. If keep is nil, it writes all rows.
func (t *Trace) write(ctx context.Context, v *view.View, w io.Writer, disk format.Version, to format.StorageFormat, keep func(r view.Row) bool) error {
	if disk == 0 {
		disk = t.files[0].Version()
	}
	out, err := format.NewWriter(w, disk, to, nil)
	if err != nil {
		return err
	}
	defer func() { _ = out.Abort() }() // in case a callback panics
	lacksEnd := func(file int) bool { return t.codecs[file] != nil }
	ended := true
	switch {
	case keep != nil || len(t.files) != 1 || columns.Of(v).IsCorrected():
		err = merge(ctx, out, v, keep, lacksEnd)
	case t.files[0].Len() == 0:
		_, err = out.Write(format.Root())
	default:
		err = copyFile(ctx, out, t.files[0], nil)
	}
	for i := range t.files {
		ended = ended && lacksEnd(i)
	}
	if err == nil && ended && t.Damage() == nil {
		err = writeEnd(out)
	}
	if err != nil {
		return errors.Join(err, out.Abort())
	}
	return out.Close()
}

// EncodeFile writes the trace to the file out, as [Trace.Encode] does. EncodeFile renames a temporary file to out when it
// is complete and synced. Only the user can read it. EncodeFile does not follow a symbolic link. After an error there is no file,
// except after a [*DamageError]: then the file has all complete entries. The output must not be one of the inputs. The
// error is [fs.ErrExist] if out already exists and Replace is false, and [format.ErrLocked] if a process records to
// out.
func (t *Trace) EncodeFile(ctx context.Context, out string, f Format, o *Options) error {
	if o == nil {
		o = &Options{}
	}
	for _, in := range t.inputs {
		if err := checkOutput(in, out, o.Replace); err != nil {
			return err
		}
	}
	if done, err := t.finalize(ctx, out, f, o); done {
		return err
	}
	tmp, err := osfile.CreateTemp(out)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	err = t.Encode(ctx, tmp, f, o)
	if _, damaged := errors.AsType[*DamageError](err); err != nil && !damaged {
		return err
	}
	if err := checkRecording(out); err != nil { // a process may have begun to record after the first check
		return err
	}
	return errors.Join(tmp.Commit(o.Replace), err)
}

// finalize converts an IET to an ET by copying the entries once. The result done is false if this is not possible;
// the caller must then convert the trace in another way.
func (t *Trace) finalize(ctx context.Context, out string, f Format, o *Options) (done bool, err error) {
	if t.once == nil || f != ET || !t.once.isStream(o.Version) {
		return false, nil
	}
	var torn error
	err = format.Finalize(ctx, t.once.src.Name, out, &format.FinalizeOptions{
		Replace: o.Replace, Progress: t.options.Progress, Torn: func(err error) { torn = err },
	})
	if _, corrupt := errors.AsType[*format.CorruptError](err); corrupt {
		return false, nil // the caller copies the complete entries
	}
	if err == nil {
		err = t.once.titled(t.once.damaged(torn))
	}
	return true, err
}

// checkOutput returns an error early if the rename at the end would fail.
func checkOutput(in os.FileInfo, out string, replace bool) error {
	there, err := os.Stat(out)
	if err == nil && os.SameFile(in, there) {
		return fmt.Errorf("%s: %w", out, errSameFile)
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

// checkRecording returns format.ErrLocked if a process records to the file out, or to an IET that will become out.
// A conversion must not use the name of such a file.
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

// copyFile writes all complete entries of f. If change is not nil, it calls change with each entry before it writes the
// entry.
func copyFile(ctx context.Context, w *format.Writer, f *format.File, change func(e *format.TraceEntry)) error {
	var raw []byte
	for id := range uint32(f.Len()) {
		if id%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		var err error
		if change == nil && f.Version() == w.Version() {
			raw, err = entrybytes.Of(f).Append(raw[:0], id)
			if err == nil {
				_, err = w.WriteRaw(raw, f.Parent(id))
			}
		} else {
			var e *format.TraceEntry
			e, err = f.Entry(id)
			if err == nil {
				if change != nil {
					change(e)
				}
				_, err = w.Write(e)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: entry %d: %w", f.Name(), id, err)
		}
	}
	return nil
}
