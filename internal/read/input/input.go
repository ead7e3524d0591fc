// Package input lets converters access the whole content of a reader at any offset. It also has the error type that
// says where the content is damaged.
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
	// maxMemory is the maximum size of content that is kept in memory. Larger content is copied to a temporary
	// file, except if the reader is a file, which is mapped.
	maxMemory = 8 << 20
	// minMapped is the minimum size of a file that is mapped.
	minMapped = 1 << 20
	// readSize is larger than any datagram, so that a UDP connection can be read.
	readSize = 256 << 10
)

// An Input holds the whole content of a reader. It is safe for concurrent use.
type Input struct {
	data []byte        // the content; nil if it is in file
	file *mapfile.File // the reader itself, or temp
	from int64         // offset in file at which the input begins
	temp *osfile.Spool
	err  error

	tempDir  string
	progress Progress // the reader, if it implements Progress
}

// A Progress is a reader that gets the number of decoded bytes. A reader that is mapped cannot count these bytes
// itself.
type Progress interface{ Progress(done int64) }

// A File is a reader that can be mapped if it is a regular file: an *os.File, or a type that embeds one.
type File interface {
	io.ReadSeeker
	Name() string
	Stat() (os.FileInfo, error)
}

// Open reads r to its end. If r is a [File] with at least 1 MiB left, Open instead maps it from its current offset
// on, and nobody may change the file before Close. Other content of up to 8 MiB is kept in memory. Larger content is
// copied to a temporary file in tempDir, or in os.TempDir() if tempDir is empty. Open returns only the error of ctx.
// Any other error, of r or of the temporary file, ends the input, and Err returns this error.
func Open(ctx context.Context, r io.Reader, tempDir string) (*Input, error) {
	if f, ok := r.(File); ok {
		if in := openFile(f); in != nil {
			in.progress, _ = r.(Progress)
			return in, nil
		}
	}
	in := New(tempDir)
	in.data = make([]byte, 0, min(left(r), maxMemory))
	buf := make([]byte, readSize)
	for {
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, in.Close())
		}
		n, err := r.Read(buf)
		if n < 0 || n > len(buf) {
			return nil, errors.Join(errors.New("the input's Read returned an invalid count"), in.Close())
		}
		if werr := in.Add(buf[:n]); werr != nil {
			err = werr
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				in.err = err
			}
			break
		}
	}
	if err := in.Seal(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// New returns an empty Input. After calls of Add, Seal makes its content available. Content of up to 8 MiB is kept in
// memory. Larger content is in a temporary file in tempDir, or in os.TempDir() if tempDir is empty.
func New(tempDir string) *Input { return &Input{tempDir: tempDir} }

// Seal ends the content of an Input that [New] has returned.
func (in *Input) Seal() (err error) {
	if in.temp == nil {
		return nil
	}
	in.file, err = mapfile.New(in.temp.File) // the file has no name, and is closed together with the map
	return err
}

// View opens r as an Input, calls fn with the whole content, and closes the Input. If both r and fn have failed,
// View returns the error of r, because it explains why the content is incomplete.
func View(ctx context.Context, r io.Reader, tempDir string, fn func(in *Input, b []byte) error) (err error) {
	in, err := Open(ctx, r, tempDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	err = in.View(func(b []byte) error { return fn(in, b) })
	return cmp.Or(in.Err(), err)
}

// left returns the number of bytes left in r, or 0 if it is unknown.
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

// openFile maps f from its current offset and seeks f to its end. It returns nil if f cannot be mapped, or is too
// small.
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
	// Check that the name still belongs to the same file.
	again, err := m.File().Stat()
	if err == nil && os.SameFile(fi, again) && m.Size() > at {
		if _, err := f.Seek(m.Size(), io.SeekStart); err == nil {
			return &Input{file: m, from: at}
		}
	}
	_ = m.Close() // it was only read
	return nil
}

// Add appends b to the content.
func (in *Input) Add(b []byte) (err error) {
	if in.temp == nil && len(in.data)+len(b) <= maxMemory {
		in.data = append(in.data, b...)
		return nil
	}
	if in.temp == nil {
		in.temp, err = osfile.CreateSpool(in.tempDir)
		if err == nil {
			_, err = in.temp.Write(in.data)
			in.data = nil
		}
	}
	if err == nil {
		_, err = in.temp.Write(b)
	}
	if err != nil {
		return fmt.Errorf("copy the input to a temporary file: %w", err)
	}
	return nil
}

// Err returns why the input ended early, or nil if the end of the reader was reached.
func (in *Input) Err() error { return in.err }

// Size returns the size of the input in bytes.
func (in *Input) Size() int64 {
	if in.file == nil {
		return int64(len(in.data))
	}
	return in.file.Size() - in.from
}

// Progress reports that the first done bytes were decoded.
func (in *Input) Progress(done int64) {
	if in.progress != nil {
		in.progress.Progress(done)
	}
}

// View calls fn with all bytes of the input. fn must not keep them, and must not pass them to a system call. View
// returns the error of fn, or [format.ErrShrunk] if the file has become shorter.
func (in *Input) View(fn func(b []byte) error) error {
	if in.file == nil {
		return fn(in.data)
	}
	return shrunk(in.file.View(in.from, in.Size(), fn))
}

func shrunk(err error) error {
	if fault, ok := errors.AsType[*mapfile.FaultError](err); ok {
		return fmt.Errorf("%w: no byte at offset %d", format.ErrShrunk, fault.Offset)
	}
	return err
}

// Close frees the memory or the temporary file of the input. It does not close the reader.
func (in *Input) Close() (err error) {
	if in.file != nil {
		err = in.file.Close()
	}
	if in.temp != nil {
		err = errors.Join(err, in.temp.Close())
	}
	return err
}
