package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// background runs functions that finish the files before the current one.
type background struct {
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	mu sync.Mutex

	err   error
	files []*os.File // earlier files whose content may not be on disk yet
	ended retain.Log // paths of finished files, without extensions
}

// sync makes the earlier files survive a loss of power.
func (b *background) sync() error {
	b.mu.Lock()
	files := slices.Clone(b.files)
	b.mu.Unlock()
	var err error
	for _, f := range files {
		err = errors.Join(err, osfile.Ignore(f.Sync(), os.ErrClosed))
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
		if err := deadtrace.Safely(func() error { return fn(b.ctx) }); err != nil {
			b.mu.Lock()
			b.err = errors.Join(b.err, err)
			b.mu.Unlock()
		}
	})
}

// wait waits until all started functions have returned. When ctx ends, it cancels their context.
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

// A rotation decides when a writer begins another file.
type rotation struct {
	began     time.Time // when the file began
	first     uint64    // the id of the first entry after the open spans from the earlier file
	head      int64     // size in bytes of everything before that entry
	notBefore time.Time // earliest time of the next attempt
	mended    bool      // another program has changed the file: replace it as soon as possible
	stranger  bool      // ids that callers have belong to an earlier file, even if the options set no bounds
	synced    time.Time // before this time, a failed sync of the file does not begin a new file
}

// on reports whether the options set a bound at which a new file begins.
func (*rotation) on(o *Options) bool {
	return o.MaxFileSize > 0 || o.MaxFileAge > 0 || o.MaxFileEntries > 0
}

// tooBig reports whether the file, including the staged entries, has reached a bound.
func (r *rotation) tooBig(o *Options, p *placer.Placer) bool {
	if !r.on(o) {
		return false
	}
	b, _ := p.Out()
	size := p.Size() + int64(len(b)) - r.head
	next := p.Entries()
	return o.MaxFileSize > 0 && size >= bound(o.MaxFileSize, r.head) ||
		o.MaxFileEntries > 0 && next-r.first >= uint64(bound(int64(o.MaxFileEntries), int64(r.first))) || next >= fullAt
}

// bound returns how much a file may hold after its head. The parameter most is the bound of the whole file.
// The result is at least three quarters of most: even if many spans are open, the file has room for new
// entries.
func bound(most, head int64) int64 { return max(most-head, most-most/headShare) }

// due returns the time until the writer must check the age of the file.
func (r *rotation) due(o *Options, p *placer.Placer) time.Duration {
	if o.MaxFileAge <= 0 {
		return math.MaxInt64
	}
	d := max(time.Until(r.began.Add(o.MaxFileAge)), time.Until(r.notBefore), writeAfter)
	if p.Entries() < r.first+minFileEntries {
		d = max(d, checkEvery) // too few entries for a new file: check again later
	}
	return d
}

// fullAt is the number of entries at which a new file begins if the options set a bound. A file can hold a
// few more.
const fullAt = 1<<32 - 1<<16

const (
	// minFileEntries is the minimum number of new entries in a file. Without it, a very small bound would
	// begin a new file all the time.
	minFileEntries = 16
	rotateAgain    = time.Minute // the pause after a failure to begin a new file

	// headShare limits the open spans at the beginning of a file to a quarter of the bounds of a file. If
	// files have no bound, the limit is a quarter of headSize bytes.
	headShare = 4
	headSize  = 256 << 20
)

// isDue reports whether the file has reached a bound, so that a new file must begin.
func (r *rotation) isDue(o *Options, p *placer.Placer, now time.Time) bool {
	return r.on(o) && p.Entries() >= r.first+minFileEntries &&
		(r.tooBig(o, p) || o.MaxFileAge > 0 && now.Sub(r.began) >= o.MaxFileAge)
}

