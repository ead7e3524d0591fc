package control

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/retain"
	"github.com/entrace-go/entrace/recorder"
)

// A TraceFile is a finished trace in the folder of a [Config].
type TraceFile struct {
	Name   string    // of the file, without its folder
	Size   int64     // in bytes
	Time   time.Time // when the trace began, UTC, by its name
	Manual bool      // somebody asked for it
	Config string    // the name of the trace in the configuration, or "crash"

	modified time.Time
}

// A folder is where traces lie. Whatever is in it that has not a name of ours, or
// is not a regular file, is left alone. Several processes may use one folder. A
// folder is safe for concurrent use.
type folder struct {
	dir   string     // absolute, and without symbolic links where that can be had
	ended retain.Log // by name
}

// openFolder returns the folder dir, and makes it, for the user alone, if it is
// not there.
func openFolder(dir string) (*folder, error) {
	if dir == "" {
		return nil, errors.New("open the folder of the traces: its name is empty")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the traces: %w", err)
	}
	//nolint:gosec // G301: only the folder itself is private, what it lies in is for all that may lie there
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the traces: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		fi, serr := os.Stat(dir) // some systems have other errors than ErrExist for what is there
		if serr != nil {
			return nil, fmt.Errorf("make the folder of the traces: %w", err)
		}
		if !fi.IsDir() {
			return nil, fmt.Errorf("open the folder of the traces: %s is not a folder", dir)
		}
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	return &folder{dir: dir}, nil
}

