package convert

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/read/loglines"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// An Error says where a file of another format is damaged or ends too early. The decoders in the subpackages return
// Errors.
type Error = input.Error

// A DamageError is returned if an input cannot be read to its end. All complete entries before the damage were read.
type DamageError struct{ Err error }

func (e *DamageError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *DamageError) Unwrap() error { return e.Err }

// A source is an input of Open: a file in one of ENTRACE's own formats, which is read directly, or a file or stream
// that must be decoded.
type source struct {
	name  string      // name of the file; "" for a stream
	title string      // the name in messages
	info  os.FileInfo // information about the file; nil if unknown

	final  bool              // the entries are written to the final output, not to a temporary file
	direct bool              // the file is read directly: it has one of ENTRACE's own formats, or does not exist
	guess  string            // the probable kind of a file that is not a trace
	src    *deadtrace.Source // the bytes of the file, if its entries can be copied without decoding

	codec *codec    // nil for one of ENTRACE's own formats
	r     io.Reader // the input of codec
	cut   error     // why compressed input is incomplete; set when r is at its end
	opens []io.Closer
}

// Close closes the open files of x. Later calls do nothing.
func (x *source) Close() error {
	var errs []error
	if x.src != nil {
		errs = append(errs, x.src.Close())
	}
	for _, c := range x.opens {
		errs = append(errs, c.Close())
	}
	x.src, x.opens = nil, nil
	return errors.Join(errs...)
}

