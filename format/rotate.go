package format

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/retain"
)

// background is the finishing of files that were rotated out.
type background struct {
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	mu sync.Mutex

	err   error
	files []*os.File // that were rotated out and may not be on disk yet
	ended retain.Log // by path, without an extension
}

// sync makes the files that were rotated out survive a loss of power.
func (b *background) sync() error {
	b.mu.Lock()
	files := slices.Clone(b.files)
	b.mu.Unlock()
	var err error
	for _, f := range files {
		err = errors.Join(err, closedErr(f.Sync()))
	}
	return err
}

func (b *background) add(f *os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = append(b.files, f)
}

func (b *background) remove(f *os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = slices.DeleteFunc(b.files, func(g *os.File) bool { return f == g })
}

func (b *background) start(fn func(context.Context) error) {
	if b.ctx == nil {
		b.ctx, b.cancel = context.WithCancel(context.Background())
	}
	b.wg.Go(func() {
		if err := fn(b.ctx); err != nil {
			b.mu.Lock()
			b.err = errors.Join(b.err, err)
			b.mu.Unlock()
		}
	})
}

// wait waits for what was started, or cancels it when ctx is done.
func (b *background) wait(ctx context.Context) error {
	if b.ctx == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, b.cancel)
	b.wg.Wait()
	stop()
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// rotates reports whether the recording goes over several files.
func (r *Recorder) rotates() bool {
	return r.o.MaxFileSize > 0 || r.o.MaxFileAge > 0 || r.o.MaxFileEntries > 0
}

// tooBig reports whether the file, with what is staged, has reached a bound.
func (r *Recorder) tooBig() bool {
	return r.o.MaxFileSize > 0 && r.size+int64(len(r.out)) >= r.o.MaxFileSize ||
		r.o.MaxFileEntries > 0 && r.next >= uint64(r.o.MaxFileEntries) ||
		r.next >= fullAt
}

// fullAt is when a file that may rotate does so before it is full.
const fullAt = 1<<32 - 1<<16

// minFileAge keeps a bound that is too small from making nothing but files.
const (
	minFileEntries = 16
	rotateAgain    = time.Minute // after it failed
)

// lookEvery is how often a recorder that writes looks whether its file has its
// name still.
const lookEvery = time.Second

// look reports once that the file has lost its name. It goes on: Close makes the
// ET of it all the same.
func (r *Recorder) look() error {
	r.looked = time.Now()
	was := r.unlinked
	if r.unlinked = nil; !osfile.SameFile(r.f, r.stream) {
		r.unlinked = fmt.Errorf("record to %s: %w", r.stream, ErrUnlinked)
		if was == nil {
			r.reports = errors.Join(r.reports, r.unlinked)
		}
	}
	return r.unlinked
}

// rotateIfDue begins a new file when that is due and everything is in the old one.
func (r *Recorder) rotateIfDue() {
	if !r.closed && r.f != nil && time.Since(r.looked) >= lookEvery {
		_ = r.look() // kept and reported
	}
	if !r.rotates() || r.closed || r.dead != nil || len(r.out) > 0 || r.next < r.first+minFileEntries {
		return
	}
	now := time.Now()
	if !r.tooBig() && (r.o.MaxFileAge <= 0 || now.Sub(r.began) < r.o.MaxFileAge) || now.Before(r.notBefore) {
		return
	}
	err := r.look() // the name may be another's by now
	if err == nil {
		err = r.rotate(now)
	}
	if err != nil {
		r.notBefore = now.Add(rotateAgain)
		r.failed(fmt.Errorf("rotate %s: %w", r.stream, err))
		r.failing = false // the old file goes on
	}
}

