// Package replay sends the spans and log records of a trace to an endpoint that takes OTLP over
// HTTP, as the program that was recorded would have, also later, or with other ids.
package replay

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/view"
)

const (
	// maxBatch is how many spans or log records a request has at most.
	maxBatch = 512
	// maxRequest is how many bytes, before compression. One span that is larger goes alone.
	maxRequest = 4 << 20
	// maxGathered is how many bytes of messages are made before they are sent.
	maxGathered = 16 << 20
	// pace is how far apart records are that one request takes along with --speed.
	pace = 200 * time.Millisecond
)

// Options say what is sent, and how.
type Options struct {
	Target *Target
	Shift  time.Duration // is added to all times
	Key    []byte        // new ids are a hash of the old ones with this key; nil: the ids stay
	Speed  float64       // 1: as fast as it was recorded; 0: as fast as it goes
	DryRun bool          // sends nothing

	Progress func(done, total int64) // counts spans and log records; may be nil
}

// A Result says what became of what was sent.
type Result struct {
	Spans, Logs               int64 // that were taken, or would have been sent
	RefusedSpans, RefusedLogs int64
	Requests, Bytes           int64    // without those that were sent again, and before compression
	First, Last               int64    // the times of the first and the last record as they were sent; 0: none
	Messages                  []string // the first ones of the endpoint, each once
}

// Refused returns how many spans and log records were refused.
func (r *Result) Refused() int64 { return r.RefusedSpans + r.RefusedLogs }

// add counts a request.
func (r *Result) add(s signal, c *change, refused int64, size int) {
	r.Requests++
	r.Bytes += int64(size)
	if s == logs {
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

// maxMessages is how many messages of an endpoint are kept.
const maxMessages = 5

func (r *Result) message(text string) {
	if text != "" && len(r.Messages) < maxMessages && !slices.Contains(r.Messages, text) {
		r.Messages = append(r.Messages, text)
	}
}

// LastEnd returns when the last span ends, or the last log record is written, in nanoseconds since
// 1970, and whether there is one.
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

// sentAt returns when the program that was recorded sent a row: a span when it ended.
func sentAt(v *view.View, r view.Row) (at int64, ok bool) {
	at, ok = v.Start(r)
	if took, ended := v.Duration(r); ended {
		at += int64(took)
	}
	return at, ok
}

// Run sends the spans and log records of v. What is refused is counted and no error. After an error
// the result says what was sent until then. An endpoint that cannot be reached is ErrUnreachable.
func Run(ctx context.Context, v *view.View, o *Options) (*Result, error) {
	r := &replay{v: v, o: o, result: new(Result)}
	if o.Key != nil {
		r.ids = newIDs(o.Key)
	}
	err := r.run(ctx)
	return r.result, err
}

// An item is a row that is sent at some time.
type item struct {
	at  int64
	row view.Row
}

type replay struct {
	v      *view.View
	o      *Options
	ids    *ids // nil: they stay
	result *Result

	items       []item
	spans, logs []view.Row // of the next requests
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
		list, s := &r.spans, traces
		if r.v.Role(row) == view.RoleLog {
			list, s = &r.logs, logs
		}
		if *list = append(*list, row); len(*list) == maxBatch {
			if err := r.send(ctx, list, s); err != nil {
				return err
			}
		}
	}
	return r.sendAt(ctx, begun.Add(r.due(len(r.items)-1)))
}

// due returns when item i is sent, after the first one.
func (r *replay) due(i int) time.Duration {
	if r.o.Speed == 0 || i < 0 {
		return 0
	}
	return time.Duration(float64(r.items[i].at-r.items[0].at) / r.o.Speed)
}

// slot numbers the spaces of time whose records go in one request.
func (r *replay) slot(at int64) int64 {
	return int64(float64(at-r.items[0].at) / (r.o.Speed * float64(pace)))
}

// plan sets the items: in the order of their entries, or, to be sent as they were recorded, of their
// times. A row without a time goes with the one before it, or else with the first that has one.
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

// sendAt sends what is gathered, not before a time.
func (r *replay) sendAt(ctx context.Context, at time.Time) error {
	if !r.o.DryRun {
		if err := sleep(ctx, time.Until(at)); err != nil {
			return err
		}
	}
	if err := r.send(ctx, &r.spans, traces); err != nil {
		return err
	}
	return r.send(ctx, &r.logs, logs)
}

// sleep waits, and returns the error of ctx if that is done before.
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

// send sends the gathered rows of a signal.
func (r *replay) send(ctx context.Context, rows *[]view.Row, s signal) error {
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

// errTooMuch is why rows are not sent together.
var errTooMuch = errors.New("too much for one request")

// sendRows sends rows in as many requests as it takes.
func (r *replay) sendRows(ctx context.Context, rows []view.Row, s signal) error {
	signals := otlp.Traces
	if s == logs {
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

// A cutter is a writer of messages that each have their size before them.
type cutter struct {
	alone    bool // they are of one row, whatever its size
	messages [][]byte
	size     int
	b        []byte // of a message that is not whole yet
}

// Write implements io.Writer.
func (c *cutter) Write(p []byte) (int, error) {
	const head = 4
	if c.size += len(p); c.size > maxGathered && !c.alone {
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

// post sends a message, and counts what becomes of it.
func (r *replay) post(ctx context.Context, s signal, message []byte) error {
	c := change{shift: r.o.Shift, ids: r.ids}
	c.message(message, requests[s])
	refused := int64(0)
	if !r.o.DryRun {
		a, err := r.sender.post(ctx, r.o.Target, s, message)
		if err != nil {
			return err
		}
		if refused = min(max(a.rejected, 0), c.records); a.refused {
			refused = c.records
		}
		r.result.message(a.message)
	}
	r.result.add(s, &c, refused, len(message))
	return nil
}
