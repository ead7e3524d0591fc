package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/entrace-go/entrace/internal/osfile"
)

// FollowOptions change how [Follow] works.
type FollowOptions struct {
	ReaderOptions

	// Poll is how often the file is looked at. The default is 50 ms.
	Poll time.Duration
}

// A Follower reads a file that still grows: every entry once, as soon as it is
// whole. It is not safe for concurrent use.
type Follower struct {
	f    *os.File
	name string
	poll time.Duration

	d        decoder
	entry    TraceEntry
	id       int64 // of the last entry
	off      int64 // in the file, where the next entry begins
	buf      []byte
	rest     []byte        // of buf, that is at off
	chunk    []byte        // for looking ahead
	need     int64         // bytes at off without which the next entry cannot be whole
	want     int           // bytes to read at once
	zeros    int64         // up to here the file has nothing but zeros from off on
	kept     int64         // zeros up to here are entries, since something follows
	idle     time.Duration // since the last entry
	alive    bool          // somebody held the lock at Follow, or later
	ended    bool          // the last entry marks a clean end
	prefixed bool          // a length comes before each entry
	et       *File         // an ET does not grow
}

// Follow opens a growing IET file, or the one that a recorder streams for name. A
// nil o means defaults. An ET is read to its end.
func Follow(name string, o *FollowOptions) (*Follower, error) {
	if o == nil {
		o = &FollowOptions{}
	}
	name = Find(name)
	f, err := osfile.OpenRead(name)
	if err != nil {
		return nil, err
	}
	fl := &Follower{f: f, name: name, poll: o.Poll, id: -1, off: MagicSize}
	if fl.poll <= 0 {
		fl.poll = 50 * time.Millisecond
	}
	v, format, err := ReadMagic(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("follow %s: %w", name, err), f.Close())
	}
	fl.d = decoder{version: v, maxSize: o.maxEntrySize()}
	fl.prefixed = format == IETPrefix
	if format != ET {
		fl.alive = locked(f) // a writer locks a file before it has a magic, and may die before the next look
	} else {
		if fl.et, err = Open(name, &OpenOptions{ReaderOptions: o.ReaderOptions}); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return fl, nil
}

// SkipTo goes on with the entry that begins at an offset of the file, and has that id: with
// [File.WholeSize] and [File.Len] behind what a File has. Last is the entry before it, nil if there
// is none: nothing comes after one that marks a clean end. SkipTo is called before Next.
func (f *Follower) SkipTo(offset int64, id uint32, last *TraceEntry) {
	if f.et == nil {
		f.off = offset
	}
	f.id, f.ended = int64(id)-1, last != nil && last.IsEnd()
}

// Next waits for the next entry and returns it with its id; the entry is valid
// until the next call. The error is [io.EOF] when the trace has come to a clean
// end, [ErrTruncated] when its writer has died since Follow, [ErrShrunk] when the
// file was cut, a [*CorruptError] for damage, or that of ctx. For the end of a
// file whose writer does not lock it, or was dead before, Next waits for ever.
func (f *Follower) Next(ctx context.Context) (uint32, *TraceEntry, error) {
	if f.et != nil {
		return f.nextOfET()
	}
	for tries := 0; ; tries++ {
		// What is there already is returned with a context that is done, too.
		if err := ctx.Err(); err != nil && tries > 1 {
			return 0, nil, err
		}
		ok, err := f.decode()
		if err != nil {
			return 0, nil, err
		}
		if ok {
			f.idle = 0
			f.ended = f.entry.IsEnd()
			return uint32(f.id), &f.entry, nil
		}
		more, err := f.read()
		if err != nil {
			return 0, nil, err
		}
		if more {
			continue
		}
		if err := f.over(); err != nil {
			return 0, nil, err
		}
		select {
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		case <-time.After(f.poll):
			f.idle += f.poll
		}
	}
}

// decode decodes the entry at off if rest has all of it.
func (f *Follower) decode() (bool, error) {
	raw, n, err := f.d.next(f.rest, f.off, f.id+1, f.prefixed, &f.entry)
	if err != nil {
		return false, err
	}
	if n == 0 {
		f.need, f.want = int64(f.d.need), max(f.d.need, 2*len(f.rest))
		return false, nil
	}
	if isZero(raw) && f.off+int64(n) > f.kept {
		if ok, err := f.followed(); !ok {
			return false, err
		}
	}
	f.id++
	f.off += int64(n)
	f.rest = f.rest[n:]
	return true, nil
}

// followed reports whether anything but zeros follows those at off: else they are
// no entries.
func (f *Follower) followed() (bool, error) {
	if f.chunk == nil {
		f.chunk = make([]byte, 32<<10)
	}
	for at := max(f.zeros, f.off); ; {
		n, err := f.f.ReadAt(f.chunk, at)
		for i, c := range f.chunk[:n] {
			if c != 0 {
				f.kept = at + int64(i)
				return true, nil
			}
		}
		at += int64(n)
		f.zeros = at
		if errors.Is(err, io.EOF) {
			f.need = at - f.off + 1
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// read reads from off on, always anew: a writer takes a part of an entry back
// that it could not finish. It reports whether there is as much as is needed.
func (f *Follower) read() (bool, error) {
	fi, err := f.f.Stat()
	if err != nil {
		return false, err
	}
	have := fi.Size() - f.off
	if have < 0 {
		return false, fmt.Errorf("%s: %w", f.name, ErrShrunk)
	}
	if have < f.need || have == 0 {
		f.rest = nil
		return false, nil
	}
	n := int(min(have, int64(max(f.want, walkSize))))
	f.need, f.want = 0, 0
	if cap(f.buf) < n {
		f.buf = make([]byte, n)
	}
	n, err = f.f.ReadAt(f.buf[:n], f.off)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	f.rest = f.buf[:n]
	return n > 0, nil
}

// over returns an error when nothing more can come.
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
		return nil // a writer of another kind, which does not lock
	}
	if more, err := f.read(); more || err != nil {
		return err // it wrote something before it let go of the lock
	}
	return &TruncatedError{Offset: f.off, Entry: f.id + 1, Field: "its writer is gone"}
}

// locked probes the lock of the very file that is read, whatever its name.
func locked(f *os.File) bool {
	err := osfile.Lock(f, false)
	if err == nil {
		_ = osfile.Unlock(f) // and if not: closing f does
	}
	return errors.Is(err, osfile.ErrLocked)
}

func (f *Follower) nextOfET() (uint32, *TraceEntry, error) {
	if f.id+1 >= int64(f.et.Len()) {
		if err := f.et.Damage(); err != nil {
			return 0, nil, err
		}
		return 0, nil, io.EOF
	}
	f.id++
	e, err := f.et.Entry(uint32(f.id))
	return uint32(f.id), e, err
}

// Close closes the file.
func (f *Follower) Close() error {
	if f.et != nil {
		return errors.Join(f.et.Close(), f.f.Close())
	}
	return f.f.Close()
}
