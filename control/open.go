package control

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
)

// An openTree holds the spans that are open at a moment.
type openTree map[format.SpanRef]*openSpan

// An openSpan is one of them.
type openSpan struct {
	name     string
	parent   format.SpanRef // zero: it begins a local trace
	children int            // that are open
	child    format.SpanRef // one of them
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

// innermost returns the last span of the chain that begins with ref, in which each has one child.
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

// request returns the span that began the local part of a trace, and its name; the zero SpanRef if
// none that is open did, or several.
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

// explain adds to the reason of a trace the request and the trace of its span and, if the span does not
// end, the place where it waits.
func (t *Trace) explain(open openTree, d *dumps) {
	r := &t.Request
	if !r.Span.IsValid() {
		return
	}
	if r.Trigger == TriggerWatchdog {
		in := open.innermost(r.Span)
		if in != r.Span {
			r.Reason += ", now in " + open[in].name
		}
		if place := d.place(in); place != "" {
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

// place returns the function and line of the goroutine of a span, from the dump of the goroutines. It is
// "" if the dump has no such goroutine or several.
func (d *dumps) place(ref format.SpanRef) (place string) {
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
