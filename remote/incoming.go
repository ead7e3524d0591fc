package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/receivedfiles"
)

// An incoming writes a received trace to an IET file. If a write fails, the file is truncated after the last complete
// entry.
type incoming struct {
	names   *receivedfiles.Names
	dir     string
	version format.Version
	quota   *receivedfiles.Quota
	begun   func(path string) // called, if not nil, when the file exists

	f       *os.File // nil until entries are written
	buf     []byte   // complete entries that are not written yet
	ends    []int    // the offset in buf at which each of these entries ends
	entries int64    // number of entries in the file
	size    int64    // total size of the entries in the file, without the magic
}

// flushSize is the number of buffered bytes at which add writes the buffer to the file.
const flushSize = 256 << 10

// add appends an entry to the trace. It does not keep a reference to raw.
func (in *incoming) add(raw []byte) error {
	if len(raw) >= flushSize { // write it without a copy to buf
		if err := in.flush(); err != nil {
			return err
		}
		return in.write(raw, []int{len(raw)})
	}
	in.buf = append(in.buf, raw...)
	in.ends = append(in.ends, len(in.buf))
	if len(in.buf) >= flushSize {
		return in.flush()
	}
	return nil
}

// wait is called before a read that may block. It writes the buffered entries, so that a file is complete while its
// sender is idle. It does not create the file before two entries have arrived, the root and the resource, because
// the file's name has the service's name from the resource.
func (in *incoming) wait() error {
	if in.f == nil && len(in.ends) < 2 {
		return nil
	}
	return in.flush()
}

// flush writes the buffered entries.
func (in *incoming) flush() error {
	if len(in.ends) == 0 {
		return nil
	}
	err := in.write(in.buf, in.ends)
	in.buf, in.ends = in.buf[:0], in.ends[:0]
	return err
}

// write writes the entries in b to the file. The slice ends has the offset in b at which each entry ends. If the quota
// or the disk stops the write, the file ends with the last complete entry.
func (in *incoming) write(b []byte, ends []int) error {
	if in.f == nil {
		if err := in.create(in.serviceOf(b, ends)); err != nil {
			return err
		}
	}
	reserved := in.quota.ReserveBytes(int64(len(b)))
	entries, size := wholeEntries(ends, int(reserved))
	n, err := in.f.Write(b[:size])
	if err != nil {
		entries, size = wholeEntries(ends, n)
		if n > size {
			err = errors.Join(err, in.f.Truncate(wire.MagicSize+in.size+int64(size)))
		}
	} else if entries < len(ends) {
		err = in.quota.Exceeded()
	}
	in.quota.Wrote(reserved, int64(size))
	in.entries += int64(entries)
	in.size += int64(size)
	return err
}

// wholeEntries returns how many entries fit completely into n bytes, and their total size. The slice ends has the
// offset at which each entry ends.
func wholeEntries(ends []int, n int) (entries, size int) {
	entries = sort.SearchInts(ends, n+1)
	if entries > 0 {
		size = ends[entries-1]
	}
	return entries, size
}

// serviceOf returns the service's name if one of the first two entries in b is a resource, and "" otherwise. The
// slice ends has the offset at which each entry ends.
func (in *incoming) serviceOf(b []byte, ends []int) string {
	from := 0
	var e format.TraceEntry
	for _, end := range ends[:min(len(ends), 2)] {
		if _, err := format.DecodeTraceEntry(b[from:end], in.version, &e); err == nil && e.Metadata.Name == format.NameResource {
			return strings.Clone(e.Message.Value)
		}
		from = end
	}
	return ""
}

// create creates the file of a service. It counts the file in the quota.
func (in *incoming) create(service string) error {
	if !in.quota.ReserveFile() {
		return in.quota.Exceeded()
	}
	err := in.createFile(service)
	if in.f == nil {
		in.quota.Adjust(-1, 0)
	} else if in.begun != nil {
		in.begun(in.f.Name())
	}
	return err
}

func (in *incoming) createFile(service string) error {
	for range 1000 {
		base := filepath.Join(in.dir, in.names.Next(service))
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
		if err := osfile.Lock(f, true); err != nil && !errors.Is(err, osfile.ErrNoLocks) {
			return err
		}
		_, err = f.Write(wire.AppendMagic(nil, in.version, format.IET))
		return err
	}
	return fmt.Errorf("%s: %w", in.dir, fs.ErrExist)
}

// finish makes an ET from the file and returns its path. If it cannot make the ET, it returns the path of the IET.
// If the trace has no entries, or somebody removed the file, it returns "".
func (in *incoming) finish(ctx context.Context) (string, error) {
	if in.f == nil {
		return "", nil
	}
	iet := in.f.Name()
	if in.entries == 0 {
		in.quota.Adjust(-1, 0)
		return "", errors.Join(osfile.Remove(in.f, iet), osfile.Ignore(in.f.Close(), os.ErrClosed))
	}
	et := strings.TrimSuffix(iet, "iet") + "et"
	err := format.Finalize(ctx, iet, et, &format.FinalizeOptions{RemoveSource: true})
	left := et
	if f, failed := errors.AsType[*format.FinalizeError](err); failed && !f.Finished {
		left = iet
	}
	err = errors.Join(err, osfile.Ignore(in.f.Close(), os.ErrClosed))
	fi, serr := os.Lstat(left)
	if serr != nil {
		_ = in.quota.Rescan() // after an error the counts are unchanged
		return "", errors.Join(err, serr)
	}
	in.quota.Adjust(0, fi.Size()-in.size) // the ET also has tables
	return left, err
}
