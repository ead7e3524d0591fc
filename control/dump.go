package control

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/write/safecall"
)

// dumpTime is the maximum duration of a call of Dump.
const dumpTime = 5 * time.Second

// dumps holds the entries that calls of Dump wrote for one trace.
type dumps struct {
	open func() openTree // returns the open spans

	mu     sync.Mutex
	closed bool
	list   []dumped
	size   int
	errs   []dumpError
}

type dumped struct {
	p   record.Provider
	ref format.SpanRef
	at  time.Time
	e   *format.TraceEntry
}

type dumpError struct {
	p   Set
	err error
}

// maxDump is the maximum total size in bytes of the dumps for one trace.
const maxDump = 128 << 20

// dump calls the Dump functions of a trace's providers.
func (c *Control) dump(t *Trace) *dumps {
	d := &dumps{open: sync.OnceValue(c.watchdog.openTree)}
	for _, m := range c.members {
		on := m.Provides & t.tc.Providers
		if m.Dump == nil || on == 0 || c.isOff(m) {
			continue
		}
		if m.busy.Swap(true) {
			d.errs = append(d.errs, dumpError{on, errors.New("the previous call of Dump has not returned")})
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), dumpTime)
		done := make(chan error, 1)
		go func() { // on its own goroutine, because Dump may never return
			defer m.busy.Store(false)
			done <- safecall.Run(func() error { return m.Dump(ctx, &Session{On: on, Params: t.tc.Params, write: d.add, open: d.open}) })
		}()
		var err error
		select {
		case err = <-done:
		case <-ctx.Done():
			select {
			case err = <-done:
			case <-time.After(dumpTime / 10):
				err = ctx.Err()
			}
		}
		cancel()
		if err != nil {
			d.errs = append(d.errs, dumpError{on, err})
		}
	}
	return d
}

// isOff reports whether m failed.
func (c *Control) isOff(m *member) bool {
	c.calling.Lock()
	defer c.calling.Unlock()
	return m.err != nil
}

func (d *dumps) add(p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
	size := len(e.Message.Value) + 64
	for i := range e.Attributes {
		size += len(e.Attributes[i].Name) + len(e.Attributes[i].Value.Text()) + 32
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	d.size += size
	if d.size > maxDump {
		return fmt.Errorf("the dump is larger than %d bytes", maxDump)
	}
	d.list = append(d.list, dumped{p, ref, at, e.Clone()})
	return nil
}

// write writes the entries and errors of the dumps to a trace.
func (d *dumps) write(t *Trace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, e := range d.list {
		_ = traces.WriteTimed(t.rec, e.p, e.ref, e.at, e.e) // the recorder counts an entry that fails
	}
	d.list = nil
	for _, e := range d.errs {
		t.off(e.p, e.err)
	}
}

// waitsAt returns the function and line in which the goroutine of the span ref waits, from the dump of the
// goroutines. It returns "" if the dump has no such goroutine, or more than one.
func (d *dumps) waitsAt(ref format.SpanRef) (place string) {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.list {
		e := &d.list[i]
		if e.p != Goroutines.number() || e.ref != ref {
			continue
		}
		if place != "" {
			return ""
		}
		place = e.e.Message.Value
		stack, _ := e.e.Attribute("stack")
		for line := range strings.Lines(stack.Text()) {
			if at, ok := strings.CutPrefix(line, place+" "); ok {
				place += " " + path.Base(strings.TrimSpace(at))
				break
			}
		}
	}
	return place
}

// explain adds to the reason of a trace: the name of the request and the trace id of the span, and for the
// trigger watchdog also the function in which the span waits.
func (t *Trace) explain(open openTree, d *dumps) {
	r := &t.Request
	if !r.Span.IsValid() {
		return
	}
	if r.Trigger == TriggerWatchdog {
		in := open.innermost(r.Span)
		place := d.waitsAt(in)
		switch own := d.waitsAt(r.Span); {
		case in == r.Span:
		case place == "" && own != "": // perhaps another goroutine works for the inner span
			r.Reason += ", at " + own + ", and " + open[in].name + " below it"
		default:
			r.Reason += ", now in " + open[in].name
		}
		if place != "" {
			r.Reason += ", at " + place
		}
	}
	of := fmt.Sprintf("trace %x", r.Span.TraceID)
	if root, name := open.request(r.Span.TraceID); root.IsValid() && root != r.Span {
		r.request = name
	}
	if r.request != "" {
		of = "request " + r.request + ", " + of
	}
	r.Reason += " (" + of + ")"
}
