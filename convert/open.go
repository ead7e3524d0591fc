package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/convert/gotrace"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/read/loglines"
	"github.com/entrace-go/entrace/internal/read/secrets"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
	"github.com/entrace-go/entrace/view"
)

// defaultMaxTemp is the default of [OpenOptions].MaxTemp, in bytes.
const defaultMaxTemp = 8 << 30

// ErrNoTrace is returned for a folder without a trace.
var ErrNoTrace = errors.New("the folder has no trace")

var errTempFull = errors.New("the decoded trace is larger than the limit for temporary files (--max-temp)")

// OpenOptions control how [Open] works.
type OpenOptions struct {
	// From is the format of the files. By default Open detects the format of each file.
	From Format
	// Stdin is read for the name "-". The default is os.Stdin.
	Stdin io.Reader
	// TempDir is the folder for temporary files. The default is os.TempDir().
	TempDir string
	// MaxTemp is the maximum size in bytes of all temporary files together. The default is 8 GiB.
	MaxTemp int64
	// Clock corrects wrong clocks. Open adds its values to all times of a service or a file. A key is the name of a
	// service, the name of a file, or the last element of the name of a file.
	Clock map[string]time.Duration
	// Progress, if set, is called from time to time while a file is decoded. The parameters done and total are in
	// bytes; total is 0 if it is unknown.
	Progress func(done, total int64)
	// Repeated, if set, is called for each input of another format that has spans twice, for example because a sender
	// got no answer and sent them again. A span that occurs twice is in the view once. The parameter spans is the
	// number of spans that were left out.
	Repeated func(name string, spans int)
	// Journal, if set, is called for each file that its recorder did not close. The parameter entries is the number
	// of entries that are in the journal, or -1 if it is unknown. The parameter missing says why other entries are
	// missing, as [format.File.Journal] does.
	Journal func(name string, entries int, missing error)
	// Once says that the caller only encodes the trace, and only once. For a single file, Open then reads only the
	// beginning, and Trace.Encode reads the rest. If Encode writes one of ENTRACE's own formats, it writes each entry
	// as soon as it has read the entry, and needs no view and no temporary file. A Trace that was opened with Once
	// has no View and no State.
	Once bool
	// Fields gives meanings to fields of logs. Each item has a meaning, such as time or level, and the name of a
	// field. [LogMeanings] returns the possible meanings.
	Fields [][2]string
	// Redact, if set, replaces the secrets in all opened files. The files themselves do not change: Open writes their
	// content without the secrets to temporary files. Redact counts the replacements.
	Redact *redact.Redactor
	// Workers is passed to [view.Options].
	Workers int
}

// A Trace is one or more files that were opened as one view. It is safe for concurrent use.
type Trace struct {
	options OpenOptions
	view    *view.View
	files   []*format.File
	names   []string // for each file, its name as passed to Open or found in a folder
	damage  []error  // for each file, the damage that was found when Open decoded or redacted it
	codecs  []*codec // for each file, its codec; nil for one of ENTRACE's own formats
	inputs  []os.FileInfo
	traces  map[*format.File]*os.File // for a file that was made from a Go execution trace: the execution trace
	once    *source                   // the input that Encode will read; nil if Open has read everything
	opened  []os.FileInfo             // for each file, its identity; nil for a file without a name
	folders []folder                  // the folders that were passed to Open
	again   []string                  // further names of files that are open

	// The original files of the files whose secrets are replaced. They stay open, so that no new file gets their identity.
	redacted []*format.File

	recorders recorders
}

// A folder is a folder that was passed to Open.
type folder struct {
	dir         string
	found, left []string // names of the traces in dir; messages about other files that have names of traces
}

