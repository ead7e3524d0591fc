// Package replay sends the spans and log records of a trace to an endpoint for OTLP over HTTP, like the recorded
// program itself. It can change the times and ids.
package replay

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/view"
)

const (
	// maxBatch is the maximum number of spans or log records in a request.
	maxBatch = 512
	// maxRequest is the maximum size of a request in bytes, before compression. A larger span is sent alone.
	maxRequest = 4 << 20
	// maxGathered is the maximum size of the messages that are encoded before they are sent.
	maxGathered = 16 << 20
	// pace is the length of a period of the replay whose records share one request, if Options.Speed is set.
	pace = 200 * time.Millisecond
)

// Options configure a replay.
type Options struct {
	Target *Target
	Shift  time.Duration // added to all times
	Key    []byte        // key of the hash that makes new ids; nil: the ids do not change
	Speed  float64       // 1: as fast as recorded; 2: twice as fast; 0: as fast as possible
	DryRun bool          // sends nothing

	Progress func(done, total int64) // called with the number of spans and log records so far, and their total; may be nil
}

// A Result counts the records that were sent and refused.
type Result struct {
	Spans, Logs               int64 // accepted by the endpoint, or ready to send in a dry run
	RefusedSpans, RefusedLogs int64
	Requests, Bytes           int64    // not counting retries; size before compression
	First, Last               int64    // the times of the first and the last record, as sent; 0 if unknown
	Messages                  []string // the first few different messages of the endpoint
}

// Refused returns how many spans and log records were refused.
func (r *Result) Refused() int64 { return r.RefusedSpans + r.RefusedLogs }

// add counts a request that was sent.
func (r *Result) add(s codec.Signal, c *change, refused int64, size int) {
	r.Requests++
	r.Bytes += int64(size)
	if s == codec.Logs {
		r.Logs += c.records - refused
		r.RefusedLogs += refused
	} else {
		r.Spans += c.records - refused
		r.RefusedSpans += refused
	}
	if c.first != 0 && (r.First == 0 || c.first < r.First) {
		r.First = c.first
	}
	r.Last = max(r.Last, c.last)
}

// maxMessages is the maximum number of messages in Result.Messages.
const maxMessages = 5

func (r *Result) message(text string) {
	if text != "" && len(r.Messages) < maxMessages && !slices.Contains(r.Messages, text) {
		r.Messages = append(r.Messages, text)
	}
}

// LastEnd returns the latest time at which a span ends or a log record is written, in nanoseconds since 1970. ok is
// false if no such time is known.
func LastEnd(v *view.View) (last int64, ok bool) {
	for r := range v.Rows() {
		if role := v.Role(r); role != view.RoleSpan && role != view.RoleLog {
			continue
		}
		if at, known := sentAt(v, r); known && (!ok || at > last) {
			last, ok = at, true
		}
	}
	return last, ok
}

// sentAt returns when the recorded program sent the row. A span is sent when it ends.
func sentAt(v *view.View, r view.Row) (at int64, ok bool) {
	at, ok = v.Start(r)
	if took, ended := v.Duration(r); ended {
		at += int64(took)
	}
	return at, ok
}

// Run sends the spans and log records of v. Refused records are not an error, but are counted. After an error, the
// result has the counts up to the error. If the endpoint cannot be reached, the error is ErrUnreachable.
func Run(ctx context.Context, v *view.View, o *Options) (*Result, error) {
	r := &replay{v: v, o: o, result: new(Result)}
	if o.Key != nil {
		r.ids = &ids{hash: hmac.New(sha256.New, o.Key)}
	}
	err := r.run(ctx)
	return r.result, err
}

// An item is a row, and when the recorded program sent it.
type item struct {
	at  int64
	row view.Row
}

type replay struct {
	v      *view.View
	o      *Options
	ids    *ids // nil: the ids do not change
	result *Result

	items       []item
	spans, logs []view.Row // rows for the next requests
	done        int64
	sender      sender
}

func (r *replay) run(ctx context.Context) error {
	r.plan()
	begun := time.Now()
	for i := range r.items {
		at := r.items[i].at
		if r.o.Speed > 0 && i > 0 && r.slot(at) != r.slot(r.items[i-1].at) {
			if err := r.sendAt(ctx, begun.Add(r.due(i-1))); err != nil {
				return err
			}
		}
		row := r.items[i].row
		list, s := &r.spans, codec.Spans
		if r.v.Role(row) == view.RoleLog {
			list, s = &r.logs, codec.Logs
		}
		*list = append(*list, row)
		if len(*list) == maxBatch {
			if err := r.send(ctx, list, s); err != nil {
				return err
			}
		}
	}
	return r.sendAt(ctx, begun.Add(r.due(len(r.items)-1)))
}