// rotateIfDue begins a new file if one is due and no entries are staged for the old file.
func (w *writer) rotateIfDue() {
	r := &w.rotation
	if w.file == nil || w.file.dead != nil || w.staged() || w.broken.Load() != nil {
		return
	}
	now := time.Now()
	unsynced := w.file.syncErr != nil && now.After(r.synced) // a failed sync cannot be repeated, except for another file
	if !r.mended && !unsynced && !r.isDue(w.o, w.placer, now) || now.Before(r.notBefore) {
		return
	}
	err := w.checkFile() // another file may have the name by now
	if err == nil {
		err = w.rotate(now)
	}
	if err != nil {
		r.notBefore = now.Add(rotateAgain)
		r.mended = r.mended && r.on(w.o) // without bounds, recording continues in this file: it is whole after the mending
		err = fmt.Errorf("rotate %s: %w", w.name, err)
		w.mu.Lock()
		w.published.err = err
		w.mu.Unlock()
		w.report(err) // recording continues in the old file
	}
}

// rotate replaces the growing file by a new one. If it fails before both files have their names, nothing
// has changed.
func (w *writer) rotate(now time.Time) error {
	removed := uint64(0) // number of entries that are not in a file with a name
	if w.file.isRemoved() {
		removed = max(w.placer.Entries(), 1) - 1 // the root needs no saving
	}
	w.unsaved.Add(removed)
	w.leaving = removed > 0
	err := w.rotateFrom(removed, now)
	w.leaving = false
	if err != nil {
		w.unsaved.Add(-removed)
	}
	return err
}

// rotateFrom does the work of rotate. The parameter removed is the number of entries in the old file if
// that file was removed, else 0.
func (w *writer) rotateFrom(removed uint64, now time.Time) error {
	lost := w.file.check() // not nil if the old file was removed or renamed
	tmp, err := osfile.CreateTempAppend(w.name)
	if err != nil {
		return err
	}
	n := nextFile{sink: newFileSink(tmp, w.name), placer: w.placer.Next(), keeps: w.tee != nil}
	discard := func(err error) error {
		n.placer.DropLeft()
		return errors.Join(err, osfile.Remove(tmp, tmp.Name()), osfile.Ignore(tmp.Close(), os.ErrClosed))
	}
	if err := osfile.Lock(tmp, true); err != nil && !errors.Is(err, osfile.ErrNoLocks) {
		return discard(err)
	}
	if err := w.continueIn(&n); err != nil {
		return discard(err)
	}
	if w.o.Durability == DurabilityPower && lost == nil {
		// The calls that wait for this sync get this error, or else the error of syncing the new file.
		w.unsynced = w.sink.sync()
	}
	// If the process dies just after the renames below, recovery finds both files, and a checkpoint about
	// the old one. From the checkpoint it must know which spans wait for their parents, because they go to
	// the new file.
	if err := w.repark(); err != nil {
		return discard(err)
	}
	w.checkpoint()
	if err := w.broken.Load(); err != nil {
		return discard(*err)
	}
	aside := ""
	if lost == nil {
		aside, err = w.archiveGrowing(now)
		if err != nil {
			return discard(err)
		}
	}
	if err := osfile.RenameNew(tmp.Name(), w.name); err != nil {
		if lost == nil {
			// Continue in the old file, under its old name if it can be restored.
			err = errors.Join(err, osfile.RenameNew(aside, w.name))
		}
		return discard(err)
	}
	// A file that was mended gets no entry of a clean end, because some of its entries are missing.
	if !w.rotation.mended {
		if err := w.writeEnd(true); err != nil {
			w.failed(err) // the old file remains a whole IET
		}
	}
	old := w.file
	left := n.placer.Left()
	n.placer.Drop = w.placer.Drop
	n.placer.Adopt(w.placer)
	w.placer, w.sink, w.file, w.leaving = n.placer, n.sink, n.sink, false
	w.reader.Needs = w.placer.Needs
	w.rotation = rotation{
		began: now, first: w.placer.Entries(), head: w.placer.Size(), stranger: w.rotation.mended || w.rotation.stranger || !w.rotation.on(w.o),
	}
	if old.syncErr != nil {
		w.rotation.synced = now.Add(rotateAgain)
	}
	w.placer.Extra() // reset the count, because all entries of the new file are added here
	w.mu.Lock()
	w.published.extra[0] += w.placer.Entries()
	w.published.written[0] += w.placer.Entries()
	w.published.files++
	w.published.bytes = w.file.n
	w.mu.Unlock()
	if w.tee != nil {
		w.tee.begin(w.version)
		for _, k := range n.kept {
			if err := w.tee.take(k.b, k.staged); err != nil {
				w.report(err)
			}
		}
	}
	w.checkpoint()
	if lost == nil {
		w.finishOld(old, aside)
	} else {
		w.leaveOld(old, removed, now)
	}
	if left > 0 {
		w.report(fmt.Errorf("rotate %s: %d open spans are only in %s; the new file gets an open span with the next record of the span", w.name, left, aside))
	}
	if w.o.Durability == DurabilityPower {
		if err := osfile.SyncDir(w.name); err != nil {
			w.failed(fmt.Errorf("rotate %s: %w", w.name, err)) // a loss of power could restore the old names
		}
	}
	return nil
}

