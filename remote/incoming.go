package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
)

// names makes the names of files, out of nothing but the time and a counter.
type names struct{ n atomic.Uint64 }

func (n *names) next() string {
	return fmt.Sprintf("%s-%06d", time.Now().UTC().Format("20060102T150405.000Z"), n.n.Add(1))
}

// An incoming trace is streamed to an IET, which always ends at the end of an
// entry unless a write was cut.
type incoming struct {
	names   *names
	dir     string
	version format.Version

	f       *os.File // nil before the first entry
	buf     []byte   // whole entries
	waiting int64    // how many
	entries int64    // in the file
	size    int64    // of them, without the magic
}

// flushSize is how much is gathered for one write when more comes all the time.
const flushSize = 256 << 10

// add takes an entry.
func (in *incoming) add(raw []byte) error {
	in.buf = append(in.buf, raw...)
	in.waiting++
	if len(in.buf) >= flushSize {
		return in.flush()
	}
	return nil
}

// flush writes what was gathered.
func (in *incoming) flush() error {
	if in.waiting == 0 {
		return nil
	}
	if in.f == nil {
		if err := in.create(); err != nil {
			return err
		}
	}
	if _, err := in.f.Write(in.buf); err != nil {
		// What is not whole goes.
		return errors.Join(err, in.f.Truncate(format.MagicSize+in.size))
	}
	in.entries += in.waiting
	in.size += int64(len(in.buf))
	in.waiting, in.buf = 0, in.buf[:0]
	if cap(in.buf) > 4*flushSize {
		in.buf = nil
	}
	return nil
}

// create makes the file.
func (in *incoming) create() error {
	for range 1000 {
		base := filepath.Join(in.dir, in.names.next())
		if _, err := os.Lstat(base + ".et"); err == nil {
			continue
		}
		f, err := osfile.CreateAppend(base + ".iet")
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		in.f = f
		if err := osfile.Lock(f, true); err != nil {
			return err
		}
		_, err = f.Write(format.AppendMagic(nil, in.version, format.IET))
		return err
	}
	return fmt.Errorf("%s: %w", in.dir, fs.ErrExist)
}

// finish makes an ET of the file and returns the path of what is left: the IET if
// that did not succeed.
func (in *incoming) finish(ctx context.Context) (string, error) {
	if in.f == nil {
		return "", nil
	}
	iet := in.f.Name()
	if in.entries == 0 {
		return "", errors.Join(osfile.Remove(in.f, iet), closed(in.f.Close()))
	}
	et := iet[:len(iet)-len("iet")] + "et"
	err := format.Finalize(ctx, iet, et, &format.FinalizeOptions{RemoveSource: true})
	err = errors.Join(err, closed(in.f.Close()))
	if _, serr := os.Lstat(iet); serr == nil {
		return iet, err
	}
	return et, err
}

func closed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
