package otlp

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/codec"
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
// large inputs to a temporary file. In memory it needs about 64 bytes per span and 24 per log record.
//
// If the input is damaged, the error is an *Error of package convert, which names the first damaged message. If the
// input ends too early, the error is [format.ErrTruncated]. In both cases Decode writes all whole spans and log
// records before the damage, even those of the damaged message. If a record has an invalid value, only this record
// is missing. After other damage, Decode continues with the next message, also if it begins on the line on which the
// damaged one was cut.
// An error of r other than [io.EOF] ends the input and is returned.
func Decode(ctx context.Context, r io.Reader, w *format.Writer, o *DecodeOptions) error {
	if o == nil {
		o = &DecodeOptions{}
	}
	// The output is encoded into the buffer of w, so that no part of a mapped input is passed to a system call.
	return input.View(ctx, r, o.TempDir, func(in *input.Input, b []byte) error { return decode(ctx, b, w, in.Progress) })
}

func decode(ctx context.Context, b []byte, w *format.Writer, progress func(done int64)) (err error) {
	d := decoder{w: w, ix: &index{b: b, groupOf: make(map[group]uint32), twice: make(map[uint32]bool)}, sent: make(map[sending]*record), budget: scopesFloor + scopesFactor*int64(len(b))}
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
	if err := d.in.walk(d.r, d.ix, d.check); err != nil && !d.note(err) {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.resources(); err != nil {
		return err
	}
	for i := range d.ix.records.Len() {
		if err := d.check(); err != nil {
			return err
		}
		r := d.ix.records.At(i)
		if d.damage != nil && d.in.begins(r.off) {
			continue
		}
		err := d.write(r)
		if errors.Is(err, errScopes) {
			d.note(&codec.Error{Offset: r.off, Err: format.ErrTooLarge})
			break
		}
		if err != nil && !d.note(err) {
			return err
		}
		if i%4096 == 0 {
			progress(r.off)
		}
	}
	if d.damage == nil {
		return nil
	}
	return d.damage
}

// A decoder reads an input for the second time.
type decoder struct {
	w     *format.Writer
	ix    *index
	in    *messages
	r     *codec.Reader
	calls uint
	check func() error

	holders []holder
	damage  *input.Error // the damage with the lowest offset
	scopes  [64]cachedScope
	budget  int64 // how many bytes of scopes may still be written
	stack   []*record
	sent    map[sending]*record // the spans that were written and whose ids a later span has, too
	spanOf  otel.Span           // the current record
	logOf   otel.Log
	entry   format.TraceEntry // the entry that is being written
}

// Each entry has a copy of its scope, which the input has only once. Without these limits, the size of the output
// and the running time could grow with the square of the input size.
const (
	scopesFloor  = 64 << 20
	scopesFactor = 256
)

// errScopes says that the output was cut, because scopes are larger in it than scopesFloor and scopesFactor allow.
var errScopes = errors.New("the output would be too large, because each record repeats its scope")

// note reports whether err is damage of the input, and if so keeps the damage with the lowest offset. The rest of
// the input is still read.
func (d *decoder) note(err error) bool {
	damage, ok := errors.AsType[*input.Error](err)
	if e, isOf := errors.AsType[*codec.Error](err); isOf {
		damage, ok = d.in.damage(e, d.in.number(e.Offset)), true
	}
	if ok && (d.damage == nil || damage.Offset < d.damage.Offset) {
		d.damage = damage
	}
	return ok
}

// A holder is the entry of a resource, or the error of reading the resource.
type holder struct {
	id  uint32
	err error
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
	for i := range d.ix.holders.all {
		if err := d.check(); err != nil {
			return err
		}
		if err := d.r.Resource(&d.ix.holders.all[i], &r); err != nil {
			d.note(err)
			d.holders = append(d.holders, holder{err: err})
			continue
		}
		id := uint32(0)
		if len(r.Attributes) > 0 || r.SchemaURL != "" || r.Dropped > 0 { // an empty resource needs no entry
			var err error
			id, err = written.Write(d.w, r.Entry())
			if err != nil {
				return err
			}
		}
		d.holders = append(d.holders, holder{id: id})
	}
	return nil
}

// write writes the record r, and before it those of its ancestors that were not yet written.
func (d *decoder) write(r *record) error {
	if r.state == written || r.state == failed {
		return nil
	}
	r.state = waiting
	d.stack = d.stack[:0]
	for up := d.parent(r); up != nil && up.state == pending; up = d.parent(up) {
		up.state = waiting // so that the loop ends if spans are each other's ancestors
		d.stack = append(d.stack, up)
	}
	for _, up := range slices.Backward(d.stack) {
		if err := d.writeOne(up); err != nil {
			if !d.note(err) {
				return err
			}
			up.state = failed
		}
	}
	return d.writeOne(r)
}

// parent returns the record of the span below which r is written, or nil if r has no parent with the same resource:
// an entry is always written below its own resource. In a view, such a record is below its real parent.
func (d *decoder) parent(r *record) *record {
	up := d.ix.parent(r)
	if up == nil || d.holder(up).id != d.holder(r).id {
		return nil
	}
	return up
}

func (d *decoder) holder(r *record) *holder { return &d.holders[d.ix.groups[r.group].resource] }

func (d *decoder) writeOne(r *record) (err error) {
	h := &d.ix.scopes.all[d.ix.groups[r.group].scope]
	d.budget -= h.Size()
	if d.budget < 0 {
		return errScopes
	}
	scope, err := d.scope(d.ix.groups[r.group].scope)
	if err != nil {
		return err
	}
	var where otel.Where
	holder := d.holder(r)
	if holder.err != nil {
		return holder.err
	}
	parent := holder.id
	if up := d.parent(r); up != nil && up.state == written {
		parent = up.id
		where = otel.Where{Trace: true, Parent: true}
	}
	e := &d.entry
	if r.log {
		if err := d.r.Log(r.off, &d.logOf); err != nil {
			return err
		}
		d.logOf.Scope = *scope
		d.logOf.Fill(e, where)
	} else {
		if err := d.r.Span(r.off, &d.spanOf); err != nil {
			return err
		}
		if first := d.sentBefore(r); first != nil {
			r.id, r.state = first.id, written
			return nil
		}
		d.spanOf.Scope = *scope
		d.spanOf.Fill(e, where)
	}
	e.Parent = parent
	r.id, err = d.w.Write(e)
	if err != nil {
		return err
	}
	r.state = written
	if r.log {
		return nil
	}
	for i := range d.spanOf.Links {
		d.spanOf.Links[i].Fill(e, scope.Name)
		e.Parent = r.id
		if _, err := d.w.Write(e); err != nil {
			return err
		}
	}
	for i := range d.spanOf.Events {
		d.spanOf.Events[i].Fill(e, scope.Name)
		e.Parent = r.id
		if _, err := d.w.Write(e); err != nil {
			return err
		}
	}
	return nil
}

// sentBefore returns the record of an earlier span with the ids, the resource, the kind, the start and the end of r.
// Senders that get no answer send their spans again.
func (d *decoder) sentBefore(r *record) *record {
	if len(d.ix.twice) == 0 {
		return nil
	}
	s := &d.spanOf
	n := d.ix.slots.all.At(int(d.ix.slot(&s.TraceID, &s.SpanID))).record
	if !d.ix.twice[n] {
		return nil
	}
	now := sending{n, d.holder(r).id, s.Kind, s.Ended, s.Start, s.Duration}
	first := d.sent[now]
	if first == nil {
		d.sent[now] = r
	}
	return first
}

// scope returns scope n.
func (d *decoder) scope(n uint32) (*otel.Scope, error) {
	c := &d.scopes[n%uint32(len(d.scopes))]
	if !c.valid || c.number != n {
		c.err = d.r.Scope(&d.ix.scopes.all[n], &c.scope)
		c.number, c.valid = n, true
	}
	return &c.scope, c.err
}