// rotate puts a new file in the place of the growing one. Until both have their
// names nothing has changed.
func (r *Recorder) rotate(now time.Time) error {
	tmp, err := osfile.CreateTempAppend(r.stream)
	if err != nil {
		return err
	}
	if err := osfile.Lock(tmp, true); err != nil {
		return errors.Join(err, osfile.Remove(tmp, tmp.Name()), closedErr(tmp.Close()))
	}
	o := r.o
	o.Durability, o.OnError, o.Tee = DurabilityWriteThrough, nil, r.hold()
	o.MaxFileSize, o.MaxFileAge, o.MaxFileEntries = 0, 0, 0
	next := newRecorder(tmp, &o)
	next.stream = r.stream
	err = next.begin()
	if err == nil {
		err = r.continueIn(next)
	}
	if err == nil {
		err = r.writeEnd(true)
	}
	if err == nil && r.o.Durability == DurabilityPower {
		err = r.w.Sync() // those who wait for a sync get that of the new file
	}
	var aside string
	if err == nil {
		ext := extIET
		err = asideName(r.stream, ext, now, func(to string) error {
			if r.final != r.stream && exists(strings.TrimSuffix(to, extIET)+extET) {
				return fs.ErrExist
			}
			aside = to
			if err := osfile.RenameNew(r.stream, to); err != nil {
				return err
			}
			if r.final != r.stream && exists(strings.TrimSuffix(to, extIET)+extET) {
				// One of that name was finished just now.
				return cmp.Or(osfile.RenameNew(to, r.stream), fs.ErrExist)
			}
			return nil
		})
	}
	if err != nil {
		return errors.Join(err, osfile.Remove(tmp, tmp.Name()), closedErr(tmp.Close()))
	}
	if err := osfile.RenameNew(tmp.Name(), r.stream); err != nil {
		// The old one goes on under its old name, if it can get that again.
		return errors.Join(err, osfile.RenameNew(aside, r.stream), osfile.Remove(tmp, tmp.Name()), closedErr(tmp.Close()))
	}
	if r.o.Durability == DurabilityPower {
		if err := osfile.SyncDir(r.stream); err != nil {
			r.failed(fmt.Errorf("rotate %s: %w", r.stream, err)) // both are there, until a loss of power
		}
	}
	old, table := r.f, r.index.table()
	r.f, r.w, r.size, r.next, r.index, r.tail, r.began = tmp, tmp, next.size, next.next, next.index, next.tail, now
	r.spans, r.first, r.home = next.spans, next.next, 0 // what is to be hung below something is in the file before
	r.stats.Entries.Offered += next.stats.Entries.Written
	r.stats.Entries.Written += next.stats.Entries.Written
	for i, res := range r.all {
		res.id = next.all[i].id
	}
	r.ledger.resources(r)
	r.checkpoint()
	r.stats.Files++
	r.follow(o.Tee)
	final := r.final != r.stream
	// Here and not when it is finished: files are finished concurrently, in any order.
	r.finished.ended.Add(strings.TrimSuffix(aside, extIET))
	r.finished.add(old)
	r.finished.start(func(ctx context.Context) error {
		err := finishFile(ctx, old, aside, final, table)
		r.finished.remove(old)
		return errors.Join(err, r.finished.prune(r.stream, r.o.KeepFiles, time.Now()))
	})
	return nil
}

