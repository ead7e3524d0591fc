package convert

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/tracename"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// DefaultMaxTemp is how many bytes [Open] writes to temporary files at most, unless
// [OpenOptions].MaxTemp says otherwise.
const DefaultMaxTemp = 8 << 30

var (
	// ErrNoTrace says that a folder has no trace in it.
	ErrNoTrace = errors.New("there is no trace in the folder")
	// ErrTempFull says that a file takes more than OpenOptions.MaxTemp once it is decoded.
	ErrTempFull = errors.New("decoded, it takes more room than is allowed for temporary files")
)

// OpenOptions change how [Open] works.
type OpenOptions struct {
	// From is the format of the files, as [Format].Name or [format.StorageFormat.String] has
	// it. By default each says itself what it is.
	From string
	// Stdin is read for the name "-". The default is os.Stdin.
	Stdin io.Reader
	// TempDir is the folder for temporary files. The default is os.TempDir().
	TempDir string
	// MaxTemp is how many bytes they have at most. The default is DefaultMaxTemp.
	MaxTemp int64
	// Clock corrects clocks that were wrong: it has what to add to the times of a service, or
	// of a file by its name or the last element of that.
	Clock map[string]time.Duration
	// Progress, if set, is called now and then while a file is decoded, with how many bytes
	// of how many are done; total is 0 if it is not known.
	Progress func(done, total int64)
	// Opened, if set, is called for each file before the view is built.
	Opened func(f *format.File)
	// Workers is as in [view.Options].
	Workers int
}

// A Trace is one or several files as one view. It is safe for concurrent use.
type Trace struct {
	options OpenOptions
	view    *view.View
	files   []*format.File
	names   []string  // that were asked for, of each file
	damage  []error   // what is wrong with a file of another format, by file
	kinds   []*Format // of the files, nil: one of ENTRACE's own
	inputs  []os.FileInfo
	opened  []os.FileInfo // by file; nil: it has no name
	folders []folder      // that were asked for

	recorders recorders
}

// A folder is one that was opened.
type folder struct {
	dir         string
	found, left []string // the traces in it, and what looks like one and is none
}

// Open opens files and folders and makes one view of all of them:
//
//   - ET, IET and IETPrefix, of both versions, whole or cut, growing, or with the journal of a
//     writer that died;
//   - files of the other formats, and files that gzip or zstd has compressed. What they hold is
//     written to a temporary file first, which has no name;
//   - folders. That means every file in it whose first bytes are those of a trace, in the order
//     of their names, without the folders in it. An x.et hides its x.iet. An x.et.broken, which
//     recovery has left, is none of them.
//
// Spans hang below their callers across files; see package view. Files that followed each other
// are named in that order, as they are in a folder. A nil o means defaults. The caller must
// close the Trace.
func Open(ctx context.Context, names []string, o *OpenOptions) (*Trace, error) {
	if o == nil {
		o = &OpenOptions{}
	}
	op := opener{ctx: ctx, options: *o, trace: new(Trace)}
	if op.options.MaxTemp <= 0 {
		op.options.MaxTemp = DefaultMaxTemp
	}
	op.left = op.options.MaxTemp
	op.trace.options = op.options
	if op.options.Stdin == nil {
		op.options.Stdin = os.Stdin
	}
	err := op.all(names)
	if err == nil {
		t := op.trace
		vo := &view.Options{Workers: o.Workers}
		if len(o.Clock) > 0 {
			vo.Clock = t.clock(o.Clock)
		}
		t.view, err = view.New(ctx, t.files, vo)
	}
	if err != nil {
		return nil, errors.Join(err, op.trace.Close())
	}
	return op.trace, nil
}

// clock returns the Clock of a view.
func (t *Trace) clock(by map[string]time.Duration) func(f *format.File, service string) time.Duration {
	ofFile := make(map[*format.File]time.Duration)
	for i, f := range t.files {
		for _, name := range []string{filepath.Base(t.names[i]), t.names[i], f.Name()} {
			if d, ok := by[name]; ok {
				ofFile[f] = d
			}
		}
	}
	return func(f *format.File, service string) time.Duration {
		d := ofFile[f]
		if service != "" {
			d += by[service]
		}
		return d
	}
}

// View returns the view of the files as they were opened.
func (t *Trace) View() *view.View { return t.view }

// Name returns the name by which a file of the view was found.
func (t *Trace) Name(file int) string { return t.names[file] }

// Format returns the format of others that a file of the view is of, nil if it is one of
// ENTRACE's own.
func (t *Trace) Format(file int) *Format { return t.kinds[file] }

