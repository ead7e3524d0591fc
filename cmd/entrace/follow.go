package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/read/readmark"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// follow prints the last rows of a file, then the rows that its program adds, and then the program's next files. Files
// that the program has begun and renamed in the meantime come before the file that has the name now.
func (t *tailer) follow(ctx context.Context) error {
	stream := format.Find(t.name)
	later := deadtrace.RotationOf(stream)
	var renamed []string // files that come next
	for ; ; t.close() {
		path := stream
		if len(renamed) > 0 {
			path = renamed[0]
		}
		t.name = path
		err := t.openGrowing(ctx) // if the program has ended in the meantime, this opens the ET
		more := later.New()
		renamed = append(renamed, more...)
		switch gone := errors.Is(err, fs.ErrNotExist); {
		case ctx.Err() != nil:
			err = nil
		case path == stream && len(more) > 0: // these files had the name before
			continue
		case gone && path == stream:
			wait(ctx)
			continue
		case gone:
			if !osfile.Exists(format.Find(path)) { // otherwise it has just been finished
				t.say("%s was removed before it was read", path)
				renamed = renamed[1:]
			}
			continue
		case err == nil:
			err = t.toEnd(ctx)
		}
		if err != nil || ctx.Err() != nil || !t.rotated && !t.o.folder {
			return err
		}
		t.o.lines = -1 // print all lines of later files
		var read bool
		renamed, read = readmark.After(append(renamed, later.New()...), t.end)
		if !read && len(renamed) > 0 && t.rotated {
			t.say("files before %s may have been removed before they were read", renamed[0])
		}
		if !t.rotated && len(renamed) == 0 {
			return nil // the program has ended
		}
		// The next file is about to get the name of this file.
		for path == stream && len(renamed) == 0 && osfile.IsNamed(t.was, stream) {
			if lock, _ := osfile.LockHolder(stream); lock == osfile.LockFree && osfile.IsNamed(t.was, stream) {
				return nil // the program died before the rotation, or the file already has its final name
			}
			if !wait(ctx) {
				return nil
			}
		}
	}
}

// openGrowing opens the file of t. A file that a program still writes is kept open, so that it can be read after the
// program has renamed it. If a writer has only just created the file, openGrowing waits for its first entry.
func (t *tailer) openGrowing(ctx context.Context) error {
	for began := time.Now(); ; t.close() {
		path := format.Find(t.name)
		named, err := osfile.OpenRead(path)
		if err != nil {
			return err
		}
		t.named = named
		t.was, err = named.Stat()
		if err != nil {
			return err
		}
		t.lock, _ = osfile.LockHolder(path)
		err = t.open(ctx, true)
		if err == nil && !t.isET {
			t.follower, err = format.Follow(t.name, nil)
		}
		switch {
		case errors.Is(err, format.ErrTruncated) && (t.lock != osfile.LockFree || time.Since(began) < emptyFor) && wait(ctx):
		case err != nil:
			return err
		case osfile.IsNamed(t.was, t.name): // otherwise another file got the name in between
			t.read(t.newest)
			if !t.isET {
				t.follower.SkipTo(t.size, t.entries, t.newest)
			}
			return nil
		}
	}
}

// emptyFor is how long openGrowing waits for the first entry of a file that has no lock yet.
const emptyFor = time.Second

// read stores the properties of e, the last entry that was read.
func (t *tailer) read(e *format.TraceEntry) {
	t.rotated, t.end = e.IsRotated(), readmark.Mark{}
	if e.IsEnd() {
		t.end = readmark.OfEnd(e)
	}
}

// toEnd prints the last rows, and then new ones until the file ends.
func (t *tailer) toEnd(ctx context.Context) error {
	if err := t.begin(ctx); err != nil || t.isET {
		return torn(t.name, errors.Join(err, t.damage()))
	}
	// The lock is held, but entries came from a dead program's journal: the program is about to die.
	for t.lock == osfile.LockHeld && t.died && wait(ctx) {
		t.lock, _ = osfile.LockHolder(t.name)
	}
	if t.lock == osfile.LockFree || t.died { // a dead program writes no more entries
		if _, died := died(ctx, t.name); died != nil || t.died {
			return died
		}
	}
	now, cancel := context.WithCancel(ctx)
	cancel() // the context now is done, so with it Next returns only entries that are already in the file
	for within := ctx; ; {
		_, e, err := t.follower.Next(within)
		if err == nil {
			t.read(e)
			within = now
			t.add(e)
			if !t.window.Full() {
				continue
			}
		}
		if perr := t.printNew(ctx); perr != nil && ctx.Err() == nil {
			return perr
		}
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		case errors.Is(err, format.ErrTruncated):
			if _, died := died(ctx, t.name); died != nil {
				return died
			}
			return err
		case err == nil, within == now && errors.Is(err, context.Canceled):
			within = ctx
		default:
			return err
		}
	}
}

// wait waits for a short time. It returns false if ctx is done.
func wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(50 * time.Millisecond):
		return true
	}
}
