package parquet

import (
	"context"
	"errors"
	"io"

	"github.com/entrace-go/entrace/internal/osfile"
)

// An input is a file that can be read at any place.
type input struct {
	r    io.ReaderAt
	size int64
	temp *osfile.Spool
}

// openInput makes an input of r, with a copy in a temporary file in dir unless r
// can be read at any place itself.
func openInput(ctx context.Context, r io.Reader, dir string) (*input, error) {
	if at, ok := r.(interface {
		io.ReaderAt
		io.Seeker
	}); ok {
		from, err := at.Seek(0, io.SeekCurrent)
		if err == nil {
			if end, err := at.Seek(0, io.SeekEnd); err == nil {
				size := max(end-from, 0)
				return &input{r: io.NewSectionReader(at, from, size), size: size}, nil
			}
		}
	}
	temp, err := osfile.CreateSpool(dir)
	if err != nil {
		return nil, err
	}
	in := &input{r: temp, temp: temp}
	if in.size, err = io.Copy(temp, &patient{ctx, r}); err != nil {
		return nil, errors.Join(err, in.close())
	}
	return in, nil
}

// close removes the copy.
func (in *input) close() error {
	if in.temp == nil {
		return nil
	}
	return in.temp.Close()
}

// A patient reader ends with its context.
type patient struct {
	ctx context.Context //nolint:containedctx // it is the context of one copy
	r   io.Reader
}

// Read reads from r.
func (p *patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}
