package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/osfile"
)

const (
	extET  = ".et"
	extIET = ".iet"
)

// streamName returns the name of the IET that is written for the trace name.
func streamName(name string) string {
	if strings.HasSuffix(name, extIET) {
		return name
	}
	return strings.TrimSuffix(name, extET) + extIET
}

// finalName returns the name of the file in the format of o that Close leaves.
func finalName(name string, o *RecorderOptions) string {
	f := ET
	if strings.HasSuffix(name, extIET) {
		f = IET
	}
	if o.Format.Valid {
		f = o.Format.Value
	}
	if f == IET {
		return streamName(name)
	}
	if base, ok := strings.CutSuffix(name, extIET); ok {
		return base + extET
	}
	return name
}

// A slot is the one place of this process for the recorder of a path.
type slot struct {
	mu sync.Mutex

	recorder *Recorder // nil: none is open
}

var (
	slotsMu sync.Mutex
	slots   = make(map[string]*slot) // by stream path
)

func slotOf(stream string) *slot {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	s := slots[stream]
	if s == nil {
		s = new(slot)
		slots[stream] = s
	}
	return s
}

// Create starts a trace. For app.et it streams app.iet and leaves app.et when it
// is closed; x.iet stays an IET. The folder must exist. A nil o means defaults.
//
// Create never replaces a trace: a finished app.et that is there is renamed to
// app.TIME.et, the UTC time of its last change, and an app.iet whose writer died
// is finished under such a name. An app.iet that a living process writes is
// [ErrLocked]. Within one process, Create on the same path returns the same
// Recorder, whatever o says, which the last Close then closes.
//
// The file is readable by the user alone. A symbolic link is not followed; what
// is no regular file is [ErrNotRegular].
func Create(name string, o *RecorderOptions) (*Recorder, error) {
	if o == nil {
		o = &RecorderOptions{}
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	r, err := create(name, o)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, openError(err))
	}
	return r, nil
}

func create(name string, o *RecorderOptions) (*Recorder, error) {
	name, err := realPath(name)
	if err != nil {
		return nil, err
	}
	stream, final := streamName(name), finalName(name, o)
	if len(filepath.Base(stream)) > maxNameSize {
		return nil, fmt.Errorf("the name is longer than %d bytes", maxNameSize)
	}
	s := slotOf(stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recorder != nil {
		s.recorder.refs++
		return s.recorder, nil
	}
	f, err := createStream(stream, final)
	if err != nil {
		return nil, err
	}
	r := newRecorder(f, o)
	r.stream, r.final, r.slot, r.refs = stream, final, s, 1
	r.on.Store(math.MaxUint64)
	err = putAside(final, stream)
	if err == nil {
		err = r.begin()
	}
	if err == nil && r.o.Durability == DurabilityPower {
		err = osfile.SyncDir(stream) // what calls sync later is to have a name
	}
	if err != nil {
		_ = osfile.Remove(f, stream) // it holds nothing yet
		_ = f.Close()
		return nil, err
	}
	r.startBuffer()
	s.recorder = r
	if final != stream {
		r.finished.start(func(ctx context.Context) error { return r.finished.finishAbandoned(ctx, stream, o.KeepFiles) })
	}
	r.mu.Lock()
	r.setTimer()
	r.unlock() // says what is wrong with the buffer
	return r, nil
}

// finishAbandoned finishes the files that dead writers of a stream had rotated out, and
// removes the temporary files of dead finalizers.
func (b *background) finishAbandoned(ctx context.Context, stream string, keep int) error {
	sweep(stream)
	names, err := asides(stream)
	if err != nil {
		return nil // it is not needed for what is recorded
	}
	var finished []string
	for _, name := range names {
		if !strings.HasSuffix(name, extIET) || ctx.Err() != nil {
			continue
		}
		f, err := osfile.OpenWrite(name)
		if err != nil {
			continue
		}
		if osfile.Lock(f, true) == nil && finishAside(ctx, f, name) == nil { // on an error the next start tries again
			finished = append(finished, strings.TrimSuffix(name, extIET))
			b.ended.Add(finished[len(finished)-1])
		}
		_ = f.Close() // nothing was written to it
	}
	return b.prune(stream, keep, time.Now(), finished...)
}

// finishAside finishes the file f that a dead writer had rotated out.
func finishAside(ctx context.Context, f *os.File, name string) error {
	et := strings.TrimSuffix(name, extIET) + extET
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() == 0 {
		return osfile.Remove(f, name) // a loss of power left nothing of it
	}
	if exists(et) {
		t, damage := scanEntries(io.NewSectionReader(f, 0, fi.Size()), nil, nil)
		if damage == nil && isTwin(et, f, t) {
			return osfile.Remove(f, name) // its writer died before it could do so itself
		}
	}
	return finalizeOpen(ctx, f, name, et, &FinalizeOptions{RemoveSource: true})
}

// sweep removes temporary files of a stream whose makers are dead.
func sweep(stream string) {
	dir, base := filepath.Split(strings.TrimSuffix(stream, extIET))
	list, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return
	}
	for _, e := range list {
		rest, ok := strings.CutPrefix(e.Name(), "."+base)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		middle, _, ok := strings.Cut(rest, ".tmp-")
		if ok && (middle == extET || middle == extIET || asideNames.MatchString(middle)) {
			osfile.RemoveDead(dir + e.Name())
		}
	}
}

