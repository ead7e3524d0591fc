package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/placer"
	"github.com/entrace-go/entrace/internal/record"
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
	mu sync.Mutex // held while a recorder is made or closed

	recorder *Recorder // nil: none is open
	users    int       // guarded by slotsMu; the slot goes with the last
}

var (
	slotsMu sync.Mutex // never held while a file is used
	slots   = make(map[string]*slot)
)

// enterSlot returns the slot of a stream, which the caller gives back.
func enterSlot(stream string) *slot {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	s := slots[stream]
	if s == nil {
		s = new(slot)
		slots[stream] = s
	}
	s.users++
	return s
}

// leaveSlot gives a slot back.
func leaveSlot(stream string, s *slot) {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	if s.users--; s.users == 0 && slots[stream] == s {
		delete(slots, stream)
	}
}

// retain adds a reference to r, unless it is being closed.
func (r *Recorder) retain() bool {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	if r.refs == 0 {
		return false
	}
	r.refs++
	return true
}

// unref drops a reference to r and reports whether it was the last.
func (r *Recorder) unref() bool {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	if r.refs == 0 {
		return false
	}
	r.refs--
	return r.refs == 0
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
	return createWith(name, o, nil, false)
}

// createWith is Create with the names that another recorder knows, nil for none, so that
// it can take that one's records, which may come from a process that died.
func createWith(name string, o *RecorderOptions, in *record.Interner, died bool) (*Recorder, error) {
	if o == nil {
		o = &RecorderOptions{}
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	if in == nil {
		in = record.NewInterner(nil)
	}
	r, err := create(name, o, in, died)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, openError(err))
	}
	return r, nil
}

