package receive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/receivedfiles"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// FilesOptions configure a Files.
type FilesOptions struct {
	// Dir is the folder for the files. It must exist.
	Dir string
	// File, if set, is the path of the one file for all services. Of the other options, only Redact and OnError are
	// then used.
	File string
	// Recorder, if set, records all services. The other options are then not used, and Close does not close the
	// Recorder.
	Recorder *recorder.Recorder
	// Idle is how long a service may send nothing before its file is finished. The default is five minutes.
	Idle time.Duration
	// MaxOpen is the maximum number of files that are open for writing. To open another one, the file that was idle
	// longest is suspended. It is resumed when its service sends again. The default is 64.
	MaxOpen int
	// MaxBytes and MaxFiles limit all traces in the folder. If finished traces exceed KeepBytes, the oldest are
	// removed. Zero means no limit.
	MaxBytes, KeepBytes int64
	MaxFiles            int
	// Redact decides which values are secrets, which are then replaced. nil means [redact.Off].
	Redact *redact.Policy
	// OnBegun is called when the file of a service begins, OnDone when it is finished or cannot be created, and
	// OnError for errors in between. They may be called concurrently.
	OnBegun func(path, service string)
	OnDone  func(path string, entries uint64, bytes int64, err error)
	OnError func(path string, err error)
}

// Files is a Sink that records each service to a file of its own, or all services to one file. Attributes of the
// resource identify the service.
type Files struct {
	o     FilesOptions
	dir   *directory // nil if all services share a file
	names receivedfiles.Names
	quota receivedfiles.Quota
	ended retain.Log

	pruning sync.Mutex

	mu     sync.Mutex // never held while a file is read or written
	last   uint32     // number of the file that was created last
	files  map[string]*file
	closed bool
	// recorded has the hashes of requests whose spans were all recorded. A request replaces an earlier one with the
	// same index.
	recorded [1 << 14]struct {
		sum   uint64
		spans int
	}
	closing sync.WaitGroup
	stop    chan struct{}

	requests  sync.Pool     // of *request
	turns     chan struct{} // limits the requests that are recorded at the same time
	finishing chan struct{} // limits the files that are being finished at the same time
}

const (
	// maxTurns is the maximum number of requests that are recorded at the same time. This also limits their memory,
	// and the number of files in use.
	maxTurns = 16
	// maxFinishing is the maximum number of files that are being finished at the same time. Each needs a temporary
	// file.
	maxFinishing = 16
	// maxSuspended is the maximum number of suspended files. Each uses a file descriptor. Together with the open
	// files, they stay below the usual limit of 1,024 descriptors.
	maxSuspended = 448
	// suspendWait is how long a request waits for the disk when a file is suspended to make room.
	suspendWait = time.Second
)

// A file is the trace file of a service.
type file struct {
	key string
	// number identifies the file in the directory.
	number uint32
	rec    *recorder.Recorder
	err    error
	path   string

	mappers sync.Pool

	// Guarded by Files.mu.
	suspended bool
	ready     chan struct{} // closed when the file is in the state that suspended says, or err is set
	users     int
	last      time.Time
	bytes     int64 // the size of the file that the quota has counted
}

// NewFiles returns Files, which record until Close.
func NewFiles(o FilesOptions) (*Files, error) {
	o.Idle, o.MaxOpen = cmp.Or(o.Idle, 5*time.Minute), cmp.Or(o.MaxOpen, 64)
	f := &Files{o: o, files: make(map[string]*file), stop: make(chan struct{})}
	f.turns, f.finishing = make(chan struct{}, min(maxTurns, o.MaxOpen)), make(chan struct{}, maxFinishing)
	f.quota.Dir = o.Dir
	f.quota.MaxBytes, f.quota.MaxFiles = cmp.Or(o.MaxBytes, math.MaxInt64), cmp.Or(int64(o.MaxFiles), math.MaxInt64)
	if o.Recorder != nil {
		f.o.File = "-" // not a path: it only means one file for all services
	}
	if f.o.File != "" {
		x, err := f.use("", "", time.Now()) // the file must exist even if nothing is received
		if err != nil {
			return nil, err
		}
		f.leave(x)
		return f, nil
	}
	if err := f.quota.Rescan(); err != nil {
		return nil, err
	}
	f.dir = newDirectory()
	go f.watch()
	return f, nil
}

