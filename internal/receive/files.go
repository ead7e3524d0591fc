package receive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/inbox"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otlp/codec"
	"github.com/entrace-go/entrace/internal/retain"
	"github.com/entrace-go/entrace/internal/tracename"
	"github.com/entrace-go/entrace/recorder"
)

// FilesOptions describe what Files records, and where.
type FilesOptions struct {
	// Dir is the folder. It must exist.
	Dir string
	// File, if set, is the one file for all services. The other options but OnError then have no
	// effect.
	File string
	// Idle is how long a service sends nothing before its file is finished. The default is five
	// minutes.
	Idle time.Duration
	// MaxOpen is how many files are open at a time; the one that was idle longest is finished
	// first. The default is 64.
	MaxOpen int
	// MaxBytes and MaxFiles bound the traces in the folder, KeepBytes the finished ones, of which
	// the oldest are removed. Zero is no bound.
	MaxBytes, KeepBytes int64
	MaxFiles            int
	// OnBegun is told when there is a file for a service, OnDone when it is finished or could not be
	// made, OnError what went wrong meanwhile. They may be called at the same time.
	OnBegun func(path, service string)
	OnDone  func(path string, entries uint64, bytes int64, err error)
	OnError func(path string, err error)
}

// Files is a Sink that records each service, as its resource names it, to a file of its own, or all
// of them to one.
type Files struct {
	o     FilesOptions
	names inbox.Names
	quota inbox.Quota
	ended retain.Log

	mu      sync.Mutex // never held while a file is used
	open    map[string]*file
	closed  bool
	closing sync.WaitGroup
	stop    chan struct{}

	requests sync.Pool     // of *request
	turns    chan struct{} // of those that take at a time
}

// maxTurns bounds the memory of what is taken at a time, and the files that are in use.
const maxTurns = 16

// A file is that of a service.
type file struct {
	key   string
	ready chan struct{} // closed when rec or err is set
	rec   *recorder.Recorder
	err   error
	path  string

	mappers sync.Pool

	// Guarded by Files.mu.
	users int
	last  time.Time
	bytes int64 // that the quota knows
}

// NewFiles returns Files that record until Close.
func NewFiles(o FilesOptions) (*Files, error) {
	o.Idle, o.MaxOpen = cmp.Or(o.Idle, 5*time.Minute), cmp.Or(o.MaxOpen, 64)
	f := &Files{o: o, open: make(map[string]*file), stop: make(chan struct{}), turns: make(chan struct{}, min(maxTurns, o.MaxOpen))}
	f.quota.Dir = o.Dir
	f.quota.MaxBytes, f.quota.MaxFiles = cmp.Or(o.MaxBytes, math.MaxInt64), cmp.Or(int64(o.MaxFiles), math.MaxInt64)
	if o.File != "" {
		x, err := f.use("", "", time.Now()) // it exists also when nothing comes
		if err != nil {
			return nil, err
		}
		f.leave(x)
		return f, nil
	}
	if err := f.quota.Rescan(); err != nil {
		return nil, err
	}
	go f.watch()
	return f, nil
}

// Recorder returns the recorder of the one file.
func (f *Files) Recorder() *recorder.Recorder {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[""].rec
}

// watch finishes files that are idle.
func (f *Files) watch() {
	t := time.NewTicker(max(f.o.Idle/4, 100*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			f.mu.Lock()
			var idle []*file
			for _, x := range f.open {
				if x.users == 0 && now.Sub(x.last) >= f.o.Idle {
					idle = append(idle, x)
				}
			}
			f.remove(idle...)
			f.mu.Unlock()
		case <-f.stop:
			return
		}
	}
}

// remove finishes files in the background. The caller holds the lock.
func (f *Files) remove(list ...*file) {
	for _, x := range list {
		delete(f.open, x.key)
		f.closing.Go(func() { f.finish(context.Background(), x) })
	}
}

// Close finishes all files, or leaves their IETs when ctx ends. Take returns ErrFull from then on.
func (f *Files) Close(ctx context.Context) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.closed = true
	close(f.stop)
	for _, x := range f.open {
		f.closing.Go(func() { f.finish(ctx, x) })
	}
	f.mu.Unlock()
	f.closing.Wait()
}

