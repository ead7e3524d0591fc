package otlp

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/view"
)

// Signals selects the signals that [Encode] writes.
type Signals uint8

// The signals. The zero Signals means both.
const (
	Traces Signals = iota + 1
	Logs
)

// EncodeOptions control how [Encode] works.
type EncodeOptions struct {
	// Protobuf chooses protobuf messages, each after its size in four bytes, big endian. The default is JSON, one
	// message per line.
	Protobuf bool
	// Signals selects which signals are written. The default is both: one file then has messages of spans and
	// messages of log records. Some readers cannot read such a file, especially in protobuf.
	Signals Signals
	// Rows are the rows whose spans and log records are written, in this order. The default is all rows in the order
	// of their entries.
	Rows iter.Seq[view.Row]
}

const (
	// maxBatch is the maximum number of spans or log records in a message.
	maxBatch = 512
	// maxBatchSize is the size in bytes at which a message gets no more records.
	maxBatchSize = 2 << 20
	// maxWorkers is the maximum number of goroutines that encode messages.
	maxWorkers = 8
)

// Encode writes the spans and log records of v to w. A message has at most 512 spans or log records, grouped by
// resource and scope. A nil o means defaults. Several goroutines encode messages, and memory holds at most three
// messages for each goroutine. Only the caller's goroutine calls w, once for each message.
func Encode(ctx context.Context, w io.Writer, v *view.View, o *EncodeOptions) error {
	if o == nil {
		o = &EncodeOptions{}
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	workers := min(runtime.GOMAXPROCS(0), maxWorkers, 1+v.Len()/maxBatch)
	q := queue{w: w, ahead: make(chan *job, 2*workers), used: make(chan []byte, 2*workers)}
	defer close(q.ahead)
	for range workers {
		e := encoder{ctx: ctx, v: v, rows: v.NewReader(), kids: v.NewReader(), used: q.used, enc: codec.JSON}
		if o.Protobuf {
			e.enc = codec.Protobuf
		}
		group.Go(func() {
			for j := range q.ahead {
				j.err = e.job(j)
				close(j.messages)
			}
		})
	}
	jobs := [...]*job{codec.Spans: newJob(codec.Spans), codec.Logs: newJob(codec.Logs)}
	rows, n := o.Rows, 0
	if rows == nil {
		rows = v.Rows()
	}
	for r := range rows {
		if n%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		n++
		signal := codec.Spans
		switch role := v.Role(r); {
		case role == view.RoleSpan && o.Signals != Logs:
		case role == view.RoleLog && o.Signals != Traces:
			signal = codec.Logs
		default:
			continue
		}
		j := jobs[signal]
		j.rows = append(j.rows, r)
		if len(j.rows) == maxBatch {
			if err := q.add(j); err != nil {
				return err
			}
			jobs[signal] = newJob(signal)
		}
	}
	for _, j := range jobs {
		if err := q.add(j); err != nil {
			return err
		}
	}
	for len(q.jobs) > 0 {
		if err := q.write(); err != nil {
			return err
		}
	}
	return nil
}

// A job holds the rows for a message, or for several messages if the rows are large.
type job struct {
	signal   codec.Signal
	rows     []view.Row
	messages chan []byte
	err      error // set before messages is closed
}

func newJob(s codec.Signal) *job { return &job{signal: s, messages: make(chan []byte, 1)} }

// A queue writes the messages of jobs in the order in which put was called.
type queue struct {
	w     io.Writer
	jobs  []*job
	ahead chan *job   // jobs for the encoders
	used  chan []byte // buffers of messages that were written, for reuse
}

// add adds a job. If there are many jobs, it first writes the oldest job.
func (q *queue) add(j *job) error {
	for len(q.jobs) == cap(q.ahead) {
		if err := q.write(); err != nil {
			return err
		}
	}
	q.jobs = append(q.jobs, j)
	q.ahead <- j
	return nil
}

// write writes the messages of the oldest job.
func (q *queue) write() error {
	j := q.jobs[0]
	q.jobs = q.jobs[1:]
	for b := range j.messages {
		if _, err := q.w.Write(b); err != nil {
			return err
		}
		if cap(b) <= 4*maxBatchSize {
			select {
			case q.used <- b:
			default:
			}
		}
	}
	return j.err
}

// An encoder encodes the messages for jobs.
type encoder struct {
	ctx        context.Context //nolint:containedctx // the context of the one call for which the encoder exists
	v          *view.View
	rows, kids *view.Reader
	read       otel.Reader
	enc        codec.Encoding
	used       chan []byte

	batch batch
}

// job encodes the rows of j, and sends the messages to j.messages.
func (e *encoder) job(j *job) (err error) {
	for _, r := range j.rows {
		if j.signal == codec.Spans {
			err = e.span(r)
		} else {
			err = e.log(r)
		}
		if err != nil {
			return err
		}
		if e.batch.size >= maxBatchSize {
			if err := e.flush(j); err != nil {
				return err
			}
		}
	}
	return e.flush(j)
}

// A batch holds the records of one message.
type batch struct {
	groups []codec.Group
	rows   []view.Row                   // for each group, a row of its resource
	scopes map[string]*codec.ScopeGroup // by resource and scope
	size   int                          // size of the records in bytes
	key    []byte
	last   *codec.ScopeGroup // the group that belongs to key
	free   [][]byte          // buffers for reuse
}

func (e *encoder) span(r view.Row) error {
	entry, err := e.rows.WithoutIDs(r) // formatting ids in hex would take longer than all other attributes
	if err != nil {
		return err
	}
	s := e.read.Span(entry, e.parent(r))
	if s.TraceID == ([16]byte{}) {
		s.TraceID = e.v.TraceID(r)
	}
	s.AddMarks()
	to, err := e.group(r, &s.Scope)
	if err != nil {
		return err
	}
	from := len(to.Records)
	b := e.enc.AppendSpan(to.Records, s)
	kids := e.v.Children(r)
	slices.Sort(kids) // in the order of their entries
	for _, role := range [...]view.Role{view.RoleLink, view.RoleEvent} {
		first := true
		for i, kid := range kids {
			if e.v.Role(kid) != role {
				continue
			}
			if i%256 == 255 && e.ctx.Err() != nil {
				return e.ctx.Err()
			}
			entry, err := e.kids.Entry(kid)
			if err != nil {
				return err
			}
			if role == view.RoleLink {
				l := e.read.Link(entry)
				b = e.enc.AppendLink(b, &l, first)
			} else {
				ev := e.read.Event(entry)
				b = e.enc.AppendEvent(b, &ev, first)
			}
			first = false
		}
		if !first {
			b = e.enc.EndList(b)
		}
	}
	to.Records = e.enc.EndSpan(b, from)
	e.batch.size += len(to.Records) - from
	return nil
}

// parent returns the ids of the parent of row r, if the parent is a span. Both halves of a span that client and
// server share have the same parent.
func (e *encoder) parent(r view.Row) (up format.SpanRef) {
	parent := e.v.Parent(r)
	if e.v.Role(parent) != view.RoleSpan {
		return up
	}
	up = e.kids.Ref(parent)
	if e.v.Flags(r).Kind() == "server" && e.v.Flags(parent).Kind() == "client" && up == e.kids.Ref(r) {
		return e.parent(parent)
	}
	return up
}

func (e *encoder) log(r view.Row) error {
	entry, err := e.rows.Entry(r)
	if err != nil {
		return err
	}
	l := e.read.Log(entry)
	l.AddMarks()
	to, err := e.group(r, &l.Scope)
	if err != nil {
		return err
	}
	from := len(to.Records)
	to.Records = e.enc.AppendLog(to.Records, l)
	e.batch.size += len(to.Records) - from
	return nil
}

// flush sends the message of the batch if there are records in it.
func (e *encoder) flush(j *job) error {
	if e.batch.size == 0 {
		return nil
	}
	var b []byte
	select {
	case b = <-e.used:
	default:
	}
	if e.enc == codec.JSON {
		b = append(e.enc.AppendMessage(b[:0], j.signal, e.batch.groups), '\n')
	} else {
		b = e.enc.AppendMessage(append(b[:0], 0, 0, 0, 0), j.signal, e.batch.groups)
		binary.BigEndian.PutUint32(b, uint32(len(b)-sizeSize))
	}
	e.batch.reset()
	select {
	case j.messages <- b:
		return nil
	case <-e.ctx.Done():
		return e.ctx.Err()
	}
}

// group returns the group for a record of row r with scope s.
func (e *encoder) group(r view.Row, s *otel.Scope) (*codec.ScopeGroup, error) {
	to := &e.batch
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
	at := slices.Index(to.rows, resource)
	if at < 0 {
		at = len(to.rows)
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
	entry, err := e.v.Entry(r)
	if err != nil {
		return nil, err
	}
	to.last = &codec.ScopeGroup{Scope: otel.ReadSpan(entry, format.SpanRef{}).Scope} // a copy, because s is soon invalid
	if n := len(to.free); n > 0 {
		to.last.Records, to.free = to.free[n-1][:0], to.free[:n-1]
	}
	to.scopes[string(key)] = to.last
	to.groups[at].Scopes = append(to.groups[at].Scopes, to.last)
	return to.last, nil
}

// reset empties b. It keeps some buffers for reuse if they are not too large.
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
	b.size, b.last = 0, nil
}

// appendScopeKey appends bytes that identify a resource and scope.
func appendScopeKey(b []byte, resource uint32, s *otel.Scope) []byte {
	text := func(t string) {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(t))), t...)
	}
	b = binary.LittleEndian.AppendUint32(b, resource)
	text(s.Name)
	text(s.Version)
	text(s.SchemaURL)
	b = binary.LittleEndian.AppendUint32(b, s.Dropped)
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
		b[mark] = byte(len(b) - mark) // the value is a number, so its length fits in a byte
	}
	return b
}