// errNoRoomToPark means that a new file cannot begin before the journal has more room.
var errNoRoomToPark = errors.New("the journal has no room for the waiting spans")

// repark copies the spans that wait for their parents again, and moves w.parking.from to the first of the
// new copies. Older copies are before this position.
func (w *writer) repark() error {
	k := &w.parking
	if k.stream == nil {
		return nil
	}
	at, old := k.stream.Position(), k.live
	k.live = make(map[*journal.Segment]int)
	if !w.placer.Repark(true) {
		// The old copies are needed as before, and so are the new ones that repark made until it failed.
		for seg, n := range old {
			k.live[seg] += n
		}
		return errNoRoomToPark
	}
	k.from = at
	for seg := range old {
		k.done[seg] = true
	}
	return nil
}

// A nextFile is a file that will replace the growing file.
type nextFile struct {
	sink   *fileSink
	placer *placer.Placer
	keeps  bool // keep the written entries in kept, for a Tee
	kept   []keptEntries
}

type keptEntries struct {
	b      []byte
	staged []placer.Staged
}

// flush writes the staged entries if they have more than size bytes.
func (n *nextFile) flush(size int) error {
	b, staged := n.placer.Out()
	if len(b) <= size {
		return nil
	}
	kept, err := n.sink.write(b, staged)
	if n.keeps {
		n.kept = append(n.kept, keptEntries{slices.Clone(b), slices.Clone(staged)})
	}
	n.placer.Flushed(kept)
	return err
}

// continueIn writes the beginning of the next file: the root and the open spans with their resources. If
// not all open spans fit, it writes the youngest.
func (w *writer) continueIn(n *nextFile) error {
	n.sink.begin(w.version)
	n.placer.Resume(0, n.sink.n, 0)
	n.placer.Root()
	spans := w.placer.OpenSpans()
	goesOn := w.rotation.carried(w.o, spans)
	// There may be hundreds of thousands of spans, and calls wait meanwhile: reuse the memory.
	var e format.TraceEntry
	var b Batch
	in := ahead{f: w.file.w}
	for i := range spans {
		s := &spans[i]
		raw, err := in.read(spans[i:])
		if err == nil {
			err = readBack(raw, w.version, &e)
		}
		if err != nil {
			n.placer.Forget()
			continue
		}
		if !goesOn[i] {
			n.placer.Leave(b.continuedSpan(s, &format.TraceEntry{Metadata: e.Metadata, Attributes: slices.DeleteFunc(e.Attributes, isDetail)}))
			continue
		}
		n.placer.Continue(b.continuedSpan(s, &e))
		if err := n.flush(flushSize); err != nil {
			return err
		}
	}
	return n.flush(0)
}