func (f *Files) finish(ctx context.Context, x *file) {
	<-x.ready
	if x.rec == nil {
		return
	}
	err := x.rec.Close(ctx)
	path := x.rec.Path()
	if _, serr := os.Lstat(path); errors.Is(serr, fs.ErrNotExist) {
		path = x.rec.StreamPath()
	}
	st := x.rec.Stats()
	if fi, serr := os.Lstat(path); serr == nil && f.o.File == "" {
		f.quota.Adjust(0, fi.Size()-x.bytes) // nobody uses x any more
	}
	f.ended.Add(path)
	if f.o.OnDone != nil {
		f.o.OnDone(path, st.Entries.Written, st.Bytes, err)
	}
	f.prune()
}

// prune removes the oldest finished traces while they have more than KeepBytes.
func (f *Files) prune() {
	if f.o.KeepBytes == 0 || f.o.File != "" {
		return
	}
	list, err := os.ReadDir(f.o.Dir)
	if err != nil {
		return // another time
	}
	var files []retain.File
	for _, e := range list {
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() || !inbox.IsReceived(e.Name()) || !strings.HasSuffix(e.Name(), tracename.ET) {
			continue
		}
		files = append(files, retain.File{Path: filepath.Join(f.o.Dir, e.Name()), Named: fi.ModTime(), Modified: fi.ModTime(), Size: fi.Size()})
	}
	f.ended.Prune(files, retain.Keep{Bytes: f.o.KeepBytes}, time.Now(), func(x *retain.File) bool {
		gone := os.Remove(x.Path) == nil
		if gone {
			f.quota.Adjust(-1, -x.Size)
		}
		return gone
	})
}

// use returns the file of a service, which is made if need be, for one who leaves it.
func (f *Files) use(key, service string, now time.Time) (*file, error) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, ErrFull
	}
	x := f.open[key]
	if x == nil {
		if len(f.open) >= f.o.MaxOpen && !f.makeRoom() {
			f.mu.Unlock()
			return nil, ErrFull // all are in use at this moment
		}
		x = &file{key: key, ready: make(chan struct{})}
		f.open[key] = x
		x.users++
		f.mu.Unlock()
		x.err = f.create(x, service)
		close(x.ready)
		if x.err != nil {
			f.mu.Lock()
			delete(f.open, key)
			f.mu.Unlock()
			return nil, x.err
		}
		return x, nil
	}
	x.users++
	x.last = now
	f.mu.Unlock()
	<-x.ready
	if x.err != nil {
		return nil, x.err
	}
	return x, nil
}

// makeRoom finishes the file that was idle longest. The caller holds the lock.
func (f *Files) makeRoom() bool {
	var oldest *file
	for _, x := range f.open {
		if x.users == 0 && (oldest == nil || x.last.Before(oldest.last)) {
			oldest = x
		}
	}
	if oldest != nil {
		f.remove(oldest)
	}
	return oldest != nil
}

// leave gives a file back.
func (f *Files) leave(x *file) {
	now, bytes := time.Now(), x.rec.Stats().Bytes
	f.mu.Lock()
	x.users--
	x.last = now
	more := bytes - x.bytes
	x.bytes = bytes
	f.mu.Unlock()
	f.quota.Adjust(0, more)
}

func (f *Files) create(x *file, service string) error {
	o := &recorder.Options{OnError: func(err error) {
		if f.o.OnError != nil {
			f.o.OnError(x.path, err)
		}
	}}
	name := f.o.File
	if name == "" {
		if !f.quota.ReserveFile() {
			return fmt.Errorf("%w: %w", ErrFull, f.quota.Exceeded())
		}
		name = filepath.Join(f.o.Dir, f.names.Next(service)+tracename.ET)
	}
	x.path = name
	rec, err := recorder.Create(name, o)
	if err != nil {
		if f.o.File == "" {
			f.quota.Adjust(-1, 0)
		}
		if f.o.OnDone != nil {
			f.o.OnDone(name, 0, 0, err)
		}
		return fmt.Errorf("%w: %w", ErrFull, err) // the sender is not to blame, and may come again
	}
	x.rec = rec
	if f.o.OnBegun != nil {
		f.o.OnBegun(rec.StreamPath(), service)
	}
	return nil
}

