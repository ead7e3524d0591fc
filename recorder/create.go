package recorder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// finalName returns the name of the file in the format of o that Close leaves.
func finalName(name string, o *Options) string {
	f := format.ET
	if strings.HasSuffix(name, tracename.IET) {
		f = format.IET
	}
	if o.Format.Valid {
		f = o.Format.Value
	}
	if f == format.IET {
		return tracename.Stream(name)
	}
	if base, ok := strings.CutSuffix(name, tracename.IET); ok {
		return base + tracename.ET
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

// share reports whether r is open, and not being closed. It adds a reference to r then, if shared.
func (r *Recorder) share(shared bool) (open bool) {
	slotsMu.Lock()
	defer slotsMu.Unlock()
	open = r.refs > 0
	if open && shared {
		r.refs++
	}
	return open
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
// [format.ErrLocked], also if that is this one, unless o says Shared. If another process is finishing
// app.iet, Create waits for it, for MaxBlock at most, and then records to app.HOST-PID-RANDOM.et and tells
// OnNotice.
//
// The file is readable by the user alone. A symbolic link is not followed. If the name
// belongs to something other than a regular file, the error is [format.ErrNotRegular].
func Create(name string, o *Options) (*Recorder, error) {
	return CreateWith(name, o, nil, false)
}

// CreateWith is [Create] for a recorder that uses the names of in, so that it can take the records
// of another recorder with the same Interner; in may be nil. Died says that these records come from
// a process that died: Close writes that instead of a clean end. CreateWith is for packages of this
// module.
func CreateWith(name string, o *Options, in *record.Interner, died bool) (*Recorder, error) {
	if o == nil {
		o = &Options{}
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	if in == nil {
		in = record.NewInterner(nil, o.Redact)
	}
	r, err := create(name, o, in, died)
	if errors.Is(err, deadtrace.ErrBeingFinished) {
		busy := err
		if r, err = create(tracename.Unique(name), o, in, died); err == nil {
			r.target.(*writer).notice(fmt.Sprintf("%v; recording to %s instead", busy, r.Path()))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	return r, nil
}

func create(name string, o *Options, in *record.Interner, died bool) (*Recorder, error) {
	name, err := realPath(name)
	if err != nil {
		return nil, err
	}
	stream, final := tracename.Stream(name), finalName(name, o)
	if len(filepath.Base(stream)) > maxNameSize {
		return nil, fmt.Errorf("the name is longer than %d bytes", maxNameSize)
	}
	s := enterSlot(stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.recorder != nil {
		if r := s.recorder; r.share(o.Shared) {
			leaveSlot(stream, s) // r has it already
			if o.Shared {
				return r, nil
			}
			return nil, fmt.Errorf("%s: %w: it is this process, and Options.Shared is not set", stream, format.ErrLocked)
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
func open(stream, final string, o *Options, in *record.Interner, died bool) (*Recorder, error) {
	opt := o.withDefaults()
	var notes []error
	f, dead, err := deadtrace.CreateStream(stream, opt.MaxBlock, func(err error) { notes = append(notes, err) })
	if err != nil {
		return nil, err
	}
	w := newWriter(&opt, in, stream)
	w.final, w.died = final, died
	w.file = newFileSink(f, stream)
	w.sink = w.file
	err = deadtrace.ArchiveEarlier(final, stream)
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
	own := make(chan []string, 1)
	w.finished.start(func(ctx context.Context) error {
		own <- w.finishOwn(ctx, dead)
		return nil
	})
	w.family.start(func(ctx context.Context) error {
		select {
		case spare := <-own:
			if err := w.prune(ctx, time.Now(), append(spare, w.finishFamily(ctx)...)...); err != nil {
				w.report(err)
			}
		case <-ctx.Done(): // the next start does it
		}
		return nil
	})
	r := newRecorder(w, in, &opt)
	r.stream, r.final = stream, final
	go w.run()
	return r, nil
}

// newWriter returns a writer whose goroutine does not run yet, without a sink.
func newWriter(o *Options, in *record.Interner, name string) *writer {
	w := &writer{
		o: o, intern: in, name: name, wake: make(chan struct{}, 1), admitting: make(chan struct{}, 1), requests: make(chan *request), ended: make(chan struct{}),
		published: published{durability: o.Durability}, version: o.Version, checked: time.Now(),
	}
	w.placer = placer.New(&in.Table, &placer.Options{
		Columns: o.Version == format.V2, MaxEntrySize: o.MaxEntrySize,
		MaxPendingSpans: o.MaxWaitingSpans, MaxPendingBytes: o.MaxWaitingBytes, MaxPendingAge: o.MaxWaitingAge,
		Park: w.park, Unpark: w.unpark,
		ParkLeft: w.parkLeft, UnparkLeft: func(seg *journal.Segment) { w.left.drop(seg) },
	})
	w.placer.Drop = w.drop
	w.callbacks.guard.Tell = w.report
	if o.Tee != nil {
		w.tee = &teeQueue{tee: o.Tee}
		w.tee.calls.guard.Tell = w.report
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

// Stream returns a recorder without a file: its entries go only to the Tee of o,
// nothing survives the process, and Close closes the Tee. Options that are
// about files have no effect. The recorder takes at most 2^32 entries.
func Stream(o *Options) *Recorder {
	opt := o.withDefaults()
	opt.Durability = DurabilityBuffered
	opt.MaxFileSize, opt.MaxFileAge, opt.MaxFileEntries = 0, 0, 0
	in := record.NewInterner(nil, opt.Redact)
	w := newWriter(&opt, in, "a stream")
	w.sink = new(noSink)
	_ = w.begin()       // it has no file that could fail
	_ = w.openJournal() // which is in memory
	go w.run()
	return newRecorder(w, in, &opt)
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

// maxNameSize leaves room for what is added to a name: most systems allow 255
// bytes.
const maxNameSize = 200