// realPath returns an absolute name with no symbolic link among its folders, so
// that it stands for one file whatever the working directory becomes.
func realPath(name string) (string, error) {
	if name == "" {
		return "", errors.New("empty name")
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// Create waits this long for the lock of a file that a reader may be probing.
const (
	lockTries = 10
	lockPause = 5 * time.Millisecond
)

// createStream makes the file stream, new and locked.
func createStream(stream, final string) (*os.File, error) {
	for range 100 { // until nobody makes or removes one at the same moment
		if err := bringBack(stream); err != nil {
			return nil, err
		}
		f, err := osfile.CreateAppend(stream)
		if errors.Is(err, fs.ErrExist) {
			if err := settle(stream, final); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := lock(f, true); err != nil {
			_ = f.Close() // it is another's by now
			return nil, err
		}
		if !osfile.SameFile(f, stream) {
			_ = f.Close() // somebody took it for a dead one and settled it
			continue
		}
		n, err := adopt(f, stream)
		if err == nil && n == 0 {
			return f, nil
		}
		_ = f.Close() // it holds what another one left behind, so that it is to be settled
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: %w", stream, ErrLocked)
}

// adopt brings into f, which is new, what a crash buffer holds whose IET is gone,
// and returns how many entries that are.
func adopt(f *os.File, stream string) (int, error) {
	b, err := openBuffer(stream, true)
	if err != nil {
		return 0, errors.Join(err, osfile.Remove(f, stream))
	}
	if b == nil {
		return 0, nil
	}
	if b.records == 0 || !b.version.known() {
		b.unreadable = b.unreadable || b.records > 0
		return 0, b.remove()
	}
	if _, err := f.Write(AppendTraceEntry(AppendMagic(nil, b.version, IET), b.version, Root())); err != nil {
		return 0, errors.Join(err, osfile.Remove(f, stream), b.close())
	}
	if err := b.replay(f, false); err != nil {
		return 0, errors.Join(err, osfile.Remove(f, stream), b.close())
	}
	return b.entries, b.remove()
}

func lock(f *os.File, exclusive bool) error {
	for try := 1; ; try++ {
		err := osfile.Lock(f, exclusive)
		if !errors.Is(err, osfile.ErrLocked) {
			return err
		}
		if try == lockTries {
			return fmt.Errorf("%s: %w", f.Name(), ErrLocked)
		}
		time.Sleep(lockPause)
	}
}

// settle makes room for a new stream: it finishes the one that is there, whose
// writer must be dead, under a name with the time of its last change.
func settle(stream, final string) error {
	f, err := osfile.OpenWrite(stream)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(f, true); err != nil {
		return err
	}
	if !osfile.SameFile(f, stream) {
		return nil // somebody else settled it
	}
	was, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := replayBuffer(f, stream); err != nil && !isOther(err) {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	t, damage := scanEntries(io.NewSectionReader(f, 0, fi.Size()), nil, nil)
	switch {
	case damage == nil, errors.Is(damage, ErrTruncated):
	case isCorrupt(damage):
		// What is behind the damage may be worth a look: it stays as it is.
		return asideOpen(f, stream, extIET+".broken", was.ModTime())
	default: // no IET at all, or one of a later version: not ours to touch
		return fmt.Errorf("%s: %w", stream, damage)
	}
	if len(t.parents) <= 1 {
		return osfile.Remove(f, stream) // its writer died before it recorded anything
	}
	if final != stream && (isTwin(final, f, t) || isAside(stream, f, t, was.ModTime())) {
		return osfile.Remove(f, stream) // who made the ET died before it could do so itself
	}
	if final == stream {
		if err := f.Truncate(t.data + int64(t.offsets[len(t.parents)])); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		return asideOpen(f, stream, extIET, was.ModTime())
	}
	return asideName(stream, extET, was.ModTime(), func(to string) error {
		return finalizeOpen(context.Background(), f, stream, to, &FinalizeOptions{RemoveSource: true})
	})
}

// isTwin reports whether the ET name holds the very entries t of the IET f.
func isTwin(name string, f io.ReaderAt, t *table) bool {
	et, err := Open(name, nil)
	if err != nil {
		return false
	}
	defer et.Close()
	if et.format != ET || !slices.Equal(et.offsets, t.offsets) {
		return false
	}
	a, b := make([]byte, walkSize), make([]byte, walkSize)
	for at, size := int64(0), int64(t.offsets[len(t.parents)]); at < size; {
		n := min(walkSize, size-at)
		_, aerr := f.ReadAt(a[:n], t.data+at)
		_, berr := et.src.ReadAt(b[:n], et.data+at)
		if aerr != nil || berr != nil || !bytes.Equal(a[:n], b[:n]) {
			return false
		}
		at += n
	}
	return true
}

// isAside reports whether one of the finished files of a stream, made since its
// last change, holds the very entries t of the IET f.
func isAside(stream string, f io.ReaderAt, t *table, changed time.Time) bool {
	names, err := asides(stream)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(names, func(name string) bool {
		fi, err := os.Lstat(name)
		return err == nil && strings.HasSuffix(name, extET) && !fi.ModTime().Before(changed) && isTwin(name, f, t)
	})
}

// isOther reports whether err says that a file is no IET that can be read.
func isOther(err error) bool {
	if _, ok := errors.AsType[*VersionError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*StorageFormatError](err); ok {
		return true
	}
	return isCorrupt(err) || errors.Is(err, ErrNotEntrace)
}

func isCorrupt(err error) bool {
	_, ok := errors.AsType[*CorruptError](err)
	return ok
}

// putAside renames a finished trace that has the name of a new one.
func putAside(final, stream string) error {
	if final == stream {
		return nil
	}
	fi, err := os.Lstat(final)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", final, ErrNotRegular)
	}
	if fi.Size() > 0 {
		if err := checkMagic(final); err != nil {
			return fmt.Errorf("%s: %w", final, err)
		}
	}
	err = asideName(final, filepath.Ext(final), fi.ModTime(), func(to string) error { return osfile.RenameNew(final, to) })
	return errors.Join(err, osfile.SyncDir(final))
}

func checkMagic(name string) error {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var magic [MagicSize]byte
	n, err := io.ReadFull(f, magic[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	_, _, err = ParseMagic(magic[:n])
	if errors.Is(err, ErrTruncated) {
		return nil
	}
	return err
}

// maxNameSize leaves room for what is added to a name: most systems allow 255
// bytes.
const maxNameSize = 200

// asideTime is the time in the name of a trace that makes room for another.
const asideTime = "20060102T150405.000Z"

// asideName calls try with names made of name, t and ext until one is free.
func asideName(name, ext string, t time.Time, try func(to string) error) error {
	base := strings.TrimSuffix(strings.TrimSuffix(name, extET), extIET) + "." + t.UTC().Format(asideTime)
	to := base + ext
	for i := 1; ; i++ {
		err := try(to)
		if !errors.Is(err, fs.ErrExist) || i == 1000 {
			return err
		}
		to = fmt.Sprintf("%s-%d%s", base, i, ext)
	}
}

// asideOpen renames name, which f is.
func asideOpen(f *os.File, name, ext string, t time.Time) error {
	err := asideName(name, ext, t, func(to string) error { return osfile.RenameOpen(f, name, to) })
	return errors.Join(err, osfile.SyncDir(name))
}

// openError replaces the errors of the layer below with this package's.
func openError(err error) error {
	if errors.Is(err, osfile.ErrNotRegular) {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			return fmt.Errorf("%s: %w", p.Path, ErrNotRegular)
		}
		return ErrNotRegular
	}
	return err
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