// isDetail reports whether an attribute of an open span can be left out when the next file does not begin
// with the span but gets it later.
func isDetail(a format.Attribute) bool {
	return a.Name != format.AttrSpanID && a.Name != format.AttrTime && a.Name != mapping.AttrKind
}

// carried returns for each span whether the next file begins with it. It selects the youngest spans that
// fit into the share for open spans.
func (*rotation) carried(o *Options, spans []placer.OpenSpan) []bool {
	const added = 128 // estimate of the bytes that are added to each span
	size, most := int64(headSize), uint64(fullAt)
	if o.MaxFileSize > 0 {
		size = o.MaxFileSize
	}
	if o.MaxFileEntries > 0 {
		most = uint64(max(o.MaxFileEntries, minFileEntries))
	}
	size, most = size/headShare, most/headShare
	goesOn := make([]bool, len(spans))
	for i := len(spans) - 1; i >= 0 && most > 0; i-- {
		if n := int64(spans[i].Size) + added; n <= size {
			goesOn[i] = true
			size, most = size-n, most-1
		}
	}
	return goesOn
}

// continuedSpan returns a record of the open span s, with the mark that the span began in an earlier file.
// e is the entry of s. The record is valid until b is used again.
func (b *Batch) continuedSpan(s *placer.OpenSpan, e *format.TraceEntry) *journal.Entry {
	flags := uint8(record.FlagRef | record.FlagOpen)
	var parent record.Ref
	if s.Parent != [8]byte{} {
		flags |= record.FlagParent
		copy(parent[:], s.Ref.TraceID())
		copy(parent[16:], s.Parent[:])
	}
	b.b.Reset(flags, &s.Ref, &parent)
	b.Begin(e.Message, &e.Metadata)
	for i := range e.Attributes {
		switch a := &e.Attributes[i]; a.Name {
		case format.AttrTraceID, format.AttrParentSpanID, mapping.AttrContinued:
		default:
			b.Value(a.Name, &a.Value)
		}
	}
	b.Bool(mapping.AttrContinued, true)
	b.End()
	return &journal.Entry{
		Time: entryTime(e), Info: record.Info(record.KindSpan, uint8(record.ProviderSpans), flags, s.Resource, 1),
		Data: b.b.Data(),
	}
}

// archiveGrowing renames the growing file to a name with the time now, and returns the new name.
func (w *writer) archiveGrowing(now time.Time) (aside string, err error) {
	final := w.final != w.name
	err = deadtrace.Aside(w.name, tracename.IET, now, func(to string) error {
		et := strings.TrimSuffix(to, tracename.IET) + tracename.ET
		if final && osfile.Exists(et) {
			return fs.ErrExist
		}
		aside = to
		if err := osfile.RenameNew(w.name, to); err != nil {
			return err
		}
		if final && osfile.Exists(et) {
			// Another process has just finished a file with this name.
			return cmp.Or(osfile.RenameNew(to, w.name), fs.ErrExist)
		}
		return nil
	})
	return aside, err
}

// finishOld finishes the file old in the background. Its name is now aside.
func (w *writer) finishOld(old *fileSink, aside string) {
	final, base := w.final != w.name, strings.TrimSuffix(aside, tracename.IET)
	// Add the path now, to keep the order of the files: they are finished concurrently.
	w.finished.ended.Add(base)
	w.finished.add(old.f)
	w.finished.start(func(ctx context.Context) error {
		err := osfile.SyncDir(aside)
		if final {
			err = format.Finalize(ctx, aside, base+tracename.ET, &format.FinalizeOptions{File: old.f, RemoveSource: true, Folder: old.place(), Index: &old.index})
		}
		if err != nil || !final {
			err = errors.Join(err, old.f.Sync())
		}
		err = errors.Join(err, osfile.Ignore(old.f.Close(), os.ErrClosed))
		w.finished.remove(old.f)
		return errors.Join(err, w.prune(ctx, time.Now()))
	})
}

