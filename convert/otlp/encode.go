package otlp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otlp/codec"
	"github.com/entrace-go/entrace/view"
)

// Signals says which of the signals [Encode] writes.
type Signals uint8

// The signals.
const (
	AllSignals Signals = iota
	Traces
	Logs
)

// EncodeOptions change how [Encode] works.
type EncodeOptions struct {
	// Protobuf chooses messages of protobuf, each behind its size in four bytes,
	// big endian. The default is JSON, a message a line.
	Protobuf bool
	// Signals are what is written. The default is all: messages of spans and
	// messages of log records in one file. Not every reader tells them apart,
	// least of all in protobuf.
	Signals Signals
}

const (
	// maxBatch is how many spans or log records one message has at most.
	maxBatch = 512
	// maxBatchSize is the size in bytes from which on it takes no more of them.
	maxBatchSize = 2 << 20
	// bufferSize is that of the output's buffer.
	bufferSize = 128 << 10
)

// Encode writes the spans and log records of v to w, in the order of their
// entries, up to 512 of them a message, in which they are grouped by resource and
// scope. A nil o means defaults. It holds one message in memory.
func Encode(ctx context.Context, w io.Writer, v *view.View, o *EncodeOptions) error {
	if o == nil {
		o = &EncodeOptions{}
	}
	out := bufio.NewWriterSize(w, bufferSize)
	e := encoder{v: v, ids: v.NewReader(), w: out, enc: codec.JSON}
	if o.Protobuf {
		e.enc = codec.Protobuf
	}
	for r := range v.Rows() {
		if r%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		var err error
		switch role := v.Role(r); {
		case role == view.RoleSpan && o.Signals != Logs:
			err = e.span(ctx, r)
		case role == view.RoleLog && o.Signals != Traces:
			err = e.log(r)
		}
		if err != nil {
			return err
		}
	}
	if err := e.flush(&e.spans, false); err != nil {
		return err
	}
	if err := e.flush(&e.logs, true); err != nil {
		return err
	}
	return out.Flush()
}

type encoder struct {
	v   *view.View
	ids *view.Reader
	w   *bufio.Writer
	enc codec.Encoding

	spans, logs batch
	out         []byte
}

// A batch is the records of one message.
type batch struct {
	groups []codec.Group
	rows   []view.Row                   // of the groups' resources
	scopes map[string]*codec.ScopeGroup // by resource and scope
	count  int
	size   int
	key    []byte
	last   *codec.ScopeGroup // that of key
	free   [][]byte          // buffers to use again
}

func (e *encoder) span(ctx context.Context, r view.Row) error {
	entry, err := e.v.Entry(r)
	if err != nil {
		return err
	}
	s := otel.ReadSpan(entry, e.parent(r))
	s.AddMarks()
	to, err := e.batch(&e.spans, r, &s.Scope)
	if err != nil {
		return err
	}
	from := len(to.Records)
	b := e.enc.AppendSpan(to.Records, s)
	kids := e.v.Children(r)
	slices.Sort(kids) // in the order in which they were written
	first := true
	for i, kid := range kids {
		if e.v.Role(kid) != view.RoleLink {
			continue
		}
		if i%256 == 255 && ctx.Err() != nil {
			return ctx.Err()
		}
		entry, err := e.v.Entry(kid)
		if err != nil {
			return err
		}
		l := otel.ReadLink(entry)
		b = e.enc.AppendLink(b, &l, first)
		first = false
	}
	if !first {
		b = e.enc.EndList(b)
	}
	first = true
	for i, kid := range kids {
		if e.v.Role(kid) != view.RoleEvent {
			continue
		}
		if i%256 == 255 && ctx.Err() != nil {
			return ctx.Err()
		}
		entry, err := e.v.Entry(kid)
		if err != nil {
			return err
		}
		ev := otel.ReadEvent(entry)
		b = e.enc.AppendEvent(b, &ev, first)
		first = false
	}
	if !first {
		b = e.enc.EndList(b)
	}
	to.Records = e.enc.EndSpan(b, from)
	return e.added(&e.spans, len(to.Records)-from, false)
}

// parent returns the span right above row r.
func (e *encoder) parent(r view.Row) (up format.SpanRef) {
	if parent := e.v.Parent(r); e.v.Role(parent) == view.RoleSpan {
		up = e.ids.Ref(parent)
	}
	return up
}