// openSource opens the file called name, which must not be a folder, and detects its format.
func (o *opener) openSource(name string) (*source, error) {
	if name == "-" {
		x := &source{title: "standard input"}
		head, r, err := peek(o.options.Stdin)
		if err != nil {
			return nil, err
		}
		return x, o.detect(x, head, r)
	}
	x := &source{name: name, title: name}
	if _, err := os.Lstat(name); err != nil {
		x.direct = true // the file does not exist, but format.Find may find a part of the trace
		return x, nil
	}
	f, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	var head []byte
	x.info, err = f.Stat()
	if err == nil {
		head, err = beginning(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	from := o.options.From
	_, own := from.Own()
	x.direct = !isWrapped(head) && (own || from == "" && (isOwn(head) || sniff(head, name) == nil))
	if x.direct {
		if from == "" && !isOwn(head) {
			x.guess = unreadable(head, name)
		}
		return x, f.Close()
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	x.opens = append(x.opens, f)
	var r io.Reader = f
	if o.options.Progress != nil {
		r = &counter{File: f, total: x.info.Size(), progress: o.options.Progress}
	}
	return x, o.detect(x, head, r)
}

// detect detects the format of r, whose first bytes are head, and stores the result in x.
func (o *opener) detect(x *source, head []byte, r io.Reader) error {
	name := x.name
	for n := 0; isWrapped(head) && n < maxWrapped; n++ {
		in := &byteCounter{r: r}
		plain, err := unwrapped(in, head)
		if err == nil {
			x.opens = append(x.opens, plain)
			head, r, err = peek(&wholeReader{&boundedReader{r: plain, in: in}, &x.cut})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", x.title, errors.Join(err, x.Close()))
		}
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst"), ".zstd")
	}
	x.r = r
	if from := o.options.From; from != "" {
		if _, own := from.Own(); !own {
			x.codec = codecOf(from)
		}
		return nil
	}
	if isOwn(head) || len(head) == 0 { // format.NewReader returns the error for an empty input
		return nil
	}
	x.codec = sniff(head, name)
	if x.codec == nil {
		x.guess = unreadable(head, name)
		return errors.Join(x.withGuess(fmt.Errorf("%s: %w", x.title, format.ErrNotEntrace)), x.Close())
	}
	return nil
}

// Plain returns the content of r without the compression by gzip or zstd, if any.
func Plain(r io.Reader) (plain io.Reader, compressed bool, err error) {
	head, all, err := peek(r)
	if err != nil || !isCompressed(head) {
		return all, false, err
	}
	in := &byteCounter{r: all}
	out, err := unwrapped(in, head)
	return &boundedReader{r: out, in: in}, true, err
}

// withGuess adds the probable kind of the file to err, if err says that the file is not a trace.
func (x *source) withGuess(err error) error {
	if x.guess == "" || !errors.Is(err, format.ErrNotEntrace) {
		return err
	}
	return &unknownError{x.title + " " + x.guess, err}
}

// An unknownError is the error for a file that is not a trace. It names the probable kind of the file.
type unknownError struct {
	text string
	err  error
}

func (e *unknownError) Error() string { return e.text }

func (e *unknownError) Unwrap() error { return e.err }

// peek returns enough of the first bytes of r to detect its format, and a reader of all bytes. For one of ENTRACE's
// own formats it waits only for the magic, because the trace may be live.
func peek(r io.Reader) (head []byte, all io.Reader, err error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err = b.Peek(magicSize)
	if err == nil && !isOwn(head) {
		head, err = b.Peek(sniffSize)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head, b, err
}

// magicSize is how many bytes are enough to detect ENTRACE's own formats and compression.
const magicSize = 10

// isStream reports whether x is an IET that format.Finalize can convert to an ET of version v.
func (x *source) isStream(v format.Version) bool {
	if x.src == nil || x.src.Size() != x.src.Stored {
		return false
	}
	is, f, err := format.ReadMagic(x.src)
	return err == nil && f != format.ET && (v == 0 || v == is)
}

// writeTo writes all complete entries of x to w. After a [*DamageError] the output is complete except for the damaged
// entries.
func (x *source) writeTo(ctx context.Context, w io.Writer, v format.Version, to format.StorageFormat, o *OpenOptions) error {
	r, total := x.r, int64(0)
	if x.src != nil {
		r, total = x.src.Reader(), x.src.Size()
	}
	decode := func(out *format.Writer) error {
		return x.codec.decode(input.WithRepeated(loglines.WithFields(ctx, o.Fields), func(spans int) {
			if o.Repeated != nil {
				o.Repeated(x.title, spans)
			}
		}), r, out)
	}
	if x.codec == nil {
		in, err := format.NewReader(r, nil)
		if err != nil {
			return x.withGuess(fmt.Errorf("%s: %w", x.title, err))
		}
		if v == 0 {
			v = in.Version()
		}
		decode = func(out *format.Writer) error {
			return copyEntries(ctx, out, in, func(done int64) {
				if o.Progress != nil && x.src != nil { // without src, r reports the progress
					o.Progress(done, total)
				}
			})
		}
	}
	out, err := format.NewWriter(w, v, to, nil)
	if err != nil {
		return err
	}
	defer func() { _ = out.Abort() }() // in case a callback panics
	damage := decode(out)
	switch {
	case ctx.Err() != nil:
		return errors.Join(ctx.Err(), out.Abort())
	case out.Flush() != nil:
		return out.Close() // an error of w caused the damage
	case damage != nil && (out.Len() == 0 || x.codec != nil && out.Len() == 1):
		hint := ""
		if x.codec != nil && x.codec.JSON && o.From == "" {
			hint = " (--from log reads it as lines)"
		}
		return fmt.Errorf("%s: %w%s", x.title, errors.Join(damage, out.Abort()), hint) // the input has no complete entry
	}
	if x.final && damage == nil && x.codec != nil {
		damage = writeEnd(out)
	}
	if err := out.Close(); err != nil {
		return err
	}
	return x.damaged(errors.Join(x.cut, damage))
}

// writeEnd writes the entry for the end of a trace. Without this entry, the trace would look like the trace of a
// killed program.
func writeEnd(w *format.Writer) error {
	_, err := w.Write(&format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameEnd, Level: format.LevelTrace}})
	return err
}

// copyEntries writes all entries of in to w.
func copyEntries(ctx context.Context, w *format.Writer, in *format.Reader, progress func(done int64)) error {
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if w.Version() == in.Version() {
			_, err = w.WriteRaw(in.Raw(), e.Parent)
		} else {
			_, err = w.Write(e)
		}
		if err != nil {
			return err
		}
		if in.ID()%4096 == 0 {
			progress(in.Offset())
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
}

// damaged returns err as a DamageError. It returns nil if the file ends early only because a process is still writing
// it.
func (x *source) damaged(err error) error {
	if err == nil || errors.Is(err, format.ErrTruncated) && x.direct && osfile.Locked(format.Find(x.name)) {
		return nil
	}
	return &DamageError{err}
}

// titled adds the title of x to err if err is a DamageError.
func (x *source) titled(err error) error {
	if damage, ok := errors.AsType[*DamageError](err); ok {
		return &DamageError{fmt.Errorf("%s: %w", x.title, damage.Err)}
	}
	return err
}

// A counter is a file that reports how many of its bytes were read. If the file is mapped, the decoder calls Progress
// with this number.
type counter struct {
	*os.File

	done, total int64
	progress    func(done, total int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	c.done += int64(n)
	c.Progress(c.done)
	return n, err
}

// Progress implements [input.Progress].
func (c *counter) Progress(done int64) { c.progress(min(done, c.total), c.total) }

// WriteTo hides the WriteTo method of the file, which would not call Read.
func (c *counter) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{c})
}