func closedErr(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// finishFile finishes a file that was rotated out.
func finishFile(ctx context.Context, f *os.File, iet string, et bool, t *table) error {
	err := osfile.SyncDir(iet)
	if et {
		err = finalizeOpen(ctx, f, iet, strings.TrimSuffix(iet, extIET)+extET, &FinalizeOptions{RemoveSource: true, table: t})
	}
	if err != nil || !et {
		err = errors.Join(err, f.Sync())
	}
	return errors.Join(err, closedErr(f.Close()))
}

// continueIn writes the resources and the spans that are open to the next file.
func (r *Recorder) continueIn(next *Recorder) error {
	for _, res := range r.all {
		copied := *res
		copied.owner, copied.id = next, 0
		next.all = append(next.all, &copied)
	}
	if r.latest != nil {
		next.latest = next.all[r.latest.index-1]
		next.place(next.latest)
	}
	type openSpan struct {
		ref  SpanRef
		slot spanSlot
	}
	var open []openSpan
	for key, slot := range r.spans.ids.All() {
		if !slot.ended {
			var ref SpanRef
			ref.set(key[:])
			open = append(open, openSpan{ref, slot})
		}
	}
	slices.SortFunc(open, func(a, b openSpan) int { return cmp.Compare(a.slot.id, b.slot.id) })
	for i := range open {
		s := &open[i]
		e, err := r.readBack(s.slot.off)
		if err != nil {
			continue // it goes on without its start
		}
		var attrs []Attribute
		for _, a := range e.Attributes {
			switch a.Name {
			case AttrTraceID, AttrParentSpanID, AttrContinued:
			default:
				attrs = append(attrs, a)
			}
		}
		e.Attributes = append(attrs, Attribute{AttrContinued, BoolValue(true)})
		h := SpanHead{Ref: s.ref, Open: true}
		if s.slot.parent != ([8]byte{}) {
			h.Parent = SpanRef{TraceID: s.ref.TraceID, SpanID: s.slot.parent}
		}
		if s.slot.resource > 0 {
			h.Resource = next.all[s.slot.resource-1]
		}
		b := next.Batch()
		b.Entry(e)
		b.Span(&h)
		err = next.takeDirect(b, b.ops)
		b.release()
		if err != nil {
			return err
		}
	}
	return next.flush()
}

// readBack reads the entry at off of the growing file.
func (r *Recorder) readBack(off int64) (*TraceEntry, error) {
	for size := int64(4 << 10); ; size *= 8 {
		b := make([]byte, min(size, r.size-off))
		if _, err := r.w.ReadAt(b, off); err != nil {
			return nil, err
		}
		e := new(TraceEntry)
		_, err := DecodeTraceEntry(b, r.version, e)
		if err == nil || !errors.Is(err, ErrTruncated) || size >= r.size-off {
			return e, err
		}
	}
}

// asideNames matches what asideName makes of a name without its extension.
var asideNames = regexp.MustCompile(`^\.\d{8}T\d{6}\.\d{3}Z(-\d+)?\.(et|iet)$`)

// asides returns the finished files of a stream, or those that are to be, the
// oldest first.
func asides(stream string) ([]string, error) {
	dir, base := filepath.Split(strings.TrimSuffix(stream, extIET))
	list, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if rest, ok := strings.CutPrefix(e.Name(), base); ok && e.Type().IsRegular() && asideNames.MatchString(rest) {
			names = append(names, dir+e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return compareAsides(a[len(dir)+len(base):], b[len(dir)+len(base):]) })
	return names, nil
}

// compareAsides compares by time, then by the number that tells two of one time
// apart.
func compareAsides(a, b string) int {
	const n = len(".20060102T150405.000Z")
	number := func(s string) (k int) {
		_, _ = fmt.Sscanf(s[n:], "-%d", &k)
		return k
	}
	return cmp.Or(strings.Compare(a[:n], b[:n]), number(a)-number(b))
}

// An aside is a trace that was rotated out. While it is being finished it has two
// files.
type aside struct {
	retain.File // the path has no extension

	files []string
}

// prune removes the oldest rotated traces of a stream until keep are left. It never
// removes those in spare, which are paths without an extension.
func (b *background) prune(stream string, keep int, now time.Time, spare ...string) error {
	if keep <= 0 {
		return nil
	}
	names, err := asides(stream)
	if err != nil {
		return err
	}
	var traces []aside
	there := make(map[string]bool)
	for _, name := range names {
		path := strings.TrimSuffix(name, filepath.Ext(name))
		if there[path] { // names are sorted, so this is the last one
			t := &traces[len(traces)-1]
			t.files = append(t.files, name)
			continue
		}
		fi, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		there[path] = true
		traces = append(traces, aside{retain.File{Path: path, Named: asideTimeOf(stream, path), Modified: fi.ModTime()}, []string{name}})
	}
	b.ended.Forget(func(path string) bool { return there[path] })
	older := b.ended.Compare(now)
	slices.SortStableFunc(traces, func(x, y aside) int { return older(&x.File, &y.File) })
	var errs error
	for i := range traces[:max(len(traces)-keep, 0)] {
		t := &traces[i]
		if slices.Contains(spare, t.Path) || slices.ContainsFunc(t.files, func(name string) bool { return strings.HasSuffix(name, extIET) && osfile.Locked(name) }) {
			continue // it was just recovered, or it is being finished
		}
		for _, name := range t.files {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = errors.Join(errs, err)
			}
		}
	}
	return errs
}

// asideTimeOf parses the time in a name that asideName made of a stream.
func asideTimeOf(stream, path string) time.Time {
	text := path[len(strings.TrimSuffix(stream, extIET))+1:]
	at, err := time.Parse(asideTime, text[:len(asideTime)])
	if err != nil {
		return time.Time{} // such as 20261399T…
	}
	return at
}