// due returns how long after the first item the replay sends item i.
func (r *replay) due(i int) time.Duration {
	if r.o.Speed == 0 || i < 0 {
		return 0
	}
	return time.Duration(float64(r.items[i].at-r.items[0].at) / r.o.Speed)
}

// slot returns the number of the period in which the replay sends a record of the time at. All records of a period
// are sent in one request.
func (r *replay) slot(at int64) int64 {
	return int64(float64(at-r.items[0].at) / (r.o.Speed * float64(pace)))
}

// plan sets the items, in the order of their entries. If Speed is set, they are sorted by time. A row without a time
// gets the time of the previous row, or, at the beginning, the time of the first row with a time.
func (r *replay) plan() {
	last, timed := int64(0), false
	for row := range r.v.Rows() {
		if role := r.v.Role(row); role != view.RoleSpan && role != view.RoleLog {
			continue
		}
		at, ok := sentAt(r.v, row)
		if ok {
			last = at
		}
		if ok && !timed {
			timed = true
			for i := range r.items {
				r.items[i].at = at
			}
		}
		r.items = append(r.items, item{last, row})
	}
	if r.o.Speed > 0 {
		slices.SortStableFunc(r.items, func(a, b item) int { return cmp.Compare(a.at, b.at) })
	}
}

// sendAt sends the gathered rows, but not before the given time.
func (r *replay) sendAt(ctx context.Context, at time.Time) error {
	if !r.o.DryRun {
		if err := sleep(ctx, time.Until(at)); err != nil {
			return err
		}
	}
	if err := r.send(ctx, &r.spans, codec.Spans); err != nil {
		return err
	}
	return r.send(ctx, &r.logs, codec.Logs)
}

// sleep waits for d. If ctx is done earlier, it returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// send sends the gathered rows of one signal.
func (r *replay) send(ctx context.Context, rows *[]view.Row, s codec.Signal) error {
	if len(*rows) == 0 {
		return nil
	}
	err := r.sendRows(ctx, *rows, s)
	r.done += int64(len(*rows))
	*rows = (*rows)[:0]
	if r.o.Progress != nil {
		r.o.Progress(r.done, int64(len(r.items)))
	}
	return err
}

// errTooMuch says that the rows are too large for one request.
var errTooMuch = errors.New("too much for one request")

// sendRows sends rows, in several requests if necessary.
func (r *replay) sendRows(ctx context.Context, rows []view.Row, s codec.Signal) error {
	signals := otlp.Traces
	if s == codec.Logs {
		signals = otlp.Logs
	}
	cut := &cutter{alone: len(rows) == 1}
	err := otlp.Encode(ctx, cut, r.v, &otlp.EncodeOptions{Protobuf: true, Signals: signals, Rows: slices.Values(rows)})
	if errors.Is(err, errTooMuch) {
		half := len(rows) / 2
		if err := r.sendRows(ctx, rows[:half], s); err != nil {
			return err
		}
		return r.sendRows(ctx, rows[half:], s)
	}
	for i := 0; i < len(cut.messages) && err == nil; i++ {
		err = r.post(ctx, s, cut.messages[i])
	}
	return err
}

// A cutter is a writer for a stream of messages, each after its size. It splits the stream into messages.
type cutter struct {
	alone    bool // the messages have a single row, whose size has no limit
	messages [][]byte
	size     int
	b        []byte // the bytes of an incomplete message
}

// Write implements io.Writer.
func (c *cutter) Write(p []byte) (int, error) {
	const head = 4
	c.size += len(p)
	if c.size > maxGathered && !c.alone {
		return 0, errTooMuch
	}
	c.b = append(c.b, p...)
	for len(c.b) >= head {
		end := head + int(binary.BigEndian.Uint32(c.b))
		if end-head > maxRequest && !c.alone {
			return 0, errTooMuch
		}
		if len(c.b) < end {
			break
		}
		c.messages = append(c.messages, c.b[head:end:end])
		c.b = c.b[end:]
	}
	return len(p), nil
}

// post changes and sends a message, and counts its accepted and refused records.
func (r *replay) post(ctx context.Context, s codec.Signal, message []byte) error {
	c := change{shift: r.o.Shift, ids: r.ids}
	c.message(message, requests[s])
	refused := int64(0)
	if !r.o.DryRun {
		a, err := r.sender.post(ctx, r.o.Target, s, message)
		if err != nil {
			return err
		}
		refused = min(max(a.rejected, 0), c.records)
		if a.refused {
			refused = c.records
		}
		r.result.message(a.message)
	}
	r.result.add(s, &c, refused, len(message))
	return nil
}
