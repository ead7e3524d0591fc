package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/read/readmark"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// A growing is a file that a program still writes. It stays open for reading when the program renames it.
type growing struct {
	*format.Follower

	path    string
	was     os.FileInfo
	rotated bool                // the last entry says that another file follows
	end     readmark.Mark       // the last entry, if it marks a clean end
	later   *deadtrace.Rotation // finds the files that are renamed from now on, this file first
}

// openGrowing opens the file that [format.Find] finds for name. If a writer has only just created the file,
// openGrowing waits for its first bytes.
func openGrowing(ctx context.Context, name string) (*growing, error) {
	for began := time.Now(); ; {
		path := format.Find(name)
		was, err := osfile.Stat(path)
		if err != nil {
			return nil, err
		}
		fl, err := format.Follow(path, nil)
		if errors.Is(err, format.ErrTruncated) {
			lock, _ := osfile.LockHolder(path)
			if alive := lock != osfile.LockFree || time.Since(began) < emptyFor; alive && wait(ctx) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		g := &growing{Follower: fl, path: path, was: was, later: deadtrace.RotationOf(path)}
		if g.is(path) {
			return g, nil
		}
		g.close() // in between, another file got the name
	}
}

// emptyFor is how long openGrowing waits for the first bytes of a file that has no lock yet.
const emptyFor = time.Second

// is reports whether path is still the name of the file.
func (g *growing) is(path string) bool {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(g.was, now)
}

// read notes that e is the last entry that was read.
func (g *growing) read(e *format.TraceEntry) {
	g.rotated = e.IsRotated()
	if e.IsEnd() {
		g.end = readmark.OfEnd(e)
	}
}

func (g *growing) close() { _ = g.Close() } // nothing was written to it

// wait waits for a short time. It returns false if ctx is done.
func wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(50 * time.Millisecond):
		return true
	}
}