// Open opens files and folders and makes one view of all of them:
//
//   - ET, IET and IETPrefix, in both versions. The files may be complete, truncated or growing, and their writer may
//     have died and left a journal;
//   - files of other formats, and files that gzip or zstd compressed. Open first writes their content to a
//     temporary file without a name;
//   - folders. Open opens every file in the folder that begins like a trace, in the order of their names. It does not
//     open subfolders. If there is a file x.et, Open ignores x.iet; if there is either, it ignores a file x of
//     another format. It ignores x.et.broken, which recovery left;
//   - ZIPs of at most 1,000 files. Open opens the traces in them, but does not use their names as paths.
//
// Open opens a file only once, even if it is named several times.
//
// In the view, a span is below its caller even if the caller is in another file; see package view. Pass the files of
// a recording in the order in which they were written. Open opens the files of a folder in the order of their names.
// A nil o means defaults.
//
// If files cannot be read to their ends, Open returns a Trace with all complete entries and a [*DamageError]. After any
// other error the Trace is nil. If a process is still writing a file, it is not an error if the file ends within an
// entry. The caller must close the Trace.
func Open(ctx context.Context, names []string, o *OpenOptions) (*Trace, error) {
	op := opener{ctx: ctx, trace: new(Trace)}
	if o != nil {
		op.options = *o
	}
	if f := op.options.From; f != "" {
		if c := codecOf(f); c == nil || !c.reads() {
			return nil, &FormatError{Format: f}
		}
	}
	if op.options.MaxTemp <= 0 {
		op.options.MaxTemp = defaultMaxTemp
	}
	if op.options.Stdin == nil {
		op.options.Stdin = os.Stdin
	}
	op.left = op.options.MaxTemp
	op.trace.options = op.options
	return op.finish(op.all(names))
}

// open reads all of the input of a Trace that was opened with Once. It returns a second Trace.
func (t *Trace) open(ctx context.Context) (*Trace, error) {
	op := opener{ctx: ctx, options: t.options, left: t.options.MaxTemp, trace: &Trace{options: t.options}}
	return op.finish(op.load(t.once))
}

// finish makes the view of the files. If err is not nil, it closes the files and returns err.
func (o *opener) finish(err error) (*Trace, error) {
	t := o.trace
	if err == nil && t.once == nil {
		t.view, err = t.Corrected(o.ctx, o.options.Clock)
	}
	if err == nil && t.once == nil {
		err = o.joinLogs()
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if t.once != nil {
		return t, nil
	}
	return t, t.Damage()
}

// Corrected returns another view of the files, with its clocks corrected as [OpenOptions].Clock describes.
func (t *Trace) Corrected(ctx context.Context, clocks map[string]time.Duration) (*view.View, error) {
	o := &view.Options{Workers: t.options.Workers}
	if len(clocks) > 0 {
		o.Clock = t.clock(clocks)
	}
	if len(t.traces) > 0 {
		o.ExecTrace = t.execTrace
	}
	return view.New(ctx, t.files, o)
}

// execTrace returns the Go execution trace from which f was made. data is nil if there is no execution trace.
func (t *Trace) execTrace(f *format.File) (data io.ReaderAt, size int64) {
	from := t.traces[f]
	if from == nil {
		return nil, 0
	}
	fi, err := from.Stat()
	if err != nil {
		return nil, 0
	}
	return from, fi.Size()
}

// clock returns the function Clock for a view. The map by has the corrections.
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

// View returns the view that Open made of the files.
func (t *Trace) View() *view.View { return t.view }

// Name returns the name of a file of the view, as passed to Open or found in a folder.
func (t *Trace) Name(file int) string { return t.names[file] }

// Format returns the format of a file of the view.
func (t *Trace) Format(file int) Format {
	if c := t.codecs[file]; c != nil {
		return c.Format
	}
	return Format(t.files[file].Format().String())
}

// Damage returns the [*DamageError] that Open returned, or nil if all files are complete.
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
	if len(errs) == 0 {
		return nil
	}
	return &DamageError{errors.Join(errs...)}
}

// Replaced returns the names that now belong to other files, for example because a recorder has begun a new file.
// The view still has the entries of the old files.
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

// Outdated reports whether [Open] with the same names would now open other files: a name belongs to another file,
// or the traces in a folder are different.
func (t *Trace) Outdated() bool {
	for _, f := range t.folders {
		if found, _, err := tracesIn(f.dir); err == nil && !slices.Equal(found, f.found) {
			return true
		}
	}
	return len(t.Replaced()) > 0
}

// LeftOut lists files that were not opened, with the reasons: files in the folders that have the name of a trace, and
// files that were named before.
func (t *Trace) LeftOut() (all []string) {
	switch n := len(t.again); {
	case n == 1:
		all = append(all, t.again[0]+" is the same file as an earlier argument, and is read only once")
	case n > 1:
		all = append(all, fmt.Sprintf("%s and %d more are the same files as earlier arguments, and are read only once", t.again[0], n-1))
	}
	for _, f := range t.folders {
		all = append(all, f.left...)
	}
	return all
}