// Recorder returns the recorder of the file that all services share.
func (f *Files) Recorder() *recorder.Recorder {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[""].rec
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
func (f *Files) remove(list ...*file) {
	if f.closed || len(list) == 0 {
		return
	}
	clear(f.recorded[:]) // a repeated request must now begin a new file, as a new request does
	for _, x := range list {
		delete(f.files, x.key)
		f.dir.forget(x.number)
		f.closing.Go(func() { f.finish(context.Background(), x) })
	}
}

// Close finishes all files. If ctx ends before, it leaves the other files as IETs. After Close, Take returns
// ErrFull.
func (f *Files) Close(ctx context.Context) {
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

func (f *Files) finish(ctx context.Context, x *file) {
	<-x.ready
	if x.rec == nil || f.o.Recorder != nil {
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
	if fi, serr := os.Lstat(path); serr == nil && f.o.File == "" { //nolint:gosec // as above
		f.quota.Adjust(0, fi.Size()-x.bytes) // replace the size that was counted by the final size
	}
	f.ended.Add(path)
	if f.o.OnDone != nil {
		f.o.OnDone(path, st.Entries.Written, st.Bytes, err)
	}
	f.prune()
}

// prune removes the oldest finished traces until the total is at most KeepBytes.
func (f *Files) prune() {
	if f.o.KeepBytes == 0 || f.o.File != "" {
		return
	}
	f.pruning.Lock() // two concurrent calls would remove too many files
	defer f.pruning.Unlock()
	list, err := os.ReadDir(f.o.Dir)
	if err != nil {
		return // the next call tries again
	}
	var files []retain.File
	for _, e := range list {
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() || !receivedfiles.IsReceived(e.Name()) || !strings.HasSuffix(e.Name(), tracename.ET) {
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

// use returns the open file of a service. It creates or resumes the file if necessary. The caller must call leave
// later.
func (f *Files) use(key, service string, now time.Time) (*file, error) {
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

// makeRoom makes room for one more open file by choosing a file to suspend. The caller holds mu. After unlocking
// it, and before it opens the other file, the caller must call suspend. ok is false if all files are in use.
func (f *Files) makeRoom() (suspend func(), ok bool) {
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
		if x.rec.Suspend(ctx) == nil {
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

// finishOne finishes the suspended file that was idle longest. Without KeepBytes it does nothing, because finished
// files are then never removed.
func (f *Files) finishOne() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, idle := f.leastRecent(true); idle != nil && f.o.KeepBytes > 0 {
		f.remove(idle)
	}
}

// leastRecent returns how many files are suspended, or not suspended, and which of them was idle longest. The
// result idle is nil if all of them are in use. The caller holds mu.
func (f *Files) leastRecent(suspended bool) (n int, idle *file) {
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

// leave says that the caller no longer uses x, which it got from [Files.use].
func (f *Files) leave(x *file) {
	f.count(x)
	f.mu.Lock()
	x.users--
	x.last = time.Now()
	f.mu.Unlock()
}

// count updates the size of a file in the quota.
func (f *Files) count(x *file) {
	bytes := x.rec.Stats().Bytes
	f.mu.Lock()
	more := bytes - x.bytes
	x.bytes = bytes
	f.mu.Unlock()
	f.quota.Adjust(0, more)
}

func (f *Files) create(x *file, service string) error {
	if f.o.Recorder != nil {
		x.rec = f.o.Recorder
		return nil
	}
	o := &recorder.Options{Redact: cmp.Or(f.o.Redact, redact.Off), OnError: func(err error) {
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
		if f.o.File != "" {
			return err
		}
		return fmt.Errorf("%w: %w", ErrFull, err) // the sender is not at fault and may try again
	}
	x.rec = rec
	if f.o.OnBegun != nil {
		f.o.OnBegun(rec.StreamPath(), service)
	}
	return nil
}

// Take implements Sink. Usually it opens the files of all services in the request before it records anything. If
// the request names too many services for this, it handles one resource after the other.
func (f *Files) Take(ctx context.Context, s codec.Signal, e codec.Encoding, b []byte) (done Result, err error) {
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		return Result{}, ErrFull // the sender has disconnected
	}
	sum, recorded := uint64(0), &f.recorded[0]
	if s == codec.Spans {
		sum = maphash.Bytes(seed, b)
		recorded = &f.recorded[sum%uint64(len(f.recorded))]
		f.mu.Lock()
		was := *recorded
		f.mu.Unlock()
		if was.sum == sum { // the sender got no answer and has sent its spans again
			return Result{Taken: was.spans}, nil
		}
	}
	if f.o.File == "" && f.quota.Full() {
		f.prune()
		if f.quota.Full() {
			f.finishOne()
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
	r := codec.NewReader(b, e)
	r.Assume(s)
	limit := max(minItems, len(b)/bytesOfItem)
	if f.o.Recorder != nil { // the sender is this process, so there is no need for a limit
		limit = math.MaxInt
	}
	r.Limit(limit)
	end, damage := r.Walk(0, int64(len(b)), false, t)
	for damage == nil && e == codec.JSON && end < int64(len(b)) { // OTLP's file format has several messages one after the other
		end, damage = r.Walk(end, int64(len(b)), false, t)
	}
	if damage != nil && e == codec.Protobuf {
		t.reset()
		r.Limit(limit)
		_, damage = r.Walk(0, int64(len(b)), true, t) // b may be truncated: then the lengths of the outer messages are wrong
	}
	if errors.Is(damage, codec.ErrMany) {
		return Result{}, &DamageError{damage}
	}
	t.close()
	parts := t.parts(len(b))
	// If possible, open all files before recording anything, so that the request is refused or accepted as a whole.
	fresh := 0 // number of files that the request has created
	together := len(parts) <= max(1, f.o.MaxOpen/cap(f.turns))
	for i := range parts {
		defer f.end(&parts[i])
		if !together {
			continue
		}
		if err := f.begin(r, &parts[i], &fresh); errors.Is(err, ErrFull) {
			return Result{}, err
		}
	}
	if err := admit(ctx, parts); err != nil {
		return Result{}, err
	}
	var full error
	scopes := scopesFloor + scopesFactor*int64(len(b))
	for i := range parts {
		p := &parts[i]
		var one Result
		err := p.err
		if !together {
			err = f.begin(r, p, &fresh)
			if err == nil {
				err = admit(ctx, parts[i:i+1])
			}
		}
		if err == nil && p.x != nil {
			one, err = p.take(f.dir, r, t, &scopes)
			if errors.Is(err, ErrFull) {
				return Result{}, err // a part was recorded; the sender sends the whole request again
			}
		}
		if !together {
			f.end(p)
		}
		if err != nil {
			one = Result{Refused: p.records, Why: err}
			if errors.Is(err, ErrFull) {
				full = err
			} else {
				damage = cmp.Or(damage, err)
			}
		}
		if n := p.holder.refused; n > 0 {
			one.Refuse(n, ErrNoID)
		}
		done.Taken += one.Taken
		done.Refuse(one.Refused, one.Why)
	}
	switch {
	case full != nil && done.Taken == 0:
		return Result{}, full
	case damage != nil:
		return done, &DamageError{damage}
	case s == codec.Spans && done.Refused == 0 && !slices.ContainsFunc(t.records, func(i item) bool { return i.log }):
		f.mu.Lock()
		recorded.sum, recorded.spans = sum, done.Taken
		f.mu.Unlock()
	}
	return done, nil
}

// seed is random, so that senders cannot predict the hashes of requests.
var seed = maphash.MakeSeed()

// A part holds the records of one resource of a request.
type part struct {
	holder        *group
	scope, record int // index of its first scope and first record
	records       int
	size          int // approximate number of bytes of the records

	// Set by begin.
	resource otel.Resource
	x        *file // nil if nothing is to be recorded
	leave    func()
	err      error
}

// parts returns the parts of a request that have records. The parameter size is the size of the request.
func (r *request) parts(size int) []part {
	var list []part
	scope, record := 0, 0
	for i := range r.holders {
		p := part{holder: &r.holders[i], scope: scope, record: record}
		scope = p.holder.end
		if scope > p.scope {
			record = r.scopes[scope-1].end
		}
		p.records = record - p.record
		if p.records == 0 && p.holder.refused == 0 {
			continue // no file for a resource without records
		}
		p.size = int(int64(size) * int64(p.records) / int64(max(1, len(r.records))))
		list = append(list, p)
	}
	return list
}

// admit reserves room in the open files of parts. It adds up the parts of each file, and reserves in a fixed order
// of files, so that two requests never wait for each other.
func admit(ctx context.Context, parts []part) error {
	sizes, first := make(map[*file]int), make(map[*file]*part)
	var files []*file
	for i := range parts {
		x := parts[i].x
		if x == nil {
			continue
		}
		if first[x] == nil {
			first[x] = &parts[i]
			files = append(files, x)
		}
		sizes[x] += parts[i].size
	}
	slices.SortFunc(files, func(a, b *file) int { return cmp.Compare(a.key, b.key) })
	for _, x := range files {
		leave, err := x.rec.Admit(ctx, sizes[x])
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
		first[x].leave = leave
	}
	return nil
}

// maxFresh is the maximum number of files that one request may create. Further services of the request share one
// file, because a file costs much more than a record.
const (
	maxFresh     = 64
	manyServices = "many_services"
)

// begin opens the file of p. The caller must call Files.end later.
func (f *Files) begin(r *codec.Reader, p *part, fresh *int) error {
	p.err = func() error {
		if h := &p.holder.head; h.Value.From >= 0 || h.URL.From >= 0 {
			if err := r.Resource(h, &p.resource); err != nil {
				return err
			}
		}
		if p.records == 0 {
			return nil // all records of the resource were refused
		}
		key, service := f.serviceOf(&p.resource)
		f.mu.Lock()
		if f.files[key] == nil {
			*fresh++
			if *fresh > maxFresh {
				key, service = manyServices, manyServices
			}
		}
		f.mu.Unlock()
		x, err := f.use(key, service, time.Now())
		if err != nil {
			return err
		}
		p.x = x
		return nil
	}()
	return p.err
}

// end undoes begin. Further calls for the same part do nothing.
func (f *Files) end(p *part) {
	if p.leave != nil {
		p.leave()
	}
	if p.x != nil {
		f.leave(p.x)
	}
	p.x, p.leave = nil, nil
}

// take records the records of p.
func (p *part) take(dir *directory, r *codec.Reader, t *request, scopes *int64) (Result, error) {
	m, ok := p.x.mappers.Get().(*mapper)
	if !ok {
		m = &mapper{writer: writer{rec: p.x.rec, batch: p.x.rec.Batch()}, dir: dir, file: p.x.number}
	}
	defer p.x.mappers.Put(m)
	m.batch.Discard()
	m.done, m.scopes, m.scope = Result{}, scopes, otel.Scope{}
	if dir != nil { // tell the recorder about parents that are in other files
		for _, ids := range dir.take(m.file) {
			m.batch.Elsewhere(format.SpanRef{TraceID: [16]byte(ids[:16]), SpanID: [8]byte(ids[16:])})
		}
	}
	var err error
	m.resource, err = m.rec.Resource(p.resource.Entry())
	if err != nil {
		m.done.Why = err // the records then go below the root
	}
	record := p.record
	for scope := p.scope; scope < p.holder.end; scope++ {
		m.record(r, &t.scopes[scope].head, t.records[record:t.scopes[scope].end])
		record = t.scopes[scope].end
	}
	return m.End()
}

// serviceOf returns the key of a service's file, and the name of the service.
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
	sum := sha256.Sum256(b) // a hash, because the texts may be large
	return string(sum[:]), parts[0]
}

// identity lists the attributes of a resource that identify the service. If the instance id is known, the process
// and the host do not count.
var identity = [...]string{"service.name", "service.instance.id", "process.pid", "host.name"}