// path returns the path of the file name.
func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// each calls fn for the regular files in the folder, in no order.
func (f *folder) each(fn func(e fs.DirEntry)) error {
	d, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		// In parts, since nothing bounds what else lies there.
		list, err := d.ReadDir(256)
		for _, e := range list {
			if e.Type().IsRegular() {
				fn(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// list returns the finished traces, oldest first.
func (f *folder) list() ([]TraceFile, error) {
	var files []TraceFile
	var first error
	err := f.each(func(e fs.DirEntry) {
		n, ok := parseFileName(e.Name())
		if !ok {
			return
		}
		fi, err := e.Info()
		if err != nil {
			if first == nil && !errors.Is(err, fs.ErrNotExist) { // else somebody trims
				first = err
			}
			return
		}
		if fi.Mode().IsRegular() {
			files = append(files, TraceFile{Name: e.Name(), Size: fi.Size(), Time: n.time, Manual: n.manual, Config: n.config, modified: fi.ModTime()})
		}
	})
	if err == nil {
		err = first
	}
	if err != nil {
		return nil, fmt.Errorf("list the traces: %w", err)
	}
	slices.SortFunc(files, func(a, b TraceFile) int { return cmp.Compare(a.Name, b.Name) })
	// A folder that changes while it is read may show a file twice.
	return slices.CompactFunc(files, func(a, b TraceFile) bool { return a.Name == b.Name }), nil
}

// trim removes traces until all bounds of k hold at the time now, and returns how
// many this call has removed: those that are too old, then the oldest of those that
// nobody asked for by hand, then the oldest of the others. Package retain decides which
// is older. The caller passes the traces that were finished just now in spare, which
// trim never removes; if none of them exists, it spares the newest one. A trace that
// cannot be removed still counts. The first such error is returned in the end.
func (f *folder) trim(k Keep, now time.Time, spare ...string) (removed int, err error) {
	if k == (Keep{}) {
		return 0, nil
	}
	files, err := f.list()
	if err != nil || len(files) == 0 {
		return 0, err
	}
	there := make(map[string]bool, len(files))
	count, size := len(files), int64(0)
	for i := range files {
		there[files[i].Name] = true
		size += files[i].Size
	}
	f.ended.Forget(func(name string) bool { return there[name] })
	known := func(file *TraceFile) *retain.File {
		return &retain.File{Path: file.Name, Named: file.Time, Modified: file.modified}
	}
	older := f.ended.Compare(now)
	slices.SortStableFunc(files, func(a, b TraceFile) int { return older(known(&a), known(&b)) })
	if !slices.ContainsFunc(spare, func(name string) bool { return there[name] }) {
		files = files[:len(files)-1]
	}
	files = slices.DeleteFunc(files, func(file TraceFile) bool { return slices.Contains(spare, file.Name) })
	slices.SortStableFunc(files, func(a, b TraceFile) int {
		switch {
		case a.Manual == b.Manual:
			return 0
		case b.Manual:
			return -1
		}
		return 1
	})
	remove := func(file *TraceFile) bool {
		rerr := os.Remove(f.path(file.Name))
		switch {
		case rerr == nil:
			removed++
		case !errors.Is(rerr, fs.ErrNotExist): // else another process has trimmed it
			if err == nil {
				err = fmt.Errorf("trim the traces: %w", rerr)
			}
			return false
		}
		count--
		size -= file.Size
		return true
	}
	// First what has to go in any case, since that may be enough.
	files = slices.DeleteFunc(files, func(file TraceFile) bool {
		return k.Age > 0 && f.ended.Older(known(&file), now, k.Age) && remove(&file)
	})
	for i := range files {
		if (k.Files <= 0 || count <= k.Files) && (k.Bytes <= 0 || size <= k.Bytes) {
			break
		}
		remove(&files[i])
	}
	return removed, err
}

// open opens a finished trace for reading, which the caller closes. Whatever has
// not the name of one, or is no regular file, is fs.ErrNotExist.
func (f *folder) open(name string) (*os.File, os.FileInfo, error) {
	missing := &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	if _, ok := parseFileName(name); !ok {
		return nil, nil, missing
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	was, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !was.Mode().IsRegular() { // to open a pipe could block
		return nil, nil, missing
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	fi, err := file.Stat()
	if err == nil && !os.SameFile(was, fi) {
		err = missing
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, nil, err
	}
	return file, fi, nil
}

// sweep finishes what dead processes have left: their streams, and what their
// crash buffers hold, become traces, whose names it returns, and their temporary
// files are removed. What a living process writes is left alone. It may be called
// at any time, by several processes at once. An error about one file does not keep
// it from the others.
func (f *folder) sweep() (finished []string, err error) {
	streams := make(map[string]bool) // by the name that the trace will have
	var temps []string               // not removed at once, since that could make ReadDir miss others
	eerr := f.each(func(e fs.DirEntry) {
		if folderTemp(e.Name()) {
			temps = append(temps, e.Name())
		} else if name, ok := folderStream(e.Name()); ok {
			streams[name] = true
		}
	})
	if eerr != nil {
		return nil, fmt.Errorf("sweep the traces: %w", eerr)
	}
	for _, name := range temps {
		osfile.RemoveDead(f.path(name))
	}
	for name := range streams {
		done, serr := f.finish(name)
		if done {
			finished = append(finished, name)
		}
		if serr != nil {
			err = errors.Join(err, fmt.Errorf("finish %s: %w", name, serr))
		}
	}
	slices.Sort(finished)
	return finished, err
}

// folderStream returns the name of the trace that the file name is a stream or a
// crash buffer of.
func folderStream(name string) (string, bool) {
	base, ok := strings.CutSuffix(strings.TrimSuffix(name, bufferExt), streamExt)
	if !ok {
		return "", false
	}
	_, ok = parseFileName(base + fileExt)
	return base + fileExt, ok
}

// folderTemp reports whether name is what osfile calls a temporary file of a trace.
func folderTemp(name string) bool {
	i := strings.LastIndex(name, ".tmp-") // a configuration may have that in its name
	if i < 1 || name[0] != '.' {
		return false
	}
	of := strings.TrimSuffix(name[1:i], ".broken")
	if strings.HasPrefix(of, ringPrefix) && strings.HasSuffix(of, ringExt) {
		return true
	}
	if name, ok := folderStream(of); ok { // of a stream or its journal
		of = name
	}
	_, ok := parseFileName(of)
	return ok
}

// finish makes the trace name of what a dead writer has left of it, and reports
// whether it has.
func (f *folder) finish(name string) (bool, error) {
	trace := f.path(name)
	stream := strings.TrimSuffix(trace, fileExt) + streamExt
	if osfile.Locked(stream) || osfile.Locked(stream+bufferExt) {
		return false, nil
	}
	if _, err := os.Lstat(trace); err == nil {
		return false, folderElsewhere(folderLeftover(trace, stream))
	}
	if gone, err := folderEmpty(stream); gone || err != nil {
		return false, folderElsewhere(err)
	}
	r, err := recorder.Recover(trace, "")
	if err != nil && osfile.Locked(stream) {
		return false, nil // another process is at it, and changed it meanwhile
	}
	if err != nil {
		return false, folderElsewhere(err)
	}
	return r.Output == trace && r.Name != trace, nil
}

// folderElsewhere returns err unless it says that another process is at the same
// file, or was faster.
func folderElsewhere(err error) error {
	for _, other := range []error{format.ErrLocked, osfile.ErrLocked, format.ErrShrunk, fs.ErrNotExist, fs.ErrExist} {
		if errors.Is(err, other) {
			return nil
		}
	}
	return err
}

// folderDead opens the stream of a dead writer. Closing it gives the lock back.
func folderDead(stream string) (*os.File, error) {
	s, err := osfile.OpenWrite(stream)
	if err != nil {
		return nil, err
	}
	err = osfile.Lock(s, true)
	if err == nil && !osfile.SameFile(s, stream) {
		err = format.ErrLocked // another one has just finished it
	}
	if err != nil {
		_ = s.Close() // nothing was written
		return nil, err
	}
	return s, nil
}

// folderEmpty removes the stream of a writer that died before it wrote anything but
// the root, or of which a loss of power left nothing, and reports whether it has.
func folderEmpty(stream string) (bool, error) {
	const most = 64 // bytes, that magic and root are below
	nothing := func(fi fs.FileInfo) bool {
		if fi.Size() < format.MagicSize {
			_, err := os.Lstat(stream + bufferExt)
			return errors.Is(err, fs.ErrNotExist)
		}
		if fi.Size() > most {
			return false
		}
		r, err := recorder.Inspect(stream)
		return err == nil && r.Entries <= 1 && r.Pending == 0 && (r.Journal == nil || errors.Is(r.Journal, recorder.ErrJournalGone))
	}
	fi, err := os.Lstat(stream)
	if err != nil || !nothing(fi) {
		return false, nil // without a stream there is a crash buffer, which may hold all
	}
	s, err := folderDead(stream)
	if err != nil {
		return false, err
	}
	defer s.Close()
	if fi, err := s.Stat(); err != nil || !nothing(fi) {
		return false, err
	}
	if err := os.Remove(stream + bufferExt); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, osfile.Remove(s, stream)
}

// folderLeftover removes a stream whose trace is there: its writer, or who
// recovered it, died when it had made that and not yet removed this. A stream that
// holds something else is an error.
func folderLeftover(trace, stream string) error {
	// Brings in what the crash buffer holds, and removes that.
	if _, err := recorder.Recover(stream, ""); err != nil {
		return err
	}
	s, err := folderDead(stream)
	if err != nil {
		return err
	}
	defer s.Close()
	t, err := osfile.OpenRead(trace)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := sameEntries(s, t); err != nil {
		return err
	}
	return osfile.Remove(s, stream)
}

var errOtherEntries = errors.New("the trace is there already, and its stream has other entries: look at both")

// sameEntries returns errOtherEntries unless the traces a and b have the same.
func sameEntries(a, b io.Reader) error {
	ra, err := format.NewReader(a, nil)
	if err != nil {
		return err
	}
	rb, err := format.NewReader(b, nil)
	if err != nil {
		return err
	}
	for {
		ea, aerr := ra.Next()
		eb, berr := rb.Next()
		if errors.Is(aerr, io.EOF) && errors.Is(berr, io.EOF) {
			return nil
		}
		if err := errors.Join(aerr, berr); err != nil {
			if errors.Is(aerr, io.EOF) || errors.Is(berr, io.EOF) {
				return errOtherEntries
			}
			return err
		}
		if ea.Parent != eb.Parent || !bytes.Equal(ra.Raw(), rb.Raw()) {
			return errOtherEntries
		}
	}
}
