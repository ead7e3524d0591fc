package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// FollowOptions change how [Follow] works.
type FollowOptions struct {
	ReaderOptions

	// Poll is the time between two checks of the file. The default is 50 ms.
	Poll time.Duration
}

// A Follower reads a file that is still growing. Next returns every entry once, as soon as it is complete. A
// Follower is not safe for concurrent use.
type Follower struct {
	f     *os.File
	r     *Reader
	name  string
	poll  time.Duration
	until int64         // a file that is shorter than this has no further entry
	zeros bool          // the file ends with zeros, which the writer can replace at any time
	idle  time.Duration // the time since the last entry
	alive bool          // a writer held the lock at Follow or later
	ended bool          // the last entry marks a clean end
}

// Follow opens a growing IET file. If name is an ET that does not exist yet, Follow opens the IET from which a
// recorder makes the ET: see [Find]. An existing ET is read to its end. A nil o means defaults.
func Follow(name string, o *FollowOptions) (*Follower, error) {
	if o == nil {
		o = &FollowOptions{}
	}
	name = Find(name)
	f, err := osfile.OpenRead(name)
	if err != nil {
		return nil, err
	}
	fl := &Follower{f: f, name: name, poll: o.Poll}
	if fl.poll <= 0 {
		fl.poll = 50 * time.Millisecond
	}
	fl.r, err = newReader(f, &o.ReaderOptions, walkSize)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("follow %s: %w", name, err), f.Close())
	}
	if fl.r.format != ET {
		fl.r.goOn(f, wire.MagicSize, 0)
		// A writer locks a file before it writes the magic. Check the lock now, because the writer may die before
		// the next check.
		fl.alive = locked(f)
	}
	return fl, nil
}

// SkipTo makes Next begin with the entry that has the given id and begins at the given offset. To begin after the
// entries of a [File], pass its [File.WholeSize] and [File.Len]. The parameter last is the entry before that entry, or
// nil if id is
// 0. If last marks a clean end, Next returns io.EOF. Call SkipTo before the first call of Next.
func (f *Follower) SkipTo(offset int64, id uint32, last *TraceEntry) {
	f.r.goOn(f.f, offset, int64(id))
	f.ended = last != nil && last.IsEnd()
}

// Next waits for the next entry. It returns the entry's id and the entry, which is valid until the next call. The
// error is one of the following:
//   - [io.EOF] after an entry that marks a clean end
//   - [ErrTruncated] if the writer died after the call of Follow
//   - [ErrShrunk] if the file became shorter
//   - a [*CorruptError] for damage
//   - the error of ctx
//
// If the writer does not lock the file, or died before the call of Follow, Next waits at the end of the file until
// ctx is done.
func (f *Follower) Next(ctx context.Context) (uint32, *TraceEntry, error) {
	for tries := 0; ; tries++ {
		// Even if ctx is done, return an entry that is already in the file.
		if err := ctx.Err(); err != nil && tries > 0 {
			return 0, nil, err
		}
		e, err := f.r.Next()
		if err == nil {
			f.idle = 0
			f.ended = e.IsEnd()
			return uint32(f.r.id), e, nil
		}
		if f.r.format == ET || !errors.Is(err, io.EOF) && !errors.Is(err, ErrTruncated) {
			return 0, nil, err
		}
		t, ok := errors.AsType[*TruncatedError](err)
		f.zeros = ok && t.ZeroTail
		f.until = f.r.off + int64(f.r.d.need)
		if f.zeros {
			f.until = f.r.zerosTo + 1
		}
		f.r.goOn(f.f, f.r.off, f.r.id+1)
		if err := f.wait(ctx); err != nil {
			return 0, nil, err
		}
	}
}

// Raw returns the encoding of the entry that Next returned last. The slice is valid until the next call of Next.
func (f *Follower) Raw() []byte { return f.r.Raw() }

// Version returns the disk version of the file.
func (f *Follower) Version() Version { return f.r.Version() }

// wait returns nil when the file may have a further entry. It returns an error if no further entry can come.
func (f *Follower) wait(ctx context.Context) error {
	for looks := 0; ; looks++ {
		more, err := f.more()
		if looks > 0 && (more || f.zeros) || err != nil {
			return err
		}
		if err := f.over(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.poll):
			f.idle += f.poll
		}
	}
}

// more reports whether the file is long enough to have a further entry.
func (f *Follower) more() (bool, error) {
	fi, err := f.f.Stat()
	if err == nil && fi.Size() < f.r.off {
		err = fmt.Errorf("%s: %w", f.name, ErrShrunk)
	}
	return err == nil && fi.Size() >= f.until, err
}

// over returns an error if no further entry can come.
func (f *Follower) over() error {
	if f.ended {
		return io.EOF
	}
	const sure = 250 * time.Millisecond
	if f.idle < sure {
		return nil
	}
	f.idle = 0
	if locked(f.f) {
		f.alive = true
		return nil
	}
	if !f.alive && osfile.SameFile(f.f, f.name) {
		return nil // the writer is not a recorder and does not lock files
	}
	if more, err := f.more(); more || err != nil {
		return err // the writer wrote more before it released the lock
	}
	return &TruncatedError{Offset: f.r.off, Entry: f.r.id + 1, Field: "its writer is gone"}
}

// locked reports whether a writer holds the lock of the open file f. The file may have been renamed.
func locked(f *os.File) bool {
	err := osfile.Lock(f, false)
	if err == nil {
		_ = osfile.Unlock(f) // if this fails, closing f releases the lock
	}
	return errors.Is(err, osfile.ErrLocked)
}

// Close closes the file.
func (f *Follower) Close() error { return f.f.Close() }
