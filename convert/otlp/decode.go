package otlp

import (
	"context"
	"errors"
	"io"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/sink"
	"github.com/entrace-go/entrace/internal/read/input"
)

// DecodeOptions control how [Decode] works.
type DecodeOptions struct {
	// TempDir is the folder for the copy of an input that is larger than 8 MiB and not a regular file. The default
	// is os.TempDir().
	TempDir string
}

// Decode reads OTLP from r, in either encoding and of either signal, and writes it to w. It writes the root, the
// resources, and then spans and log records in the order of the input, except that a parent is written before its
// children. A nil o means defaults. Decode does not close w.
//
// Decode reads r to its end. It maps a large [*os.File], which nobody may change during the call, and copies other
// large inputs to a temporary file. In memory it needs about 64 bytes per span and 24 bytes per log record.
//
// If the input is damaged, the error is an *Error of package convert, which names the first damaged message. If the
// input ends too early, the error is [format.ErrTruncated]. In both cases Decode writes all complete spans and log
// records before the damage, including those in the damaged message. If a record has an invalid value, only this record
// is missing. After other damage, Decode continues with the next message, even if that message begins on the same line
// as the damaged message. An error of r other than [io.EOF] ends the input and is returned.
func Decode(ctx context.Context, r io.Reader, w *format.Writer, o *DecodeOptions) error {
	if o == nil {
		o = &DecodeOptions{}
	}
	// The output is encoded into the buffer of w, so that no part of a mapped input is passed to a system call.
	return input.View(ctx, r, o.TempDir, func(in *input.Input, b []byte) error { return decode(ctx, b, w, in.Progress) })
}

func decode(ctx context.Context, b []byte, w *format.Writer, progress func(done int64)) (err error) {
	ix := new(sink.Index)
	ix.Reset(b)
	d := decoder{ix: ix, out: sink.Writer{Index: ix, To: w}, budget: scopesFloor + scopesFactor*int64(len(b))}
	d.out.Source = &d
	d.check = func() error {
		d.calls++
		if d.calls%256 != 1 {
			return nil
		}
		return ctx.Err()
	}
	if _, err := w.Write(format.Root()); err != nil {
		return err
	}
	d.in, err = newMessages(b)
	if err != nil {
		return err
	}
	d.r = codec.NewReader(b, d.in.encoding)
	if err := d.in.walk(d.r, ix, d.check); err != nil && !d.Note(err) {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.resources(); err != nil {
		return err
	}
	for i := range ix.Len() {
		if err := d.check(); err != nil {
			return err
		}
		off := ix.Record(i).Off
		if d.damage != nil && d.in.begins(off) {
			continue
		}
		err := d.out.Write(i)
		if errors.Is(err, errScopes) {
			d.Note(&codec.Error{Offset: off, Err: format.ErrTooLarge})
			break
		}
		if err != nil {
			return err
		}
		if i%4096 == 0 {
			progress(off)
		}
	}
	input.Repeated(ctx, d.out.Repeated)
	if d.damage == nil {
		return nil
	}
	return d.damage
}

// A decoder reads an input for the second time. It is a [sink.Source].
type decoder struct {
	ix    *sink.Index
	out   sink.Writer
	in    *messages
	r     *codec.Reader
	calls uint
	check func() error

	unread []error      // by number of a resource: the error of reading it
	damage *input.Error // the damage with the lowest offset
	scopes [64]cachedScope
	budget int64     // the number of bytes of scopes that may still be written
	spanOf otel.Span // the current record
	logOf  otel.Log
	entry  format.TraceEntry // the entry that is being written
}

// Each entry has a copy of its scope, which the input has only once. Without these limits, the size of the output
// and the running time could grow with the square of the input size.
const (
	scopesFloor  = 64 << 20
	scopesFactor = 256
)

// errScopes says that the output was cut, because its scopes are larger than scopesFloor and scopesFactor allow.
var errScopes = errors.New("the output would be too large, because each record repeats its scope")

// Note reports whether err is damage of the input. If so, Note keeps the damage with the lowest offset, and the rest
// of the input is still read.
func (d *decoder) Note(err error) bool {
	damage, ok := errors.AsType[*input.Error](err)
	if e, isOf := errors.AsType[*codec.Error](err); isOf {
		damage, ok = d.in.damage(e, d.in.number(e.Offset)), true
	}
	if ok && (d.damage == nil || damage.Offset < d.damage.Offset) {
		d.damage = damage
	}
	return ok
}

// A cachedScope is a scope that was read recently.
type cachedScope struct {
	number uint32
	valid  bool
	scope  otel.Scope
	err    error // the error of reading the scope
}

// resources writes all resources. Equal resources are written once, even if they are encoded differently.
func (d *decoder) resources() error {
	var written otel.Resources
	var r otel.Resource
	heads := d.ix.Resources()
	d.out.Holders, d.unread = make([]uint32, len(heads)), make([]error, len(heads))
	for i := range heads {
		if err := d.check(); err != nil {
			return err
		}
		if err := d.r.Resource(&heads[i], &r); err != nil {
			d.Note(err)
			d.unread[i] = err
			continue
		}
		var err error
		d.out.Holders[i], err = written.WriteFor(d.out.To, &r)
		if err != nil {
			return err
		}
	}
	return nil
}

// Read implements [sink.Source].
func (d *decoder) Read(r *sink.Record, at otel.Where, write func(e *format.TraceEntry) error) error {
	n, h := d.ix.Scope(r)
	d.budget -= h.Size()
	if d.budget < 0 {
		return errScopes
	}
	scope, err := d.scope(n, h)
	if err != nil {
		return err
	}
	if err := d.unread[d.ix.Resource(r)]; err != nil {
		return err
	}
	if r.IsLog {
		if err := d.r.Log(r.Off, &d.logOf); err != nil {
			return err
		}
		d.logOf.Scope = *scope
		d.logOf.Fill(&d.entry, at)
		return write(&d.entry)
	}
	if err := d.r.Span(r.Off, &d.spanOf); err != nil {
		return err
	}
	d.spanOf.Scope = *scope
	return d.spanOf.Each(&d.entry, at, write)
}

// scope returns scope n, whose head is h.
func (d *decoder) scope(n uint32, h *codec.Head) (*otel.Scope, error) {
	c := &d.scopes[n%uint32(len(d.scopes))]
	if !c.valid || c.number != n {
		c.err = d.r.Scope(h, &c.scope)
		c.number, c.valid = n, true
	}
	return &c.scope, c.err
}