// Close closes the files. After that, the view must not be used.
func (t *Trace) Close() error {
	var errs []error
	for _, f := range slices.Concat(t.files, t.redacted) {
		errs = append(errs, f.Close())
	}
	for _, f := range t.traces {
		errs = append(errs, f.Close())
	}
	t.files, t.redacted, t.traces = nil, nil, nil
	if t.once != nil {
		errs = append(errs, t.once.Close())
		t.once = nil
	}
	return errors.Join(errs...)
}

// An opener opens the files of a Trace.
type opener struct {
	ctx     context.Context //nolint:containedctx // the context of the one call for which the opener exists
	options OpenOptions
	left    int64 // the number of bytes that may still be written to temporary files
	trace   *Trace
}

func (o *opener) all(names []string) error {
	for _, name := range inTime(names) {
		if fi, err := os.Stat(name); name != "-" && err == nil && fi.IsDir() {
			if err := o.folder(name); err != nil {
				return err
			}
			continue
		}
		if is, err := o.zipped(name); is || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		x, err := o.openSource(name)
		if err != nil {
			return err
		}
		if o.options.Once && len(names) == 1 && len(o.options.Clock) == 0 && o.options.Redact == nil {
			return o.setOnce(x)
		}
		if err := o.load(x); err != nil {
			return err
		}
	}
	return nil
}

// setOnce makes x the input of a trace that will be encoded once.
func (o *opener) setOnce(x *source) (err error) {
	o.trace.once = x
	if x.direct {
		x.src, err = deadtrace.OpenSource(format.Find(x.name))
		if err != nil {
			return err
		}
		x.info, err = osfile.Stat(x.src.Name)
		if err != nil {
			return err
		}
		n := 0
		if x.src.Size() > x.src.Stored {
			n = -1
		}
		o.journal(x.src.Name, n, x.src.Missing)
	}
	if x.info != nil {
		o.trace.inputs = append(o.trace.inputs, x.info)
	}
	return nil
}

func (o *opener) journal(name string, entries int, missing error) {
	if o.options.Journal != nil && (entries != 0 || missing != nil) {
		o.options.Journal(name, entries, missing)
	}
}

// folder opens the traces in the folder dir.
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
		x, err := o.openSource(name)
		foreign := x != nil && !x.direct
		if err == nil {
			err = o.load(x)
		}
		if err != nil && (!foreign || o.ctx.Err() != nil || errors.Is(err, errTempFull)) {
			return err
		}
		if err != nil { // the file begins like a trace, but is not one
			at := &o.trace.folders[len(o.trace.folders)-1]
			at.left = append(at.left, name+" is skipped: "+err.Error())
		}
	}
	if len(o.trace.files) == 0 {
		return fmt.Errorf("%s: %w", dir, ErrNoTrace)
	}
	return nil
}

