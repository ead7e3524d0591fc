package foreign

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/sink"
	"github.com/entrace-go/entrace/internal/read/input"
)

// A spool holds the entries of all records until the last record is known, because a parent may come last. It is a
// [sink.Source].
type spool struct {
	out   sink.Writer
	known otel.Resources
	in    *input.Input // the encoded records
	size  int64        // of in
	buf   []byte       // the record that is being encoded
	b     []byte       // the content of in, when it is complete
	entry format.TraceEntry
}

const (
	// spooled is the version in which entries are encoded. It keeps the order of attributes.
	spooled = format.V1
	// maxRecord is the maximum size of a span or log record. It is well below the largest entry that readers of
	// traces accept.
	maxRecord = 32 << 20
)

// Write writes records to w: the root, the resources, and then spans and log records in the order of the input, except
// that a parent is written before its children. Equal resources are written once. After an [input.Error], Write
// continues with the next record. It returns the first error.
func Write(ctx context.Context, w *format.Writer, records iter.Seq2[*Record, error]) (err error) {
	if _, err := w.Write(format.Root()); err != nil {
		return err
	}
	s := spool{out: sink.Writer{Index: new(sink.Index), To: w}, in: input.New("")}
	s.out.Source = &s
	defer func() { err = errors.Join(err, s.in.Close()) }()
	var damage error
	for r, err := range records {
		if err == nil {
			err = s.add(r)
		}
		damage = cmp.Or(damage, err)
		if _, ofRecord := errors.AsType[*input.Error](err); err != nil && !ofRecord {
			break
		}
	}
	if err := s.in.Seal(); err != nil {
		return err
	}
	return cmp.Or(s.in.View(func(b []byte) error { return s.write(ctx, b) }), damage)
}

// add adds the records of r. It writes the resource to the trace at once.
func (s *spool) add(r *Record) (err error) {
	normalize(r.Resource.Attributes)
	holder, err := s.known.WriteFor(s.out.To, &r.Resource)
	if err != nil {
		return err
	}
	ix := s.out.Index
	for _, span := range r.Spans {
		settleSpan(span)
		s.buf = binary.AppendUvarint(s.buf[:0], uint64(1+len(span.Links)+len(span.Events)))
		_ = span.Each(&s.entry, otel.Where{}, s.encode) // encode returns no error
		at, rerr := s.store(r)
		if rerr == nil {
			ix.Span(at, &span.TraceID, &span.SpanID, &span.Parent)
		}
		err = cmp.Or(err, rerr)
	}
	if l := r.Log; l != nil {
		settleLog(l)
		s.buf = binary.AppendUvarint(s.buf[:0], 1)
		l.Fill(&s.entry, otel.Where{})
		_ = s.encode(&s.entry)
		at, rerr := s.store(r)
		if rerr == nil {
			ix.Log(at, &l.TraceID, &l.SpanID)
		}
		err = rerr
	}
	ix.Origin(holder)
	return err
}

func (s *spool) encode(e *format.TraceEntry) error {
	s.buf = format.AppendTraceEntry(s.buf, spooled, e)
	return nil
}

// store adds the record in buf, which is part of r, to the input of the second reading. It returns the offset of the
// record in that input.
func (s *spool) store(r *Record) (at int64, err error) {
	if len(s.buf) > maxRecord {
		tooLarge := r.at
		tooLarge.Err = format.ErrTooLarge
		return 0, &tooLarge
	}
	at = s.size
	s.size += int64(len(s.buf))
	return at, s.in.Add(s.buf)
}

func (s *spool) write(ctx context.Context, b []byte) error {
	s.b = b
	for i := range s.out.Index.Len() {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.out.Write(i); err != nil {
			return err
		}
	}
	input.Repeated(ctx, s.out.Repeated)
	return nil
}

// Read implements [sink.Source].
func (s *spool) Read(r *sink.Record, at otel.Where, write func(e *format.TraceEntry) error) error {
	n, size := binary.Uvarint(s.b[r.Off:])
	rest := s.b[r.Off+int64(size):]
	for i := range n {
		size, err := format.DecodeTraceEntry(rest, spooled, &s.entry)
		if err != nil {
			return err
		}
		rest = rest[size:]
		if i == 0 && at.Parent {
			s.entry.Attributes = slices.DeleteFunc(s.entry.Attributes, func(a format.Attribute) bool {
				return a.Name == format.AttrTraceID || a.Name == format.AttrParentSpanID || a.Name == format.AttrSpanID && r.IsLog
			})
		}
		if err := write(&s.entry); err != nil {
			return err
		}
	}
	return nil
}

// Note implements [sink.Source]. It returns false, because entries that this package encoded are not damaged.
func (s *spool) Note(error) bool { return false }

// settleSpan changes s to the form in which package otlp reads a span, so that all formats give the same entries.
func settleSpan(s *otel.Span) {
	s.Name = wire.ValidText(s.Name)
	end := int64(0)
	if s.Ended {
		end = s.End()
	}
	s.SetTimes(uint64(s.Start), uint64(end))
	normalize(s.Attributes)
	normalize(s.Scope.Attributes)
	s.TakeMarks()
	for i := range s.Links {
		normalize(s.Links[i].Attributes)
	}
	for i := range s.Events {
		ev := &s.Events[i]
		ev.HasTime = ev.Time != 0
		normalize(ev.Attributes)
	}
}

// settleLog is like settleSpan, for a log record.
func settleLog(l *otel.Log) {
	if l.Body.Kind == otel.String {
		l.Body.Text = wire.ValidText(l.Body.Text)
	}
	l.HasTime = l.Time != 0
	normalize(l.Attributes)
	normalize(l.Scope.Attributes)
	l.TakeMarks()
}

// normalize makes texts that are not UTF-8 bytes, and gives attributes with the same name the same encoding.
func normalize(attrs otel.Attributes) {
	for i := range attrs {
		a := &attrs[i]
		a.Name = wire.ValidText(a.Name)
		if text := a.Value.Text(); a.Encoding == otel.Native && !wire.IsValid(text) {
			a.Value = format.BytesValue([]byte(text))
		}
	}
	attrs.Unify()
}
