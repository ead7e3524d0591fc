package heph

import (
	"strings"

	"github.com/entrace-go/entrace/format"
)

// isEncoded reports whether the input is what Encode wrote, and all of it: one
// epoch, a packet for each entry, and last the root's with the sum over the others.
func (d *decoder) isEncoded() bool {
	n := d.events.n
	if n == 0 || !d.lone || !d.signed || len(d.damage) > 0 || len(d.opts) != 1 || len(d.epochs) != 1 || d.opts[0].packet != 0 {
		return false
	}
	seen := make([]bool, n)
	for i := range uint32(n) {
		v := d.events.at(i)
		if v.span >= uint64(n) || seen[v.span] {
			return false
		}
		seen[v.span] = true
	}
	if n > 1 {
		return true
	}
	// Nothing but a plain root has no packets at all.
	ev, err := d.read(d.events.at(0))
	if err != nil {
		return false
	}
	e := new(format.TraceEntry)
	unpack(e, ev)
	return !isPlainRoot(e)
}

// restore writes the entries that Encode had.
func (d *decoder) restore() error {
	d.events.hang(d.epochs)
	order := make([]uint32, d.events.n)
	for i := range uint32(d.events.n) {
		order[d.events.at(i).span] = i
	}
	for number, i := range order {
		if number%4096 == 0 && d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		v := d.events.at(i)
		ev, err := d.read(v)
		if err != nil {
			return err
		}
		e := &d.entry
		p := unpack(e, ev)
		if p.time == "" {
			p.time = impliedTimes(ev.Start, ev.End)
		}
		e.Attributes = appendTimes(e.Attributes, ev, d.epochs[0], p.time)
		var up *pendingEvent
		if v.parent > 0 {
			// A parent that comes later is none, whoever wrote that.
			if up = d.events.at(v.parent - 1); up.span < v.span {
				e.Parent = uint32(up.span)
			} else {
				up = nil
			}
		}
		v.inherit(e, up)
		if v.entry, err = d.w.Write(e); err != nil {
			return err
		}
	}
	return nil
}

// inherit removes ids from e that its parent says, which is what they are in a file
// that was recorded, and notes those of e. From here on span is the number still,
// up the hash of the span's own id, trace that of its trace or of that above it.
func (v *pendingEvent) inherit(e *format.TraceEntry, up *pendingEvent) {
	v.up, v.trace = 0, 0
	var above pendingEvent
	if up != nil {
		above = *up
		v.trace = up.trace
	}
	trace := idOf(e, format.AttrTraceID, 32)
	span := idOf(e, format.AttrSpanID, 16)
	parent := idOf(e, format.AttrParentSpanID, 16)
	_, timed := e.Attribute(format.AttrTime)
	isLog := e.Message.Valid && strings.HasPrefix(e.Metadata.Name, "event")
	isSpan := !e.Message.Valid && span != 0 && timed
	if _, ok := e.Attribute(format.AttrTraceID); ok {
		v.trace = trace // or 0: an id that is written otherwise is not looked into
	}
	if isSpan {
		v.up = span
	}
	remove := func(name string) {
		for i := range e.Attributes {
			if e.Attributes[i].Name == name {
				e.Attributes = append(e.Attributes[:i], e.Attributes[i+1:]...)
				return
			}
		}
	}
	sameTrace := trace != 0 && trace == above.trace
	if isSpan && parent != 0 && parent == above.up {
		remove(format.AttrParentSpanID)
	}
	if isLog && span != 0 && span == above.up && sameTrace {
		remove(format.AttrSpanID)
	}
	if (isSpan || isLog) && sameTrace {
		remove(format.AttrTraceID)
	}
}
