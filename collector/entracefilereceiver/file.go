package entracefilereceiver

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/read/readmark"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// A file is a trace file that the receiver reads or has read.
type file struct {
	path string
	info os.FileInfo
	gone int // the number of successive scans in which the file was missing and had not grown
	cut  int // the number of scans in which it had fewer entries than were read

	file *format.File // nil if no more entries are expected
	view *view.View

	seen  view.Row   // the first row that next has not examined; rows before it are sent, except those in open
	open  []view.Row // spans that had not ended when they were read
	quiet int        // the number of successive scans in which the file had not grown
	ended bool       // nothing more will be written
	sent  int        // the number of records that were sent

	read readmark.Mark // finds the same entries in another file
}

// If a file has not grown for quietBeforeDead scans and is not locked, its writer counts as dead. If a removed
// file has not grown for quietBeforeGone scans, it counts as finished.
const (
	quietBeforeDead = 2
	quietBeforeGone = 10
)

// errRenamed says that a file lost its name while it was opened. Another file may have the name now.
var errRenamed = errors.New("the file was renamed or replaced while it was opened")

// openFile opens the file that has the name x.path, to read it from its beginning.
func (x *file) openFile() error {
	named, err := osfile.OpenRead(x.path) // while it is open, no other file has its identity
	if err != nil {
		return err
	}
	defer named.Close()
	x.info, err = named.Stat()
	if err != nil {
		return err
	}
	f, err := recorder.Open(x.path, &format.OpenOptions{Lenient: true})
	if err != nil {
		return err
	}
	if f.Name() != x.path || !osfile.IsNamed(x.info, x.path) {
		err = errRenamed
	} else {
		x.view, err = view.New(context.Background(), []*format.File{f}, nil)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	x.file = f
	x.storePosition()
	return nil
}

// close closes the file and its view. It keeps the data that identifies the content.
func (x *file) close() {
	if x.view == nil {
		return
	}
	if now, err := osfile.Stat(x.path); err == nil && os.SameFile(now, x.info) {
		x.info = now
	}
	_ = x.file.Close() // closing a file that was only read cannot lose data
	x.file, x.view = nil, nil
}

// storePosition stores how much was read.
func (x *file) storePosition() {
	if now := readmark.Of(x.file, x.view.Entries(0)); now.Entries > x.read.Entries {
		x.read = now
	}
}

// lastEntry returns the last entry that was read, or an empty entry if there is none.
func (x *file) lastEntry() *format.TraceEntry {
	e, err := x.file.Entry(uint32(x.view.Entries(0) - 1))
	if err != nil {
		return new(format.TraceEntry)
	}
	return e
}

// continueFrom gives x the read position of old, and closes old.
func (x *file) continueFrom(old *file) {
	x.seen, x.open, x.sent = old.seen, old.open, old.sent
	old.close()
}

// reopen opens the file again, to read the entries in the journal of its dead writer. It returns false if that
// fails, for example because another file has the name now.
func (x *file) reopen() bool {
	now := &file{path: x.path}
	if now.openFile() != nil {
		return false
	}
	if !os.SameFile(now.info, x.info) || !x.read.In(now.file) {
		now.close()
		return false
	}
	now.continueFrom(x)
	*x = *now
	return true
}

// completed returns the rows of the given role that have become complete. A span is complete when it has ended. An open
// span is also complete when nothing more will be written, unless another file follows, because the writer repeats
// open spans in that file.
func (x *file) completed(ctx context.Context, role view.Role) (rows []view.Row, err error) {
	v, err := x.view.Extend(ctx)
	if err != nil {
		return nil, err
	}
	x.quiet++
	if v != x.view {
		x.view, x.quiet, x.gone = v, 0, 0
		x.storePosition()
	}
	rotated := x.detectEnd()
	v = x.view
	still := x.open[:0]
	add := func(r view.Row) {
		f := v.Flags(r)
		switch {
		case f.Role() != role:
		case f.Role() != view.RoleSpan || !f.Open():
			rows = append(rows, r)
		case !x.ended:
			still = append(still, r)
		case !rotated:
			rows = append(rows, r)
		}
	}
	for _, r := range x.open {
		add(r)
	}
	for ; int(x.seen) < v.Len(); x.seen++ {
		add(x.seen)
	}
	x.open = still
	return rows, nil
}

// detectEnd detects whether the file has ended, and whether another file follows it.
func (x *file) detectEnd() (rotated bool) {
	if x.quiet >= quietBeforeDead && x.gone == 0 && x.file.Format() != format.ET {
		if lock, _ := osfile.LockHolder(x.path); lock == osfile.LockFree {
			x.ended = x.reopen()
		}
	}
	x.ended = x.ended || x.gone >= quietBeforeGone || x.file.Format() == format.ET
	e := x.lastEntry()
	if e.IsEnd() {
		x.ended, x.cut = true, maxCut // nothing is cut from a file that has its end
	}
	return e.IsRotated()
}

// errGone says that a file was removed while a process may have been writing it.
var errGone = errors.New("the file was removed before it was finished")

// damage returns the reason why some entries of the file were not read, or nil if all were read.
func (x *file) damage() error {
	_, missing := x.file.Journal()
	if errors.Is(missing, format.ErrLocked) {
		missing = nil // a process was writing the file when it was opened
	}
	damage := x.view.Damage(0)
	if x.gone > 0 && damage == nil && x.file.Format() != format.ET && !x.lastEntry().IsEnd() {
		damage = errGone
	}
	return errors.Join(damage, missing)
}

// scan finds files that are new, renamed or replaced, and sends their new records. If skip is set, scan marks
// existing records as sent instead.
func (r *reader) scan(ctx context.Context, skip bool) {
	paths := r.findTraces()
	maps.DeleteFunc(r.told, func(path, _ string) bool { return !slices.Contains(paths, path) })
	for _, x := range r.files {
		x.gone++ // 0 again as soon as it is found
	}
	var fresh []*file
	for _, path := range paths {
		info, err := osfile.Stat(path)
		if err != nil {
			continue // the file was renamed or removed after find
		}
		if x := r.known(info); x != nil {
			x.path, x.gone = path, 0
			continue
		}
		fresh = append(fresh, &file{path: path, info: info})
	}
	for _, x := range fresh {
		if ctx.Err() != nil {
			return
		}
		if skip && strings.HasSuffix(x.path, tracename.ET) {
			x.ended = true
			r.files = append(r.files, x)
			continue
		}
		err := safecall.Run(x.openFile)
		if errors.Is(err, errRenamed) {
			continue // the next scan finds its new name
		}
		if err != nil {
			r.logOpenError(x.path, err)
			continue
		}
		if r.known(x.info) != nil {
			x.close() // a file that is being renamed can have two names for a moment
			continue
		}
		if y := r.shorter(x); y != nil {
			y.gone = 0
			x.close()
			continue
		}
		was := -1
		for i, y := range r.files {
			if y.gone > 0 && y.read.In(x.file) && (was < 0 || y.read.Entries > r.files[was].read.Entries) {
				was = i
			}
		}
		if was >= 0 {
			x.continueFrom(r.files[was])
			r.files[was] = x
		} else {
			r.files = append(r.files, x)
		}
		r.read(ctx, x, skip)
	}
	r.files = slices.DeleteFunc(r.files, func(x *file) bool { return x.view == nil && x.gone > maxForgotten })
}

// maxForgotten is the number of scans after which a removed file is forgotten. Until then, its ET is recognized as
// the same trace. Writing a large ET can take long.
const maxForgotten = 10_000

// known returns the file that info describes, or nil if the file is new. A file that was read to its end and has
// changed since then also counts as new.
func (r *reader) known(info os.FileInfo) *file {
	for _, x := range r.files {
		if os.SameFile(x.info, info) && (x.view != nil || x.info.Size() == info.Size() && x.info.ModTime().Equal(info.ModTime())) {
			return x
		}
	}
	return nil
}

// shorter returns the known file that is the same as x, was read to its end, and had more entries than x now has,
// or nil. Such a file is being recovered: recovery cuts a file before it adds the entries of the journal. After
// maxCut scans, shorter returns nil, and x counts as a new file that has got the inode of a removed one. This scan has
// not found the known file, but the one before has.
func (r *reader) shorter(x *file) *file {
	for _, was := range r.files {
		if was.view == nil && was.gone <= 1 && os.SameFile(was.info, x.info) && x.read.Entries < was.read.Entries && was.cut < maxCut {
			was.cut++
			return was
		}
	}
	return nil
}

// maxCut is the number of scans for which a file may have fewer entries than were read from it.
const maxCut = 100

// logOpenError logs that a file cannot be opened. It ignores the first error of a file, because a file that is being
// created is empty for a moment. It logs equal errors only once.
func (r *reader) logOpenError(path string, err error) {
	was, again := r.told[path]
	text := err.Error()
	switch {
	case !again:
		r.told[path] = ""
	case was != text:
		r.told[path] = text
		r.log.Warn("cannot read a file", zap.String("file", path), zap.Error(err))
	}
}

// findTraces returns the names of the traces at the paths. For a path that names a file, these include the files that
// its program has begun and renamed since the start. If a folder has x.et, find omits x.iet, which will soon be
// removed. It does not follow symbolic links in folders.
func (r *reader) findTraces() (names []string) {
	for _, path := range r.cfg.Paths {
		list, err := os.ReadDir(path)
		if err != nil { // it is a file, or it does not exist
			if name := format.Find(path); osfile.Exists(name) {
				names = append(names, name)
			}
			if r.renamed[path] == nil {
				r.renamed[path] = deadtrace.RotationOf(path)
			}
			for _, name := range r.renamed[path].All() {
				names = append(names, format.Find(name))
			}
			continue
		}
		for _, e := range list {
			name := e.Name()
			base := tracename.Base(name)
			if !e.Type().IsRegular() || base == name || strings.HasPrefix(name, ".") {
				continue
			}
			if strings.HasSuffix(name, tracename.IET) && osfile.Exists(filepath.Join(path, base+tracename.ET)) {
				continue
			}
			names = append(names, filepath.Join(path, name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
