package receive

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/file/receivedfiles"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// A folder holds the files of services. Some of the files are open. It is safe for concurrent use.
type folder struct {
	o         FolderOptions
	directory *directory
	names     receivedfiles.Names
	quota     receivedfiles.Quota
	ended     retain.Log
	pruning   sync.Mutex
	forget    func() // called when a file is finished; after the call, no request counts as repeated

	mu     sync.Mutex // never held while a file is read or written
	last   uint32     // number of the file that was created last
	files  map[string]*file
	closed bool

	closing   sync.WaitGroup
	stop      chan struct{}
	finishing chan struct{} // limits the files that are being finished at the same time
}

const (
	// maxFinishing is the maximum number of files that are being finished at the same time. Each needs a temporary
	// file.
	maxFinishing = 16
	// suspendWait is how long a request waits for the disk when a file is suspended to make room.
	suspendWait = time.Second
)

// maxSuspended is the maximum number of suspended files. Each uses a file descriptor. Together with the open files, they
// stay below the usual limit of 1,024 descriptors. It is a variable only for tests.
var maxSuspended = 448

// A file is the trace file of a service, or of all services.
type file struct {
	key string
	// number identifies the file in the directory.
	number uint32
	rec    *recorder.Recorder
	err    error
	path   string

	mappers sync.Pool

	// Guarded by folder.mu.
	suspended bool
	ready     chan struct{} // closed when the file is in the state that suspended says, or err is set
	users     int
	last      time.Time
	bytes     int64 // the size of the file that the quota has counted
}

// acquire returns the open file of a service. It creates or resumes the file if necessary. The caller must call release
// later.
func (f *folder) acquire(key, service string, now time.Time) (*file, error) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, ErrFull
	}
	x := f.files[key]
	if x != nil && !x.suspended {
		x.users++
		x.last = now
		ready := x.ready
		f.mu.Unlock()
		<-ready
		return x, x.err
	}
	suspend, ok := f.makeRoom()
	if !ok {
		f.mu.Unlock()
		return nil, ErrFull // all open files are in use
	}
	var before chan struct{}
	if x == nil {
		if n, idle := f.leastRecent(true); n > maxSuspended && idle != nil {
			f.remove(idle)
		}
		f.last++
		x = &file{key: key, number: f.last}
		f.files[key] = x
	} else {
		before = x.ready
	}
	x.suspended, x.ready = false, make(chan struct{})
	x.users++
	x.last = now
	f.mu.Unlock()
	defer close(x.ready)
	suspend()
	if before != nil {
		<-before // another request may still be suspending the file
		return x, nil
	}
	x.err = f.create(x, service)
	if x.err != nil {
		f.mu.Lock()
		delete(f.files, key)
		f.mu.Unlock()
	}
	return x, x.err
}

// has reports whether the file of a service is open or suspended.
func (f *folder) has(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[key] != nil
}

// makeRoom makes room for one more open file by choosing a file to suspend. The caller holds mu. After the caller has
// unlocked mu, and before it opens the other file, it must call suspend. ok is false if all files are in use.
func (f *folder) makeRoom() (suspend func(), ok bool) {
	n, x := f.leastRecent(false)
	if n < f.o.MaxOpen {
		return func() {}, true
	}
	if x == nil {
		return nil, false
	}
	ready := make(chan struct{})
	x.suspended, x.ready = true, ready
	return func() {
		defer close(ready)
		ctx, cancel := context.WithTimeout(context.Background(), suspendWait)
		defer cancel()
		if inside.Of(x.rec).Suspend(ctx) == nil {
			f.count(x)
			return
		}
		f.mu.Lock()
		if x.suspended && f.files[x.key] == x {
			f.remove(x) // finishes the file as far as possible and reports the errors
		}
		f.mu.Unlock()
	}, true
}

// leastRecent returns the number of files that are suspended, or that are not suspended, and the file among them that
// was idle longest. The result idle is nil if all these files are in use. The caller holds mu.
func (f *folder) leastRecent(suspended bool) (n int, idle *file) {
	for _, x := range f.files {
		if x.suspended != suspended {
			continue
		}
		n++
		if x.users == 0 && (idle == nil || x.last.Before(idle.last)) {
			idle = x
		}
	}
	return n, idle
}

// release says that the caller no longer uses x, which it got from [folder.acquire].
func (f *folder) release(x *file) {
	f.count(x)
	f.mu.Lock()
	x.users--
	x.last = time.Now()
	f.mu.Unlock()
}

// create creates the file of a service.
func (f *folder) create(x *file, service string) error {
	o := &recorder.Options{Redact: cmp.Or(f.o.Redact, redact.Off), OnError: func(err error) {
		if f.o.OnError != nil {
			f.o.OnError(x.path, err)
		}
	}}
	if !f.quota.ReserveFile() {
		return fmt.Errorf("%w: %w", ErrFull, f.quota.Exceeded())
	}
	name := filepath.Join(f.o.Dir, f.names.Next(service)+tracename.ET)
	x.path = name
	rec, err := recorder.Create(name, o)
	if err != nil {
		f.quota.Adjust(-1, 0)
		if f.o.OnDone != nil {
			f.o.OnDone(name, 0, 0, err)
		}
		return fmt.Errorf("%w: %w", ErrFull, err) // the sender is not at fault and may try again
	}
	x.rec = rec
	if f.o.OnBegun != nil {
		f.o.OnBegun(rec.StreamPath(), service)
	}
	return nil
}

// watch finishes files that are idle.
func (f *folder) watch() {
	t := time.NewTicker(max(f.o.Idle/4, 100*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			f.mu.Lock()
			var idle []*file
			for _, x := range f.files {
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

// remove finishes files in the background. It does nothing after Close, which finishes all files. The caller holds
// mu.
func (f *folder) remove(list ...*file) {
	if f.closed || len(list) == 0 {
		return
	}
	f.forget()
	for _, x := range list {
		delete(f.files, x.key)
		f.directory.forget(x.number)
		f.closing.Go(func() { f.finish(context.Background(), x) })
	}
}

// close finishes all files, as [Files.Close] says.
func (f *folder) close(ctx context.Context) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.closed = true
	close(f.stop)
	f.mu.Unlock()
	for _, suspended := range []bool{false, true} { // first the files that are not suspended, because they have a journal
		f.mu.Lock()
		for _, x := range f.files {
			if x.suspended == suspended {
				f.closing.Go(func() { f.finish(ctx, x) })
			}
		}
		f.mu.Unlock()
		f.closing.Wait()
	}
}

// finish finishes a file.
func (f *folder) finish(ctx context.Context, x *file) {
	<-x.ready
	if x.rec == nil {
		return
	}
	select {
	case f.finishing <- struct{}{}:
		defer func() { <-f.finishing }()
	case <-ctx.Done():
	}
	err := x.rec.Close(ctx)
	path := x.rec.Path()
	if _, serr := os.Lstat(path); serr != nil { //nolint:gosec // the recorder has made it
		path = x.rec.StreamPath()
	}
	st := x.rec.Stats()
	if fi, serr := os.Lstat(path); serr == nil { //nolint:gosec // as above
		f.quota.Adjust(0, fi.Size()-x.bytes) // replace the size that was counted by the final size
	}
	f.ended.Add(path)
	if f.o.OnDone != nil {
		f.o.OnDone(path, st.Entries.Written, st.Bytes, err)
	}
	f.prune()
}