// leaveOld closes, in the background, a file that was removed or renamed. If it was removed, leaveOld saves
// its entries in another file. removed is the number of these entries.
func (w *writer) leaveOld(old *fileSink, removed uint64, now time.Time) {
	w.finished.add(old.f)
	w.finished.start(func(ctx context.Context) error {
		defer w.finished.remove(old.f)
		defer old.f.Close()
		if removed == 0 && !old.isRemoved() {
			return old.f.Sync()
		}
		name, err := w.save(ctx, old, now)
		if err != nil {
			err = fmt.Errorf("%s was removed, and its entries cannot be saved: %w", w.name, err)
			w.countLost(old)
			w.failed(err)
			return err
		}
		w.unsaved.Add(-removed)
		w.finished.ended.Add(tracename.Base(name))
		w.armed.Store(true) // let the writer note in a checkpoint, if w has a journal, that the entries are saved
		w.wakeUp()
		return w.prune(ctx, time.Now())
	})
}

// countLost counts the entries and spans of f as dropped, because f has no name.
func (w *writer) countLost(f *fileSink) {
	entries, spans := f.index.CutTo(0)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published.lose(entries, spans)
}

// save copies the content of the removed file old to a new file and returns the name of the new file.
func (w *writer) save(ctx context.Context, old *fileSink, now time.Time) (name string, err error) {
	ext, write := tracename.IET, copyFile
	if w.final != w.name {
		ext, write = tracename.ET, func(ctx context.Context, f *os.File, to string) error {
			return format.Finalize(ctx, w.name, to, &format.FinalizeOptions{File: f, Index: &old.index})
		}
	}
	err = deadtrace.Aside(w.name, ext, now, func(to string) error {
		name = to
		return write(ctx, old.f, to)
	})
	return name, err
}

// copyFile copies the content of f to a new file.
func copyFile(ctx context.Context, f *os.File, to string) error {
	tmp, err := osfile.CreateTemp(to)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	const piece = 1 << 20
	for at := int64(0); ; at += piece {
		n, err := io.Copy(tmp, io.NewSectionReader(f, at, piece))
		err = cmp.Or(err, ctx.Err())
		if err != nil {
			return err
		}
		if n < piece {
			return tmp.Commit(false)
		}
	}
}

// An ahead reads the encoded entries of spans. One read covers entries that are near to each other.
type ahead struct {
	f  io.ReaderAt
	b  []byte
	at int64 // offset of b in the file
}

// readAhead is the maximum number of bytes of one such read, unless a single entry is larger.
const readAhead = 64 << 10

// read returns the encoded entry of spans[0]. The slice is valid until the next call.
func (a *ahead) read(spans []placer.OpenSpan) ([]byte, error) {
	from, end := spans[0].Offset, spans[0].Offset+int64(spans[0].Size)
	if from < a.at || end > a.at+int64(len(a.b)) {
		for _, s := range spans[1:] {
			if s.Offset+int64(s.Size) > from+readAhead {
				break
			}
			end = s.Offset + int64(s.Size)
		}
		n := int(end - from)
		a.b, a.at = slices.Grow(a.b[:0], n)[:n], from
		if _, err := a.f.ReadAt(a.b, from); err != nil {
			a.b = a.b[:0]
			return nil, err
		}
	}
	return a.b[from-a.at:][:spans[0].Size], nil
}

// readBack decodes b, the encoded entry of a span, into e. Bytes after the entry are an error.
func readBack(b []byte, v format.Version, e *format.TraceEntry) error {
	n, err := format.DecodeTraceEntry(b, v, e)
	if err == nil && n != len(b) {
		err = format.ErrTruncated
	}
	return err
}