// Damage returns why files could not be read to their ends, nil if all are whole. What comes
// before that in a file is part of the view. That a file which a process writes ends within an entry is nothing
// wrong.
func (t *Trace) Damage() error {
	var errs []error
	for i := range t.files {
		err := errors.Join(t.damage[i], t.view.Damage(i))
		if err == nil || errors.Is(err, format.ErrTruncated) && osfile.Locked(t.files[i].Name()) {
			continue
		}
		if len(t.files) > 1 {
			err = fmt.Errorf("%s: %w", t.names[i], err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Replaced returns the names of those files whose names are those of other files by now, as a
// recorder's is that has begun a new one. The view still has what it had.
func (t *Trace) Replaced() []string {
	var names []string
	for i, fi := range t.opened {
		if fi == nil {
			continue
		}
		if now, err := os.Stat(t.files[i].Name()); err == nil && !os.SameFile(fi, now) {
			names = append(names, t.names[i])
		}
	}
	return names
}

// Outdated reports whether [Open] would open other files for the same names by now: the name of a
// file is another one's, or a folder has other traces in it.
func (t *Trace) Outdated() bool {
	for _, f := range t.folders {
		if found, _, err := tracesIn(f.dir); err == nil && !slices.Equal(found, f.found) {
			return true
		}
	}
	return len(t.Replaced()) > 0
}

// LeftOut says of the files in the folders that were not opened, though their names are those of
// traces, why they were not.
func (t *Trace) LeftOut() (all []string) {
	for _, f := range t.folders {
		all = append(all, f.left...)
	}
	return all
}

// Close closes the files. The view is of no use any more.
func (t *Trace) Close() error {
	var errs []error
	for _, f := range t.files {
		errs = append(errs, f.Close())
	}
	t.files = nil
	return errors.Join(errs...)
}

// checkOutput finds out early what would make writing to out fail.
func (t *Trace) checkOutput(out string, replace bool) error {
	for _, fi := range t.inputs {
		if err := checkOutput(fi, out, replace); err != nil {
			return err
		}
	}
	return nil
}

// An opener opens the files of a Trace.
type opener struct {
	ctx     context.Context //nolint:containedctx // of the one call that it lives for
	options OpenOptions
	left    int64 // of the room for temporary files
	trace   *Trace
}

func (o *opener) all(names []string) error {
	for _, name := range names {
		fi, err := os.Stat(name)
		switch {
		case name == "-":
			err = o.foreign(o.options.Stdin, "standard input", "", 0)
		case err == nil && fi.IsDir():
			err = o.folder(name)
		default:
			err = o.file(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// folder opens the traces in a folder.
func (o *opener) folder(dir string) error {
	found, left, err := tracesIn(dir)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("%s: %w", dir, ErrNoTrace)
	}
	o.trace.folders = append(o.trace.folders, folder{dir, found, left})
	for _, name := range found {
		if err := o.native(name); err != nil {
			return err
		}
	}
	return nil
}

// tracesIn returns the names of the traces in a folder, and why others that are named like one are
// left out.
func tracesIn(dir string) (found, left []string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	var originals []string
	for _, e := range list {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if base, ok := strings.CutSuffix(e.Name(), tracename.Broken); ok && tracename.Base(base) != base {
			originals = append(originals, e.Name())
			continue
		}
		name, why := filepath.Join(dir, e.Name()), "it is no regular file, and links are not followed"
		if e.Type().IsRegular() {
			head, err := beginning(name, wire.MagicSize)
			if err == nil {
				_, _, err = format.ReadMagic(bytes.NewReader(head))
			}
			if err == nil {
				found = append(found, name)
				continue
			}
			if why = "it is no trace"; len(head) == 0 {
				why = "it is empty"
			}
		}
		if ext := filepath.Ext(name); ext == ".et" || ext == ".iet" {
			left = append(left, name+" is left out: "+why)
		}
	}
	if n := len(originals); n > 0 {
		left = append(left, fmt.Sprintf("%s: damaged originals of recovered traces are left out: %s", dir, strings.Join(originals, ", ")))
	}
	all := slices.Clone(found)
	return slices.DeleteFunc(found, func(name string) bool {
		base, isIET := strings.CutSuffix(name, ".iet")
		return isIET && slices.Contains(all, base+".et")
	}), left, nil
}

func beginning(name string, n int) ([]byte, error) {
	f, err := openForeign(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, n)
	n, err = io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return head[:n], nil
}

// file opens the file name, whatever it is.
func (o *opener) file(name string) error {
	if _, err := os.Lstat(name); err != nil {
		return o.native(name) // format.Find may find what is left of it
	}
	head, err := beginning(name, SniffSize)
	if err != nil {
		return err
	}
	_, _, err = format.ReadMagic(bytes.NewReader(head))
	if from := o.options.From; !isCompressed(head) && (isNative(from) || from == "" && (err == nil || FormatOf(head, name) == nil)) {
		return o.native(name)
	}
	src, err := openForeign(name)
	if err != nil {
		return err
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	o.trace.inputs = append(o.trace.inputs, fi)
	return o.foreign(src, name, name, fi.Size())
}

func isNative(name string) bool {
	_, err := format.ParseStorageFormat(name)
	return err == nil
}

// native opens a trace of ENTRACE's own formats.
func (o *opener) native(name string) error {
	f, err := recorder.Open(name, nil)
	if err != nil {
		if f, err = o.lenient(name, err); err != nil {
			return err
		}
	}
	fi, err := osfile.Stat(f.Name())
	if err == nil {
		o.trace.inputs = append(o.trace.inputs, fi)
	} else {
		fi = nil
	}
	o.add(f, name, nil, nil)
	o.trace.opened[len(o.trace.opened)-1] = fi
	return nil
}

// lenient opens a trace of which only the beginning is whole.
func (o *opener) lenient(name string, err error) (*format.File, error) {
	if _, ok := errors.AsType[*format.CorruptError](err); !ok {
		return nil, err
	}
	f, lerr := recorder.Open(name, &format.OpenOptions{Lenient: true})
	if lerr != nil {
		return nil, err
	}
	return f, nil
}

func (o *opener) add(f *format.File, name string, kind *Format, damage error) {
	t := o.trace
	t.files, t.names = append(t.files, f), append(t.names, name)
	t.kinds, t.damage = append(t.kinds, kind), append(t.damage, damage)
	t.opened = append(t.opened, nil)
	if o.options.Opened != nil {
		o.options.Opened(f)
	}
}

var (
	magicGzip = []byte{0x1f, 0x8b}
	magicZstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// IsCompressed reports whether the file is one that gzip or zstd has compressed.
func IsCompressed(file string) bool {
	head, err := beginning(file, len(magicZstd))
	return err == nil && isCompressed(head)
}

func isCompressed(head []byte) bool {
	return bytes.HasPrefix(head, magicGzip) || bytes.HasPrefix(head, magicZstd)
}

// foreign opens what r holds, which has that name, by way of a temporary file.
func (o *opener) foreign(r io.Reader, title, name string, size int64) error {
	if o.options.Progress != nil {
		if f, ok := r.(*os.File); ok {
			r = counted(f, size, o.options.Progress)
		}
	}
	var head []byte
	var err error
	if at, ok := r.(io.ReaderAt); ok && size > 0 {
		head = make([]byte, min(SniffSize, size))
		if _, err := at.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	} else {
		b := bufio.NewReaderSize(r, 64<<10)
		if head, err = b.Peek(SniffSize); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		r = b
	}
	var cut error // why what is compressed is not whole
	if isCompressed(head) {
		plain, err := decompressed(r, head)
		if err != nil {
			return fmt.Errorf("%s: %w", title, err)
		}
		defer plain.Close()
		b := bufio.NewReaderSize(&wholeReader{plain, &cut}, 64<<10)
		if head, err = b.Peek(SniffSize); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", title, err)
		}
		r = b
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst"), ".zstd")
	}
	return o.decode(r, &cut, head, title, name)
}

// decompressed returns a reader of the plain bytes of r, whose first compressed ones are head.
func decompressed(r io.Reader, head []byte) (io.ReadCloser, error) {
	if bytes.HasPrefix(head, magicGzip) {
		return gzip.NewReader(r)
	}
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// decode writes what r holds, which begins with head, to a temporary trace and opens that. At the
// end of r cut is why there is no more.
func (o *opener) decode(r io.Reader, cut *error, head []byte, title, name string) error {
	var f *Format
	if from := o.options.From; from != "" && !isNative(from) {
		if f = FormatNamed(from); f == nil || f.Decode == nil {
			return fmt.Errorf("%q is no format that is read", from)
		}
	} else if _, _, err := format.ReadMagic(bytes.NewReader(head)); err != nil && from == "" {
		f = FormatOf(head, name)
	}
	tmp, err := osfile.CreateSpool(o.options.TempDir)
	if err != nil {
		return err
	}
	w := &limited{w: tmp, left: &o.left}
	var damage error
	if f == nil {
		err = Stream(o.ctx, w, r, Options{Format: format.IET})
		if _, corrupt := errors.AsType[*format.CorruptError](err); corrupt || errors.Is(err, format.ErrTruncated) {
			damage, err = err, nil
		}
	} else {
		damage, err = StreamFrom(o.ctx, w, r, f.Decode, Options{Format: format.IET})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", title, errors.Join(err, tmp.Close()))
	}
	opened, err := openSpool(tmp, title)
	if err != nil {
		return err
	}
	o.add(opened, title, f, errors.Join(*cut, damage))
	return nil
}

// openSpool opens the trace in a temporary file.
func openSpool(tmp *osfile.Spool, title string) (*format.File, error) {
	f, err := format.Open(title, &format.OpenOptions{File: tmp.File})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", title, errors.Join(err, tmp.Close()))
	}
	return f, nil
}

// isCut reports whether err says that what is compressed is not whole.
func isCut(err error) bool {
	for _, of := range []error{io.ErrUnexpectedEOF, gzip.ErrChecksum, gzip.ErrHeader, zstd.ErrCRCMismatch, zstd.ErrMagicMismatch} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// A wholeReader reads what is whole of r, which is compressed, and notes why that is not all.
type wholeReader struct {
	r   io.Reader
	cut *error
}

func (w *wholeReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if isCut(err) {
		*w.cut, err = err, io.EOF
	}
	return n, err
}

// limited is a writer with so much room left.
type limited struct {
	w    io.Writer
	left *int64
}

func (l *limited) Write(p []byte) (int, error) {
	if *l.left -= int64(len(p)); *l.left < 0 {
		return 0, ErrTempFull
	}
	return l.w.Write(p)
}
