// Package input gives the converters random access to the whole content of a reader. It also has the error
// that says where the content is damaged.
package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

const (
	// maxMemory is the maximum size of content that is kept in memory. Larger content is copied to a
	// temporary file, unless the reader is a file, which is mapped.
	maxMemory = 8 << 20
	// minMapped is the minimum size of a file that is mapped.
	minMapped = 1 << 20
	// readSize is at least as large as a datagram, so that a connection of UDP can be read.
	readSize = 256 << 10
)

// An Input holds the whole content of a reader. It is safe for concurrent use.
type Input struct {
	data []byte        // all of a small input, nil if it is in file
	file *mapfile.File // the reader itself, or its copy in temp
	from int64         // where the input begins in file
	temp *osfile.Spool
	err  error

	progress Progress // of the reader, nil if it has none
}

// A Progress is a reader that is told how much of its content was decoded. It cannot count that itself if
// it is mapped.
type Progress interface{ Progress(done int64) }

// A File is a reader that is mapped if it is a regular file: an *os.File, or a type that embeds one.
type File interface {
	io.ReadSeeker
	Name() string
	Stat() (os.FileInfo, error)
}

// Open reads r to its end. A [File] of 1 MiB or more is not read but mapped from its current offset, and
// must not be changed before Close. Other content up to 8 MiB is kept in memory. Larger content is copied
// to a temporary file in tempDir, os.TempDir() if that is empty. Open returns only the error of ctx. An
// error of r or of the temporary file ends the input, and Err returns it.
func Open(ctx context.Context, r io.Reader, tempDir string) (*Input, error) {
	if f, ok := r.(File); ok {
		if in := openFile(f); in != nil {
			in.progress, _ = r.(Progress)
			return in, nil
		}
	}
	in := &Input{data: make([]byte, 0, min(left(r), maxMemory))}
	buf := make([]byte, readSize)
	for {
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, in.Close())
		}
		n, err := r.Read(buf)
		if n < 0 || n > len(buf) {
			return nil, errors.Join(errors.New("the input returned an impossible count from Read"), in.Close())
		}
		if werr := in.add(buf[:n], tempDir); werr != nil {
			err = fmt.Errorf("copy the input to a temporary file: %w", werr)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				in.err = err
			}
			break
		}
	}
	if in.temp == nil {
		return in, nil
	}
	// The file of a Spool has no name, and is closed with the map of it.
	file, err := mapfile.New(in.temp.File)
	in.file = file
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// View opens r, calls fn with all that it has, and closes it. An error of r comes before that of fn: it is
// why the input ends there.
func View(ctx context.Context, r io.Reader, tempDir string, fn func(in *Input, b []byte) error) (err error) {
	in, err := Open(ctx, r, tempDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	err = in.View(func(b []byte) error { return fn(in, b) })
	return cmp.Or(in.Err(), err)
}

// left returns how many bytes r has left, 0 if that is unknown.
func left(r io.Reader) int64 {
	s, ok := r.(io.Seeker)
	if !ok {
		return 0
	}
	at, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	end, err := s.Seek(0, io.SeekEnd)
	if _, back := s.Seek(at, io.SeekStart); err != nil || back != nil {
		return 0
	}
	return max(end-at, 0)
}

// openFile maps f from where it stands, nil if that cannot be done, and leaves it at its end.
func openFile(f File) *Input {
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || fi.Size()-at < minMapped {
		return nil
	}
	m, err := mapfile.Open(f.Name())
	if err != nil {
		return nil
	}
	// The name can be that of another file by now.
	again, err := m.File().Stat()
	if err == nil && os.SameFile(fi, again) && m.Size() > at {
		if _, err := f.Seek(m.Size(), io.SeekStart); err == nil {
			return &Input{file: m, from: at}
		}
	}
	_ = m.Close() // it was only looked at
	return nil
}

// add appends b to what was read.
func (in *Input) add(b []byte, tempDir string) (err error) {
	if in.temp == nil && len(in.data)+len(b) <= maxMemory {
		in.data = append(in.data, b...)
		return nil
	}
	if in.temp == nil {
		if in.temp, err = osfile.CreateSpool(tempDir); err != nil {
			return err
		}
		if _, err := in.temp.Write(in.data); err != nil {
			return err
		}
		in.data = nil
	}
	_, err = in.temp.Write(b)
	return err
}

// Err returns why the input has no more, nil if the reader just ended.
func (in *Input) Err() error { return in.err }

// Size returns how many bytes the input has.
func (in *Input) Size() int64 {
	if in.file == nil {
		return int64(len(in.data))
	}
	return in.file.Size() - in.from
}

// Progress says that the first done bytes were decoded.
func (in *Input) Progress(done int64) {
	if in.progress != nil {
		in.progress.Progress(done)
	}
}

// View calls fn with all bytes of the input, which must not be used after fn has returned, nor be
// passed to a system call. The error is that of fn, or [format.ErrShrunk] if the file became shorter
// meanwhile.
func (in *Input) View(fn func(b []byte) error) error {
	if in.file == nil {
		return fn(in.data)
	}
	return shrunk(in.file.View(in.from, in.Size(), fn))
}

// ReadAt is that of [io.ReaderAt].
func (in *Input) ReadAt(b []byte, off int64) (int, error) {
	left := in.Size() - off
	if off < 0 || left < 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), left))
	if in.file == nil {
		copy(b[:n], in.data[off:])
	} else if n, err := in.file.ReadAt(b[:n], in.from+off); err != nil {
		return n, shrunk(err)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func shrunk(err error) error {
	if fault, ok := errors.AsType[*mapfile.FaultError](err); ok {
		return fmt.Errorf("%w: no byte at offset %d", format.ErrShrunk, fault.Offset)
	}
	return err
}

// Close removes what the input has in memory or in a temporary file. It does not close the reader.
func (in *Input) Close() (err error) {
	if in.file != nil {
		err = in.file.Close()
	}
	if in.temp != nil {
		err = errors.Join(err, in.temp.Close())
	}
	return err
}

// A List is a slice that grows by chunks. Only its first chunk is copied when it grows, because a copy of
// the whole would take the same memory again.
type List[T any] struct {
	chunks [][]T
	n      int
}

const chunkBits = 13

// Len returns the number of items.
func (l *List[T]) Len() int { return l.n }

// At returns item i. It is where Add put it, unless it is in the first chunk, until the next call of Add.
func (l *List[T]) At(i int) *T { return &l.chunks[i>>chunkBits][i&(1<<chunkBits-1)] }

// Add appends an item, and returns where it is.
func (l *List[T]) Add(v T) *T {
	if l.n>>chunkBits == len(l.chunks) {
		var chunk []T
		if l.n > 0 {
			chunk = make([]T, 0, 1<<chunkBits)
		}
		l.chunks = append(l.chunks, chunk)
	}
	last := &l.chunks[len(l.chunks)-1]
	*last = append(*last, v)
	l.n++
	return l.At(l.n - 1)
}