// Take implements Sink. Each resource's records go to its file before the next one's: a request may
// name more services than there may be open files.
func (f *Files) Take(ctx context.Context, s Signal, e codec.Encoding, b []byte) (done Result, err error) {
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		return Result{}, ErrFull // the sender has gone
	}
	if f.o.File == "" && f.quota.Full() {
		f.prune()
		if f.quota.Full() {
			return Result{}, fmt.Errorf("%w: %w", ErrFull, f.quota.Exceeded())
		}
	}
	t, ok := f.requests.Get().(*request)
	if !ok {
		t = new(request)
	}
	defer func() {
		t.reset()
		f.requests.Put(t)
	}()
	t.left = max(minRecords, len(b)/bytesOfRecord)
	r := codec.NewReader(b, e)
	r.Assume(codec.Signal(s)) // a request has no metrics here
	_, damage := r.Walk(0, int64(len(b)), false, t)
	t.close()
	if t.left < 0 {
		return Result{}, ErrTooMany
	}
	var full error
	scope, record := 0, 0
	scopes := scopesFloor + scopesFactor*int64(len(b))
	for i := range t.holders {
		h := &t.holders[i]
		from, first := scope, record
		if scope = h.end; scope > from {
			record = t.scopes[scope-1].end
		}
		if record == first && h.refused == 0 {
			continue // such a resource is no reason for a file
		}
		one, err := f.takeHolder(r, t, i, from, first, &scopes)
		if err != nil {
			one = Result{Refused: record - first, Why: err}
			if errors.Is(err, ErrFull) {
				full = err
			} else {
				damage = cmp.Or(damage, err)
			}
		}
		if h.refused > 0 {
			one.refuse(h.refused, errNoID)
		}
		done.Taken += one.Taken
		done.Refused += one.Refused
		done.Why = cmp.Or(done.Why, one.Why)
	}
	switch {
	case full != nil && done.Taken == 0:
		return Result{}, full
	case damage != nil:
		return done, &DamageError{damage}
	}
	return done, nil
}

// takeHolder records what a request has of its i-th resource: from a scope and a record on.
func (f *Files) takeHolder(r *codec.Reader, t *request, i, scope, record int, scopes *int64) (Result, error) {
	h := &t.holders[i]
	var resource otel.Resource
	if h.head.Value.From >= 0 || h.head.URL.From >= 0 {
		if err := r.Resource(&h.head, &resource); err != nil {
			return Result{}, err
		}
	}
	if scope == h.end || record == t.scopes[h.end-1].end {
		return Result{}, nil // only what is refused
	}
	key, service := f.serviceOf(&resource)
	x, err := f.use(key, service, time.Now())
	if err != nil {
		return Result{}, err
	}
	defer f.leave(x)
	m, ok := x.mappers.Get().(*mapper)
	if !ok {
		m = &mapper{batch: x.rec.Batch()}
	}
	defer x.mappers.Put(m)
	m.done, m.scopes = Result{}, *scopes
	m.resource, err = x.rec.Resource(resource.Entry())
	if err != nil {
		m.done.Why = err // below the root
	}
	for ; scope < h.end; scope++ {
		m.record(r, &t.scopes[scope].head, t.records[record:t.scopes[scope].end])
		record = t.scopes[scope].end
	}
	later := m.write()
	*scopes = m.scopes
	if later && m.done.Taken == 0 {
		return Result{}, fmt.Errorf("%w: %w", ErrFull, m.done.Why)
	}
	return m.done, nil
}

// serviceOf returns what tells a service's file from others, and the service's name.
func (f *Files) serviceOf(r *otel.Resource) (key, name string) {
	if f.o.File != "" {
		return "", ""
	}
	var parts [4]string
	for i := range r.Attributes {
		a := &r.Attributes[i]
		if at := slices.Index(identity[:], a.Name); at >= 0 {
			v := a.Any()
			parts[at] = v.Display()
		}
	}
	if parts[1] != "" {
		parts[2], parts[3] = "", ""
	}
	var b []byte
	for _, p := range parts {
		b = strconv.AppendQuote(b, p)
	}
	return string(b), parts[0]
}

// identity names the attributes of a resource that say which service it is. The instance alone
// counts where it is known.
var identity = [...]string{"service.name", "service.instance.id", "process.pid", "host.name"}