// tracesIn returns the names of the traces in a folder. The messages in left say why other files with the name of a
// trace are ignored.
func tracesIn(dir string) (found, left []string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	var originals, others []string
	for _, e := range list {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if base, ok := strings.CutSuffix(e.Name(), tracename.Broken); ok && tracename.Base(base) != base {
			originals = append(originals, e.Name())
			continue
		}
		name, why := filepath.Join(dir, e.Name()), "not a regular file, and links are not followed"
		if e.Type().IsRegular() {
			head, is := isTrace(name)
			if is {
				found = append(found, name)
				continue
			}
			if holdsTrace(name, head) {
				others = append(others, name)
				continue
			}
			why = "not a trace"
			if len(head) == 0 {
				why = "the file is empty"
			}
		}
		if ext := filepath.Ext(name); ext == ".et" || ext == ".iet" {
			left = append(left, name+" is skipped: "+why)
		}
	}
	if n := len(originals); n > 0 {
		left = append(left, fmt.Sprintf("%s: skipped damaged originals of recovered traces: %s", dir, strings.Join(originals, ", ")))
	}
	all := slices.Clone(found)
	found = slices.DeleteFunc(found, func(name string) bool {
		base, isIET := strings.CutSuffix(name, ".iet")
		return isIET && slices.Contains(all, base+".et")
	})
	for _, name := range others {
		stem, _, _ := strings.Cut(filepath.Base(name), ".")
		stem = filepath.Join(dir, stem)
		if slices.Contains(all, stem+".et") || slices.Contains(all, stem+".iet") {
			left = append(left, name+" is skipped: an .et or .iet has the same name")
		} else {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return inTime(found), left, nil
}

// inTime returns names. It puts the files that a logger has rotated into chronological order: app.log.2.gz, app.log.1,
// app.log.
func inTime(names []string) []string {
	rotated := func(name string) (of string, n int) {
		of = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst"), ".zstd")
		ext := filepath.Ext(of)
		n, err := strconv.Atoi(strings.TrimPrefix(ext, "."))
		if err != nil {
			return of, 0
		}
		return strings.TrimSuffix(of, ext), n
	}
	first := make(map[string]int) // the index of the first file of a family
	for i, name := range slices.Backward(names) {
		of, _ := rotated(name)
		first[of] = i
	}
	return slices.SortedStableFunc(slices.Values(names), func(a, b string) int {
		ofA, nA := rotated(a)
		ofB, nB := rotated(b)
		return cmp.Or(first[ofA]-first[ofB], nB-nA)
	})
}

// holdsTrace reports whether the file called name, whose first bytes are head, is a trace of another format, perhaps
// compressed.
func holdsTrace(name string, head []byte) bool {
	f, err := openRegular(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if isFramed(head) {
		return true // reading the first message could take long, because it may be large
	}
	x := new(source)
	err = new(opener).detect(x, head, f)
	return errors.Join(err, x.Close()) == nil && len(head) > 0
}

// isTrace returns the first bytes of a file, and whether it is a trace in one of ENTRACE's own formats.
func isTrace(name string) (head []byte, is bool) {
	f, err := openRegular(name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	head, err = beginning(f)
	return head, err == nil && isOwn(head)
}

// isAgain reports whether the file called name is already an input. If it is not, isAgain adds it to the inputs.
func (o *opener) isAgain(name string, fi os.FileInfo) bool {
	t := o.trace
	if slices.ContainsFunc(t.inputs, func(in os.FileInfo) bool { return os.SameFile(in, fi) }) {
		t.again = append(t.again, name)
		return true
	}
	t.inputs = append(t.inputs, fi)
	return false
}

// load opens the trace in x, and closes x.
func (o *opener) load(x *source) error {
	if x.direct {
		return errors.Join(x.withGuess(o.loadOwn(x.name)), x.Close())
	}
	if x.info != nil && o.isAgain(x.name, x.info) {
		return x.Close()
	}
	tmp, err := osfile.CreateSpool(o.options.TempDir)
	if err != nil {
		return errors.Join(err, x.Close())
	}
	err = x.writeTo(o.ctx, &limitedWriter{w: tmp, left: &o.left}, 0, format.IET, &o.options)
	damage, damaged := errors.AsType[*DamageError](err)
	err = errors.Join(err, x.Close())
	if err != nil && !damaged {
		return errors.Join(err, tmp.Close())
	}
	f, err := openSpool(tmp, x.title)
	if err == nil && o.options.Redact != nil {
		plain := f
		f, _, err = o.redacted(plain)
		_ = plain.Close() // it was only read
	}
	if err != nil {
		return err
	}
	var lost error
	if damaged {
		lost = damage.Err
	}
	o.add(f, x.title, x.codec, nil, lost)
	if x.codec != nil && x.codec.Format == GoTrace && x.info != nil && o.options.Redact == nil {
		o.keepTrace(x, f)
	}
	return nil
}

// keepTrace keeps open the execution trace from which f was made, because the execution trace shows what goroutines
// did. It keeps nothing if the execution trace is compressed or was replaced.
func (o *opener) keepTrace(x *source, f *format.File) {
	from, err := openRegular(x.name)
	if err != nil {
		return
	}
	fi, err := from.Stat()
	head, herr := beginning(io.NewSectionReader(from, 0, sniffSize))
	if err != nil || herr != nil || !os.SameFile(fi, x.info) || !gotrace.Is(head) {
		_ = from.Close()
		return
	}
	if o.trace.traces == nil {
		o.trace.traces = make(map[*format.File]*os.File)
	}
	o.trace.traces[f] = from
}

// loadOwn opens a file in one of ENTRACE's own formats. If the file is damaged, the trace has the complete entries
// before the damage.
func (o *opener) loadOwn(name string) error {
	f, err := recorder.Open(name, nil)
	if _, corrupt := errors.AsType[*format.CorruptError](err); corrupt {
		if lenient, lerr := recorder.Open(name, &format.OpenOptions{Lenient: true}); lerr == nil {
			f, err = lenient, nil
		}
	}
	if err != nil {
		return err
	}
	fi, err := osfile.Stat(f.Name())
	if err == nil && o.isAgain(name, fi) {
		return f.Close()
	}
	n, missing := f.Journal()
	o.journal(f.Name(), n, missing)
	var damage error
	if o.options.Redact != nil {
		o.trace.redacted = append(o.trace.redacted, f)
		f, damage, err = o.redacted(f)
		if err != nil {
			return err
		}
	}
	o.add(f, name, nil, fi, damage)
	return nil
}

// redacted returns a file with the entries of f without their secrets, and the damage of f.
func (o *opener) redacted(f *format.File) (without *format.File, damage, err error) {
	return o.changed(f, func(e *format.TraceEntry) { secrets.Replace(o.options.Redact, e, nil) })
}

// changed returns a file with the entries of f after a call of change for each entry, and the damage of f.
func (o *opener) changed(f *format.File, change func(e *format.TraceEntry)) (to *format.File, damage, err error) {
	tmp, err := osfile.CreateSpool(o.options.TempDir)
	if err != nil {
		return nil, nil, err
	}
	out, err := format.NewWriter(&limitedWriter{w: tmp, left: &o.left}, f.Version(), format.IET, nil)
	if err == nil {
		err = copyFile(o.ctx, out, f, change)
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		return nil, nil, errors.Join(err, tmp.Close())
	}
	to, err = openSpool(tmp, f.Name())
	return to, f.Damage(), err
}

// joinLogs changes records of logs that belong to spans in other files, and then makes the view again. If another
// file has the span of an access log, the span in the log becomes a log record. A record that names only a trace gets
// the span id of the trace's root.
func (o *opener) joinLogs() (err error) {
	t, v := o.trace, o.trace.view
	isLog := func(r view.Row) bool {
		file, _ := v.ID(r)
		return t.Format(file) == Log
	}
	logged := make(map[format.SpanRef]bool) // the spans of access logs, and whether another file has them
	roots := make(map[[16]byte]format.SpanRef)
	if !slices.ContainsFunc(t.codecs, func(c *codec) bool { return c != nil && c.Format == Log }) {
		return nil
	}
	for r := range v.Rows() {
		if v.Role(r) != view.RoleSpan {
			continue
		}
		if _, known := roots[v.TraceID(r)]; !known && v.Outermost(r) == r {
			roots[v.TraceID(r)] = v.Ref(r)
		}
		if isLog(r) {
			logged[v.Ref(r)] = false
		}
	}
	delete(roots, [16]byte{})
	onlyTrace := func(r view.Row) bool {
		return v.Role(r) == view.RoleLog && v.Owner(r) == 0 && roots[v.TraceID(r)].IsValid()
	}
	changes := false
	for r := range v.Rows() {
		switch is := isLog(r); {
		case is:
			changes = changes || onlyTrace(r)
		case len(logged) > 0 && v.Role(r) == view.RoleSpan:
			_, is = logged[v.Ref(r)]
			if is {
				logged[v.Ref(r)] = true
				changes = true
			}
		}
	}
	for i := range t.files {
		if !changes || t.Format(i) != Log {
			continue
		}
		id := uint32(0)
		joined, _, err := o.changed(t.files[i], func(e *format.TraceEntry) {
			r, _ := v.Row(i, id)
			switch {
			case v.Role(r) == view.RoleSpan && logged[v.Ref(r)]:
				loglines.Demote(e)
			case onlyTrace(r):
				_, named := e.Attribute(format.AttrSpanID)
				if !named {
					e.Add(format.AttrSpanID, format.StringValue(fmt.Sprintf("%x", roots[v.TraceID(r)].SpanID)))
				}
			}
			id++
		})
		if err != nil {
			return err
		}
		_ = t.files[i].Close() // it was only read
		t.files[i] = joined
	}
	if changes {
		t.view, err = t.Corrected(o.ctx, o.options.Clock)
	}
	return err
}

func (o *opener) add(f *format.File, name string, c *codec, opened os.FileInfo, damage error) {
	t := o.trace
	t.files, t.names, t.codecs = append(t.files, f), append(t.names, name), append(t.codecs, c)
	t.damage, t.opened = append(t.damage, damage), append(t.opened, opened)
}

// openSpool opens the trace in the temporary file tmp.
func openSpool(tmp *osfile.Spool, title string) (*format.File, error) {
	f, err := format.Open(title, &format.OpenOptions{File: tmp.File})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", title, errors.Join(err, tmp.Close()))
	}
	return f, nil
}

// A limitedWriter accepts at most *left bytes.
type limitedWriter struct {
	w    io.Writer
	left *int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	*l.left -= int64(len(p))
	if *l.left < 0 {
		return 0, errTempFull
	}
	return l.w.Write(p)
}
