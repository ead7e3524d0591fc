package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/entrace-go/entrace/internal/mapfile"
	"github.com/entrace-go/entrace/internal/osfile"
)

const (
	// inMemory is up to how many bytes an input is read into memory, when it does
	// not say how long it is; maxSized, when it does.
	inMemory = 8 << 20
	maxSized = 32 << 20
	// minMapped is from how many bytes on a file is mapped.
	minMapped = 1 << 20
)

// An input gives random access to what a reader brings: spans are written after
// their parents, which come later more often than not.
type input struct {
	data []byte // all of a small input, else nil

	file *mapfile.File
	from int64         // where the input begins in file
	temp *osfile.Spool // the copy that file maps, if there is one

	rerr error // what the reader failed with, unless it just ended
}

func open(ctx context.Context, r io.Reader, tempDir string) (*input, error) {
	if in := openFile(r); in != nil {
		return in, nil
	}
	if n := sizeOf(r); n > 0 && n <= maxSized {
		data := make([]byte, n)
		n, err := io.ReadFull(contextReader{ctx, r}, data)
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil
		}
		return &input{data: data[:n], rerr: err}, ctx.Err()
	}
	data, err := io.ReadAll(io.LimitReader(contextReader{ctx, r}, inMemory))
	if err != nil || len(data) < inMemory {
		return &input{data: data, rerr: err}, ctx.Err()
	}
	return spool(ctx, data, r, tempDir)
}

// sizeOf returns how many bytes r has left, 0 if that is not known.
func sizeOf(r io.Reader) int64 {
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
	return end - at
}

// openFile maps r if it is a large regular file that can be opened again, and
// leaves it where it would be when it had been read.
func openFile(r io.Reader) *input {
	f, ok := r.(*os.File)
	if !ok {
		return nil
	}
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
	// The name can stand for another file by now.
	again, err := m.File().Stat()
	if err != nil || !os.SameFile(fi, again) || m.Size() < at {
		_ = m.Close()
		return nil
	}
	if _, err := f.Seek(m.Size(), io.SeekStart); err != nil {
		_ = m.Close()
		return nil
	}
	return &input{file: m, from: at}
}

// spool copies a large input into a temporary file.
func spool(ctx context.Context, begun []byte, r io.Reader, dir string) (in *input, err error) {
	f, err := osfile.CreateSpool(dir)
	if err != nil {
		return nil, err
	}
	in = &input{temp: f}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close())
		}
	}()
	_, err = f.Write(begun)
	if err == nil {
		src := &errorReader{r: contextReader{ctx, r}}
		_, err = io.CopyBuffer(struct{ io.Writer }{f}, src, begun[:256<<10])
		if in.rerr = src.err; src.err != nil {
			err = nil
		}
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return in, fmt.Errorf("spool the input: %w", err)
	}
	in.file, err = mapfile.New(f.File)
	return in, err
}

// view calls fn with the whole input, which is gone when fn returns.
func (in *input) view(fn func(b []byte) error) error {
	if in.file == nil {
		return fn(in.data)
	}
	return in.file.View(in.from, in.file.Size()-in.from, fn)
}

func (in *input) close() (err error) {
	if in.file != nil {
		err = in.file.Close()
	}
	if in.temp != nil {
		err = errors.Join(err, in.temp.Close())
	}
	return err
}

// A contextReader fails when its context is done.
type contextReader struct {
	ctx context.Context //nolint:containedctx // it lives as long as the call that it is of
	r   io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// An errorReader keeps what its source failed with, and just ends.
type errorReader struct {
	r   io.Reader
	err error
}

func (r *errorReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err, err = err, io.EOF
	}
	return n, err
}
