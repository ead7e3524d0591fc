package query

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/view"
)

// A CriticalPath says what a span waited for, as far as times tell: at each moment the deepest of
// the spans below it without which it would have ended earlier. It is inferred: nothing in a
// trace says who waited for whom.
type CriticalPath struct {
	Span     view.Row
	From, To int64
	// Open reports that the span has not ended: To is the last time in the trace.
	Open bool
	// Steps follow each other without a gap from From to To.
	Steps []Step
	// Async are the spans somewhere below that go on behind the end of the one that they are
	// right below, or have not ended, so that it cannot have waited for all of them; the longest
	// first.
	Async []view.Row
}

// A Step is a time in which a span of the path was not waiting for another one.
type Step struct {
	Row      view.Row
	Depth    int // below Span
	From, To int64
	// Beside are links of the span and log records right below it, in that time, that name
	// another span.
	Beside []view.Row
}

// Critical returns the critical path of the span at row r, and whether there is one: whether r is
// a span and has a time. It takes n log n steps for n rows below r.
//
// The path is found backwards: from the end of a span it leads to the child that ended last, to
// its end, then from the child's start to the child that ended last before that, and so on.
func Critical(v *view.View, r view.Row) (*CriticalPath, bool) {
	start, timed := v.Start(r)
	if v.Role(r) != view.RoleSpan || !timed {
		return nil, false
	}
	c := critical{v: v, path: &CriticalPath{Span: r, From: start}}
	took, ended := v.Duration(r)
	if ended && start+int64(took) >= start {
		c.path.To = start + int64(took)
	} else {
		c.path.Open = true
		c.path.To = max(start, lastBelow(v, r))
	}
	c.find()
	c.findAsync()
	return c.path, true
}

// findAsync finds the asynchronous spans.
func (c *critical) findAsync() {
	v, t := c.v, c.v.Tree()
	for rank := t.Rank(c.path.Span) + 1; rank < t.End(c.path.Span); rank++ {
		r := t.Row(rank)
		up := v.Parent(r)
		start, timed := v.Start(r)
		begun, _ := v.Start(up)
		whole, over := v.Duration(up)
		if v.Role(r) != view.RoleSpan || v.Role(up) != view.RoleSpan || !timed || !over {
			continue
		}
		if took, ended := v.Duration(r); !ended || start+int64(took) > begun+int64(whole) {
			c.path.Async = append(c.path.Async, r)
		}
	}
	slices.SortStableFunc(c.path.Async, func(a, b view.Row) int {
		x, _ := v.Duration(a)
		y, _ := v.Duration(b)
		return cmp.Compare(y, x)
	})
}

// lastBelow returns the last time of what is at or below row r.
func lastBelow(v *view.View, r view.Row) int64 {
	last := int64(math.MinInt64)
	t := v.Tree()
	for rank := t.Rank(r); rank < t.End(r); rank++ {
		row := t.Row(rank)
		if at, ok := v.Start(row); ok {
			took, _ := v.Duration(row)
			last = max(last, at, at+int64(took))
		}
	}
	return last
}

type critical struct {
	v     *view.View
	path  *CriticalPath
	stack []waiting
}

// A waiting is a span of the path, of which the time between from and to is looked at, and its
// children in the order of their ends.
type waiting struct {
	row      view.Row
	from, to int64 // what is behind to is done
	children []child
}

type child struct {
	row      view.Row
	from, to int64
}

func (c *critical) find() {
	p := c.path
	c.push(p.Span, p.From, p.To)
	for len(c.stack) > 0 {
		top := &c.stack[len(c.stack)-1]
		n := len(top.children)
		if n == 0 || top.to <= top.from {
			c.step(top, top.from)
			c.stack = c.stack[:len(c.stack)-1]
			continue
		}
		last := top.children[n-1]
		top.children = top.children[:n-1]
		if last.to > top.to || last.to <= top.from { // another one was waited for then; or before
			continue
		}
		c.step(top, last.to)
		from := max(last.from, top.from)
		top.to = from
		c.push(last.row, from, last.to) // top is not valid any more
	}
	slices.Reverse(p.Steps)
	c.beside()
}

// step is what a span of the path did itself behind from. What it did before is to be found.
func (c *critical) step(at *waiting, from int64) {
	if from < at.to || at.row == c.path.Span && c.path.From == c.path.To {
		c.path.Steps = append(c.path.Steps, Step{Row: at.row, Depth: len(c.stack) - 1, From: from, To: at.to})
	}
	at.to = from
}

// push puts a span on the stack. Children that go on behind its end are asynchronous.
func (c *critical) push(r view.Row, from, to int64) {
	end := to
	took, over := c.v.Duration(r)
	if over {
		start, _ := c.v.Start(r)
		end = start + int64(took)
	}
	var children []child
	for _, kid := range c.v.Children(r) {
		start, timed := c.v.Start(kid)
		if c.v.Role(kid) != view.RoleSpan || !timed {
			continue
		}
		took, ended := c.v.Duration(kid)
		until := start + int64(took)
		switch {
		case !ended && !over:
			until = to // both are still at it
		case !ended || until > end || until < start:
			continue // it is asynchronous
		}
		children = append(children, child{kid, start, until})
	}
	// Of those that end together the one that began last was waited for, and then the others.
	slices.SortStableFunc(children, func(a, b child) int {
		return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from))
	})
	c.stack = append(c.stack, waiting{row: r, from: from, to: to, children: children})
}

// beside finds what names another span beside the steps.
func (c *critical) beside() {
	steps := c.path.Steps
	byRow := make(map[view.Row][]int)
	for i := range steps {
		byRow[steps[i].Row] = append(byRow[steps[i].Row], i)
	}
	for r, at := range byRow {
		for _, kid := range c.v.Children(r) {
			role := c.v.Role(kid)
			if role != view.RoleLink && role != view.RoleLog || !c.namesSpan(kid, role) {
				continue
			}
			i := 0 // of a link without a time
			if time, timed := c.v.Start(kid); timed {
				i, _ = slices.BinarySearchFunc(at, time, func(i int, time int64) int { return cmp.Compare(steps[i].To, time) })
				if i == len(at) || steps[at[i]].From > time {
					continue
				}
			}
			steps[at[i]].Beside = append(steps[at[i]].Beside, kid)
		}
	}
}

// namesSpan reports whether a link, or an attribute of a log record, is the id of a span that is
// there, other than the one that it is below.
func (c *critical) namesSpan(r view.Row, role view.Role) bool {
	e, err := c.v.Entry(r)
	if err != nil {
		return false
	}
	if role == view.RoleLink {
		trace, _ := e.Attribute(mapping.AttrLinkTraceID)
		span, _ := e.Attribute(mapping.AttrLinkSpanID)
		return c.isSpan(trace.Text(), span.Text())
	}
	trace := c.v.TraceID(r)
	own := c.v.Ref(r).SpanID
	for _, a := range e.UserAttributes() {
		if a.Value.Kind() == format.KindString && a.Value.Text() != hex.EncodeToString(own[:]) && c.isSpan(hex.EncodeToString(trace[:]), a.Value.Text()) {
			return true
		}
	}
	return false
}

func (c *critical) isSpan(trace, span string) bool {
	t, ok := wire.ParseID[[16]byte](trace)
	s, ok2 := wire.ParseID[[8]byte](span)
	if !ok || !ok2 {
		return false
	}
	_, there := c.v.Span(format.SpanRef{TraceID: t, SpanID: s})
	return there
}
