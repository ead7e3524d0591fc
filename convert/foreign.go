package convert

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/view"
)

// A Decoder reads a trace in another format from r, which may be an [io.ReaderAt]
// and an [io.Seeker], too, and writes its entries to w, the root first. The
// packages below this one have such functions.
type Decoder func(ctx context.Context, r io.Reader, w *format.Writer) error

// An Encoder writes a trace to w in another format.
type Encoder func(ctx context.Context, w io.Writer, v *view.View) error

// FileFrom converts the file in, which d reads, to the trace file out, as [File]
// does. An input that is damaged, or stops in the middle, gives an output of what
// was whole before that, if more than the root was, and the error that d returns.
func FileFrom(ctx context.Context, in, out string, d Decoder, o Options) error {
	src, err := openForeign(in)
	if err != nil {
		return err
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	if err := checkOutput(fi, out, o.Replace); err != nil {
		return err
	}
	tmp, err := osfile.CreateTemp(out)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	damage, err := StreamFrom(ctx, tmp, counted(src, fi.Size(), o.Progress), d, o)
	if err != nil {
		return fmt.Errorf("convert %s: %w", in, err)
	}
	if err := commit(tmp, out, o.Replace); err != nil {
		return err
	}
	if damage != nil {
		return fmt.Errorf("convert %s: %w", in, damage)
	}
	return nil
}

func openForeign(name string) (*os.File, error) {
	f, err := osfile.OpenRead(name)
	if errors.Is(err, osfile.ErrNotRegular) {
		err = fmt.Errorf("%s: %w", name, format.ErrNotRegular)
	}
	return f, err
}

// StreamFrom converts what d reads from r to w. The damage is what is wrong with
// the input: what was whole before it is in w. After any other error w is of no
// use.
func StreamFrom(ctx context.Context, w io.Writer, r io.Reader, d Decoder, o Options) (damage, err error) {
	out, err := format.NewWriter(w, o.Version, o.Format, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Abort() }() // if a callback panics
	damage = d(ctx, r, out)
	switch {
	case ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), out.Abort())
	case out.Flush() != nil:
		return nil, errors.Join(damage, out.Close())
	}
	if damage != nil && out.Len() <= 1 {
		return nil, errors.Join(damage, out.Abort()) // nothing was whole
	}
	return damage, out.Close()
}

// FileTo converts the trace file in, of any format that [Open] reads, to the file out, which e
// writes, as [File] does. An input that is damaged gives an output of what is whole before
// that, and an error that says where it is.
func FileTo(ctx context.Context, in, out string, e Encoder, o Options) error {
	t, err := Open(ctx, []string{in}, &OpenOptions{Progress: o.Progress})
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.EncodeFile(ctx, out, e, o); err != nil {
		return fmt.Errorf("convert %s: %w", in, err)
	}
	if damage := t.Damage(); damage != nil {
		return fmt.Errorf("convert %s: %w", in, damage)
	}
	return nil
}

// EncodeFile writes the trace to the file out as e has it. The output appears under its name
// when it is complete and synced. What is damaged in the trace is no error of it.
func (t *Trace) EncodeFile(ctx context.Context, out string, e Encoder, o Options) error {
	return t.writeFile(out, o.Replace, func(w io.Writer) error { return t.Encode(ctx, w, e) })
}

// Encode writes the trace to w as e has it.
func (t *Trace) Encode(ctx context.Context, w io.Writer, e Encoder) error {
	b := bufio.NewWriterSize(w, 256<<10)
	if err := e(ctx, b, t.View()); err != nil {
		return err
	}
	return b.Flush()
}

// writeFile makes the file out, which write fills.
func (t *Trace) writeFile(out string, replace bool, write func(w io.Writer) error) error {
	if err := t.checkOutput(out, replace); err != nil {
		return err
	}
	tmp, err := osfile.CreateTemp(out)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	if err := write(tmp); err != nil {
		return err
	}
	return commit(tmp, out, replace)
}

// counted returns src so that progress is told how much was read.
func counted(src *os.File, total int64, progress func(done, total int64)) io.Reader {
	if progress == nil {
		return src
	}
	return &counter{File: src, total: total, progress: progress}
}

// A counter is a file that tells how much was read of it.
type counter struct {
	*os.File

	done, total int64
	progress    func(done, total int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	c.done += int64(n)
	c.progress(min(c.done, c.total), c.total) // some read it twice
	return n, err
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.File.ReadAt(p, off)
	c.done += int64(n)
	c.progress(min(c.done, c.total), c.total)
	return n, err
}

// WriteTo hides the one of the file, which would pass by Read.
func (c *counter) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{c})
}
