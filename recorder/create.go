package recorder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// finalName returns the name of the file that Close leaves, given the format in o.
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

// Create starts a trace. For the name app.et, the recorder streams app.iet and leaves app.et when it is
// closed. For x.iet, the file stays an IET. The folder must exist. A nil o means defaults.
//
// Create never replaces a trace. It renames an existing finished app.et to app.TIME.et, where TIME is the
// UTC time of its last change. If the writer of an existing app.iet died, Create finishes that file under
// the same kind of name. If a living process is writing app.iet, the error is [format.ErrLocked]. Create
// returns this error even if this process is the writer, unless o.Shared is set. If another process is
// finishing app.iet, Create waits for at most MaxBlock; after that it records to app.HOST-PID-RANDOM.et
// and calls OnNotice.
//
// The file is readable by the user alone. A symbolic link is not followed. If the name belongs to something
// other than a regular file, the error is [format.ErrNotRegular].
func Create(name string, o *Options) (*Recorder, error) {
	return createWith(name, o, nil, false)
}

// createWith is inside.Create; in may be nil.
func createWith(name string, o *Options, in *record.Interner, died bool) (*Recorder, error) {
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
		r, err = create(tracename.Unique(name), o, in, died)
		if err == nil {
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
		return nil, fmt.Errorf("the file name is longer than %d bytes", maxNameSize)
	}
	s := enterSlot(stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.recorder != nil {
		if r := s.recorder; r.share(o.Shared) {
			leaveSlot(stream, s) // the reference to r already counts as a user of the slot
			if o.Shared {
				return r, nil
			}
			return nil, fmt.Errorf("%s: %w, which is this process: set Options.Shared to share the recorder", stream, format.ErrLocked)
		}
		// The recorder is being closed, but its Close does not hold the lock yet.
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

// open creates the file named by stream and makes its recorder.
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
		err = osfile.SyncDir(stream) // calls will sync the data, but the name of the file must also survive
	}
	if err != nil {
		_ = osfile.Remove(f, stream) // the file holds no entries yet
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
		case <-ctx.Done(): // the next start will do this
		}
		return nil
	})
	r := newRecorder(w, in, &opt)
	r.stream, r.final = stream, final
	go w.run()
	return r, nil
}

// newWriter returns a writer without a sink. Its goroutine does not run yet.
func newWriter(o *Options, in *record.Interner, name string) *writer {
	w := &writer{
		intake: intake{
			account: account{o: o, published: published{durability: o.Durability}},
			wake:    make(chan struct{}, 1), admitting: make(chan struct{}, 1), requests: make(chan *request), ended: make(chan struct{}),
		},
		intern: in, checked: time.Now(),
	}
	w.finisher = finisher{in: &w.intake, name: name}
	w.placer = placer.New(&in.Table, &placer.Options{
		Columns: o.Version == format.V2, MaxEntrySize: o.MaxEntrySize,
		MaxPendingSpans: o.MaxWaitingSpans, MaxPendingBytes: o.MaxWaitingBytes, MaxPendingAge: o.MaxWaitingAge,
		Park: w.park, Unpark: w.parking.drop,
		ParkLeft: w.left.add, UnparkLeft: w.left.drop,
	})
	w.placer.Drop = w.drop
	w.callbacks.guard.Tell = w.report
	if o.Tee != nil {
		w.tee = &teeQueue{tee: o.Tee}
		w.tee.calls.guard.Tell = w.report
	}
	return w
}

// begin writes the magic and the first entry, the root.
func (w *writer) begin() error {
	if w.tee != nil {
		w.tee.begin(w.o.Version)
	}
	w.rotation.began = time.Now()
	w.output.begin(w.o.Version)
	return w.flush()
}

// Stream returns a recorder without a file. It passes its entries only to the Tee of o, so nothing
// survives the process. Close closes the Tee. Options for files have no effect. The recorder accepts at
// most 2^32 entries.
func Stream(o *Options) *Recorder {
	opt := o.withDefaults()
	opt.Durability = DurabilityNone
	opt.MaxFileSize, opt.MaxFileAge, opt.MaxFileEntries = 0, 0, 0
	in := record.NewInterner(nil, opt.Redact)
	w := newWriter(&opt, in, "a stream")
	w.sink = new(noSink)
	_ = w.begin()       // cannot fail: w has no file
	_ = w.openJournal() // cannot fail: the journal is in memory
	go w.run()
	return newRecorder(w, in, &opt)
}

// realPath returns an absolute name whose folders are no symbolic links, so that the name stays valid if
// the working directory changes.
func realPath(name string) (string, error) {
	if name == "" {
		return "", errors.New("the file name is empty")
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

// maxNameSize is the maximum size of a name in bytes. Most systems allow 255 bytes, and file names get
// suffixes.
const maxNameSize = 200
