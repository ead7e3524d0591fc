package control

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
)

// An openTree holds the spans that are open at one moment, by their ids.
type openTree map[format.SpanRef]*openSpan

// An openSpan is a span of an openTree.
type openSpan struct {
	name     string
	parent   format.SpanRef // zero: the span has no parent in this process
	children int            // number of open children
	child    format.SpanRef // the last open child that was found
}

// openTree returns the spans that are open.
func (w *watchdog) openTree() openTree {
	t := make(openTree)
	w.each(time.Now(), func(name string, span, parent format.SpanRef, _ time.Time) bool {
		t[span] = &openSpan{name: name, parent: parent}
		return true
	})
	for ref, s := range t {
		if up := t[s.parent]; up != nil {
			up.children++
			up.child = ref
		}
	}
	return t
}

// innermost follows the open spans from ref downward, as long as each has exactly one open child. It
// returns the last span of this chain.
func (t openTree) innermost(ref format.SpanRef) format.SpanRef {
	for range t {
		s := t[ref]
		if s == nil || s.children != 1 {
			break
		}
		ref = s.child
	}
	return ref
}

// request returns the span that began the part of a trace in this process, and its name. It returns the zero SpanRef
// if no such span, or more than one, is open.
func (t openTree) request(trace [16]byte) (root format.SpanRef, name string) {
	for ref, s := range t {
		if ref.TraceID != trace || s.parent.IsValid() {
			continue
		}
		if root.IsValid() {
			return format.SpanRef{}, ""
		}
		root, name = ref, s.name
	}
	return root, name
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