func (e *encoder) log(r view.Row) error {
	entry, err := e.v.Entry(r)
	if err != nil {
		return err
	}
	l := otel.ReadLog(entry)
	l.AddMarks()
	to, err := e.batch(&e.logs, r, &l.Scope)
	if err != nil {
		return err
	}
	from := len(to.Records)
	to.Records = e.enc.AppendLog(to.Records, l)
	return e.added(&e.logs, len(to.Records)-from, true)
}

// added counts a record of so many bytes.
func (e *encoder) added(to *batch, size int, logs bool) error {
	to.count++
	to.size += size
	if to.count < maxBatch && to.size < maxBatchSize {
		return nil
	}
	return e.flush(to, logs)
}

// flush writes the message of a batch, if there is something in it.
func (e *encoder) flush(from *batch, logs bool) error {
	if from.count == 0 {
		return nil
	}
	signal := codec.Spans
	if logs {
		signal = codec.Logs
	}
	if e.enc == codec.JSON {
		e.out = append(e.enc.AppendMessage(e.out[:0], signal, from.groups), '\n')
	} else {
		e.out = e.enc.AppendMessage(append(e.out[:0], 0, 0, 0, 0), signal, from.groups)
		binary.BigEndian.PutUint32(e.out, uint32(len(e.out)-sizeSize))
	}
	from.reset()
	_, err := e.w.Write(e.out)
	if cap(e.out) > 4*maxBatchSize {
		e.out = nil
	}
	return err
}

// batch returns where the record of row r, of that scope, is to be appended.
func (e *encoder) batch(to *batch, r view.Row, s *otel.Scope) (*codec.ScopeGroup, error) {
	resource := e.v.Resource(r)
	var scratch [256]byte
	key := appendScopeKey(scratch[:0], uint32(resource), s)
	if to.last != nil && bytes.Equal(key, to.key) {
		return to.last, nil
	}
	to.key = append(to.key[:0], key...)
	if known, ok := to.scopes[string(key)]; ok {
		to.last = known
		return known, nil
	}
	if to.scopes == nil {
		to.scopes = make(map[string]*codec.ScopeGroup)
	}
	at := 0
	for at < len(to.groups) && to.rows[at] != resource {
		at++
	}
	if at == len(to.groups) {
		of := new(otel.Resource)
		if resource != 0 {
			entry, err := e.v.Entry(resource)
			if err != nil {
				return nil, err
			}
			of = otel.ReadResource(entry)
		}
		to.groups = append(to.groups, codec.Group{Resource: of})
		to.rows = append(to.rows, resource)
	}
	to.last = &codec.ScopeGroup{Scope: *s}
	if n := len(to.free); n > 0 {
		to.last.Records, to.free = to.free[n-1][:0], to.free[:n-1]
	}
	to.scopes[string(key)] = to.last
	to.groups[at].Scopes = append(to.groups[at].Scopes, to.last)
	return to.last, nil
}

// reset empties a batch. It keeps a few buffers that are not too large.
func (b *batch) reset() {
	for i := range b.groups {
		for _, s := range b.groups[i].Scopes {
			if len(b.free) < 8 && cap(s.Records) <= maxBatchSize {
				b.free = append(b.free, s.Records)
			}
		}
	}
	clear(b.groups)
	b.groups, b.rows = b.groups[:0], b.rows[:0]
	clear(b.scopes)
	b.count, b.size, b.last = 0, 0, nil
}

// appendScopeKey appends bytes that tell one resource and scope from another.
func appendScopeKey(b []byte, resource uint32, s *otel.Scope) []byte {
	text := func(t string) {
		n := len(t)
		b = append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
		b = append(b, t...)
	}
	b = append(b, byte(resource), byte(resource>>8), byte(resource>>16), byte(resource>>24))
	text(s.Name)
	text(s.Version)
	text(s.SchemaURL)
	b = append(b, byte(s.Dropped), byte(s.Dropped>>8), byte(s.Dropped>>16), byte(s.Dropped>>24))
	for i := range s.Attributes {
		a := &s.Attributes[i]
		text(a.Name)
		b = append(b, byte(a.Value.Kind()), byte(a.Encoding))
		if a.Value.Kind() <= format.KindBytes {
			text(a.Value.Text())
			continue
		}
		v := a.Any()
		mark := len(b)
		b = otel.AppendAnyValue(append(b, 0), &v)
		b[mark] = byte(len(b) - mark) // short: a number
	}
	return b
}