func create(name string, o *RecorderOptions, in *record.Interner, died bool) (*Recorder, error) {
	name, err := realPath(name)
	if err != nil {
		return nil, err
	}
	stream, final := streamName(name), finalName(name, o)
	if len(filepath.Base(stream)) > maxNameSize {
		return nil, fmt.Errorf("the name is longer than %d bytes", maxNameSize)
	}
	s := enterSlot(stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.recorder != nil {
		if r := s.recorder; r.retain() {
			leaveSlot(stream, s) // r has it already
			return r, nil
		}
		// Its last Close has not got the lock yet.
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	}
	r, err := open(stream, final, o, in, died)
	if err != nil {
		leaveSlot(stream, s)
		return nil, err
	}
	r.slot = s
	s.recorder = r
	return r, nil
}

// open makes the recorder of a stream.
func open(stream, final string, o *RecorderOptions, in *record.Interner, died bool) (*Recorder, error) {
	opt := o.withDefaults()
	var notes []error
	f, dead, err := createStream(stream, func(err error) { notes = append(notes, err) })
	if err != nil {
		return nil, err
	}
	w := newWriter(newRecording(&opt, in, stream), opt.Version)
	w.final, w.died = final, died
	w.file = newFileSink(f, stream)
	w.sink = w.file
	err = archiveExisting(final, stream)
	if err == nil {
		err = w.begin()
	}
	if err == nil && opt.Durability == DurabilityPower {
		err = osfile.SyncDir(stream) // what calls sync later is to have a name
	}
	if err != nil {
		_ = osfile.Remove(f, stream) // it holds nothing yet
		_ = f.Close()
		return nil, err
	}
	if err := w.openJournal(); err != nil {
		notes = append(notes, err)
	}
	for _, err := range notes {
		w.report(err)
	}
	w.checkpoint()
	w.finished.start(func(ctx context.Context) error {
		return w.finished.finishAbandoned(ctx, stream, dead, final != stream, opt.KeepFiles, w.report)
	})
	r := newRecorder(w.recording, in, opt.Version, opt.MaxEntrySize)
	r.stream, r.final, r.reports = stream, final, opt.OnError != nil
	go w.run()
	return r, nil
}

// newWriter returns a writer without a sink.
func newWriter(t *recording, v Version) *writer {
	w := &writer{recording: t, version: v, checked: time.Now()}
	po := &placer.Options{
		Columns: v.hasAttrColumns(), MaxEntrySize: t.o.MaxEntrySize,
		MaxPendingSpans: t.o.MaxWaitingSpans, MaxPendingBytes: t.o.MaxWaitingBytes, MaxPendingAge: t.o.MaxWaitingAge,
		Park: w.park, Unpark: w.unpark,
	}
	w.placer = placer.New(&t.intern.Table, po)
	w.placer.Drop = w.drop
	if t.o.Tee != nil {
		w.tee = &teeQueue{tee: t.o.Tee}
	}
	return w
}

// begin writes the magic and the root.
func (w *writer) begin() error {
	if w.tee != nil {
		w.tee.begin(w.version)
	}
	w.sink.begin(w.version)
	w.rotation = rotation{began: time.Now()}
	w.placer.Resume(0, w.sink.size(), 0)
	w.placer.Root()
	return w.flush()
}

// Stream returns a recorder without a file: what it takes goes to the Tee of o
// alone, nothing survives the process, and Close ends the Tee. Options that are
// about files have no effect. It takes as many entries as 32 bits count.
func Stream(o *RecorderOptions) *Recorder {
	opt := o.withDefaults()
	opt.Durability = DurabilityBuffered
	opt.MaxFileSize, opt.MaxFileAge, opt.MaxFileEntries = 0, 0, 0
	in := record.NewInterner(nil)
	w := newWriter(newRecording(&opt, in, "a stream"), opt.Version)
	w.sink = new(noSink)
	_ = w.begin()       // it has no file that could fail
	_ = w.openJournal() // which is in memory
	go w.run()
	r := newRecorder(w.recording, in, opt.Version, opt.MaxEntrySize)
	r.reports = opt.OnError != nil
	return r
}

// finishAbandoned finishes the files that dead writers of a stream have left under names
// with their time, and removes the temporary files of dead finalizers.
//
// Where IETs stay as they are, those are finished that are in dead or have a journal.
func (b *background) finishAbandoned(ctx context.Context, stream string, dead []string, et bool, keep int, report func(error)) error {
	sweep(stream)
	names, err := archived(stream)
	if err != nil {
		return nil // it is not needed for what is recorded
	}
	// Those with a journal first: what is in it may be in one of the others, too.
	slices.SortStableFunc(names, func(a, b string) int {
		if x, y := exists(a+extBuffer), exists(b+extBuffer); x != y {
			if x {
				return -1
			}
			return 1
		}
		return 0
	})
	var finished []string
	for _, name := range names {
		if !strings.HasSuffix(name, extIET) || ctx.Err() != nil {
			continue
		}
		if !et && !slices.Contains(dead, name) && !exists(name+extBuffer) {
			continue
		}
		f, err := osfile.OpenWrite(name)
		if err != nil {
			continue
		}
		if osfile.Lock(f, true) == nil && osfile.SameFile(f, name) && finishArchived(ctx, f, name, et, report) == nil { // on an error the next start tries again
			finished = append(finished, strings.TrimSuffix(name, extIET))
			b.ended.Add(finished[len(finished)-1])
		}
		_ = f.Close() // nothing was written to it
	}
	return b.prune(stream, keep, time.Now(), finished...)
}

// finishArchived finishes the IET f that a dead writer has left under a name with its
// time.
func finishArchived(ctx context.Context, f *os.File, name string, et bool, report func(error)) error {
	if _, err := replayBuffer(f, name, report); err != nil && !isOther(err) {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() == 0 {
		return osfile.Remove(f, name) // a loss of power left nothing of it
	}
	t, damage := scanEntries(io.NewSectionReader(f, 0, fi.Size()), nil, nil)
	switch {
	case damage == nil, errors.Is(damage, ErrTruncated):
	case isCorrupt(damage):
		// What is behind the damage may be worth a look: it stays as it is.
		_, err := setBroken(f, name)
		return err
	default:
		return damage
	}
	final := strings.TrimSuffix(name, extIET) + extET
	switch {
	case len(t.parents) <= 1:
		return osfile.Remove(f, name) // its writer died before it recorded anything
	case et && (exists(final) && isTwin(final, f, t) || hasTwin(name, f, t)):
		return osfile.Remove(f, name) // who made the ET died before it could do so itself
	case et:
		return finalizeOpen(ctx, f, name, final, &FinalizeOptions{RemoveSource: true})
	}
	return errors.Join(f.Truncate(t.data+int64(t.offsets[len(t.parents)])), f.Sync())
}

// setBroken renames the file name, which f is and which is corrupt, to name.broken, and
// returns the name that it has then.
func setBroken(f *os.File, name string) (broken string, err error) {
	err = untilFree(name, ".broken", func(to string) error {
		broken = to
		return osfile.RenameOpen(f, name, to)
	})
	return broken, errors.Join(err, osfile.SyncDir(name))
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
		if ok && (middle == extET || middle == extIET || middle == extIET+extBuffer || isArchivedSuffix(middle)) {
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

// createStream makes the file stream, new and locked.
// It also returns the names that dead streams got.
func createStream(stream string, report func(error)) (f *os.File, dead []string, err error) {
	for range 100 { // until nobody makes or removes one at the same moment
		if err := undoRotation(stream); err != nil {
			return nil, nil, err
		}
		f, err := osfile.CreateAppend(stream)
		if errors.Is(err, fs.ErrExist) {
			name, err := archiveDead(stream)
			if err != nil {
				return nil, nil, err
			}
			dead = append(dead, name)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if err := lock(f, true); err != nil {
			_ = f.Close() // it is another's by now
			return nil, nil, err
		}
		if !osfile.SameFile(f, stream) {
			_ = f.Close() // somebody took it for a dead one
			continue
		}
		n, err := importJournal(f, stream, report)
		if err == nil && n == 0 {
			return f, dead, nil
		}
		_ = f.Close() // it holds what another one left behind, so that it is to be archived
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("%s: %w", stream, ErrLocked)
}

// importJournal brings into f, which is new, what a journal holds whose IET is gone, and
// returns how many entries that are.
func importJournal(f *os.File, stream string, report func(error)) (int, error) {
	b, err := openBuffer(stream, true)
	if errors.Is(err, journal.ErrGone) {
		report(fmt.Errorf("%s is lost: %w", stream, err))
		_, err = journal.RemoveGone(stream + extBuffer)
		return 0, err
	}
	if errors.Is(err, journal.ErrElsewhere) {
		report(fmt.Errorf("%s: %w", stream, err))
		return 0, asideName(stream, brokenExt, time.Now(), func(to string) error { return osfile.RenameNew(stream+extBuffer, to) })
	}
	if err != nil {
		return 0, errors.Join(err, osfile.Remove(f, stream))
	}
	if b == nil {
		return 0, nil
	}
	if b.records == 0 || !b.point.version.known() {
		b.unreadable = b.unreadable || b.records > 0
		b.reportUnreadable(report)
		return 0, b.remove()
	}
	if err := b.replay(f, false); err != nil {
		return 0, errors.Join(err, osfile.Remove(f, stream), b.close())
	}
	return b.entries, b.remove()
}

func lock(f *os.File, exclusive bool) error {
	err := osfile.LockPatiently(f, exclusive)
	if errors.Is(err, osfile.ErrLocked) {
		return fmt.Errorf("%s: %w", f.Name(), ErrLocked)
	}
	return err
}

// archiveDead makes room for a new stream: it gives the one that is there, whose writer
// must be dead, and its journal a name with the time of its last change. They are finished
// later.
func archiveDead(stream string) (name string, err error) {
	f, err := osfile.OpenWrite(stream)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := lock(f, true); err != nil {
		return "", err
	}
	if !osfile.SameFile(f, stream) {
		return "", nil // somebody else did it
	}
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if fi.Size() > 0 {
		if err := checkMagic(stream); err != nil {
			return "", fmt.Errorf("%s: %w", stream, err) // not ours to touch
		}
	}
	j, err := openLockedBuffer(stream)
	if err != nil {
		return "", err
	}
	move := func(to string) error { return distinct(osfile.RenameNew(stream+extBuffer, to), fs.ErrNotExist) }
	if j != nil {
		defer j.Close()
		move = j.Rename
	}
	err = asideName(stream, extIET, fi.ModTime(), func(to string) error {
		if exists(strings.TrimSuffix(to, extIET)+extET) || exists(to+extBuffer) {
			return fs.ErrExist
		}
		name = to
		if err := osfile.RenameOpen(f, stream, to); err != nil {
			return err
		}
		return move(to + extBuffer)
	})
	return name, errors.Join(err, osfile.SyncDir(stream))
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

// hasTwin reports whether a finished file with the time of an archived one, or the trace
// itself, holds the very entries t of its IET f.
func hasTwin(name string, f io.ReaderAt, t *table) bool {
	stream, ok := streamOf(name)
	if !ok {
		return false
	}
	final := strings.TrimSuffix(stream, extIET) + extET
	if exists(final) && isTwin(final, f, t) {
		return true
	}
	fi, err := os.Lstat(name)
	if err != nil {
		return false
	}
	names, err := archived(stream)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(names, func(other string) bool {
		o, err := os.Lstat(other)
		return err == nil && strings.HasSuffix(other, extET) && !o.ModTime().Before(fi.ModTime().Add(-time.Second)) && isTwin(other, f, t)
	})
}

// streamOf returns the stream of a file that has a name with its time.
func streamOf(name string) (string, bool) {
	suffix := archivedSuffix.FindString(name)
	return strings.TrimSuffix(name, suffix) + extIET, suffix != ""
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

// archiveExisting renames a finished trace that has the name of a new one.
func archiveExisting(final, stream string) error {
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
	return untilFree(strings.TrimSuffix(strings.TrimSuffix(name, extET), extIET)+"."+t.UTC().Format(asideTime), ext, try)
}

// untilFree calls try with base and ext, then with base-1 and ext and so on, as long as it
// says that the name is taken.
func untilFree(base, ext string, try func(to string) error) error {
	to := base + ext
	for i := 1; ; i++ {
		err := try(to)
		if !errors.Is(err, fs.ErrExist) || i == 1000 {
			return err
		}
		to = fmt.Sprintf("%s-%d%s", base, i, ext)
	}
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
