package analyze

import (
	"cmp"
	"encoding/hex"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/view"
)

// A CriticalPath describes what a span waited for. For each moment of the span, it holds the deepest descendant
// that the span was waiting for, or the span itself if it was not waiting. The path is inferred from the times of
// the spans, because a trace does not record which span waited for another.
type CriticalPath struct {
	Span     view.Row `json:"span"`
	Inferred bool     `json:"inferred"` // true: the path is inferred from times; in a [MeasuredPath] it is false
	Open     bool     `json:"open"`     // the span has not ended: the path leads to the last time in the trace
	From     int64    `json:"from_unix_nano"`
	Duration int64    `json:"duration_nano"`
	// Steps cover the whole time without gaps, in chronological order.
	Steps []Step `json:"steps"`
	// Async lists the asynchronous spans below Span, the longest first. These are spans that ended
	// after their parent, or have not ended. Their parent cannot have waited for all of them.
	Async []view.Row `json:"async"`
}

// A Step is a period in which a span of the path did not wait for another span.
type Step struct {
	From     int64    `json:"from_unix_nano"`
	Duration int64    `json:"duration_nano"`
	Depth    int      `json:"depth"`           // number of levels below the span of the path
	Span     view.Row `json:"span" null:"yes"` // 0 for a goroutine that worked for no span
	// Beside lists the links and log records right below the span that name another span. Their
	// times are within the step. A link without a time is in the first step of its span.
	Beside []view.Row `json:"beside"`
	// State and Goroutine say what the goroutine did; they are set only in a measured path.
	State     string `json:"state,omitzero"`
	Goroutine int64  `json:"goroutine,omitzero"`
	Count     int    `json:"count,omitzero"` // the number of spans, if steps are joined
}

// To is the end of the step.
func (s *Step) To() int64 { return s.From + s.Duration }

// Critical returns the critical path of the span at row r. It returns false if r is not a span or
// has no time. It takes O(n log n) time for n rows below r.
//
// The path is found backwards from the end of the span. There it goes into the child that ended last. At the start of
// this child, it goes into the sibling that ended last before the start, and so on.
func Critical(v *view.View, r view.Row) (*CriticalPath, bool) {
	start, timed := v.Start(r)
	if v.Role(r) != view.RoleSpan || !timed {
		return nil, false
	}
	c := critical{v: v, path: &CriticalPath{Span: r, Inferred: true, From: start}}
	took, ended := v.Duration(r)
	if ended && start+int64(took) >= start {
		c.path.Duration = int64(took)
	} else {
		c.path.Open = true
		c.path.Duration = max(start, lastBelow(v, r)) - start
	}
	c.find()
	c.findAsync()
	return c.path, true
}

// findAsync finds the asynchronous spans.
func (c *critical) findAsync() {
	v := c.v
	for r := range Subtree(v, c.path.Span) {
		up := v.Parent(r)
		start, timed := v.Start(r)
		begun, _ := v.Start(up)
		whole, over := v.Duration(up)
		if r == c.path.Span || v.Role(r) != view.RoleSpan || v.Role(up) != view.RoleSpan || !timed || !over {
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

// lastBelow returns the last time of row r and all rows below it.
func lastBelow(v *view.View, r view.Row) int64 {
	last := int64(math.MinInt64)
	for row := range Subtree(v, r) {
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

// A waiting is a span of the path during the search. The path between from and to is not yet found. The children
// are in the order of their ends.
type waiting struct {
	row      view.Row
	from, to int64 // the path after to is already found
	children []child
}

type child struct {
	row      view.Row
	from, to int64
}

func (c *critical) find() {
	p := c.path
	c.push(p.Span, p.From, p.From+p.Duration)
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
		if last.to > top.to || last.to <= top.from { // the child overlaps a child on the path, or ended before from
			continue
		}
		c.step(top, last.to)
		from := max(last.from, top.from)
		top.to = from
		c.push(last.row, from, last.to) // top is invalid after this call
	}
	slices.Reverse(p.Steps)
	c.beside()
}

// step adds a step to the path. The step lasts from the given time to at.to. The path before the step is not yet
// found.
func (c *critical) step(at *waiting, from int64) {
	if from < at.to || at.row == c.path.Span && c.path.Duration == 0 {
		c.path.Steps = append(c.path.Steps, Step{Span: at.row, Depth: len(c.stack) - 1, From: from, Duration: at.to - from})
	}
	at.to = from
}

// push puts a span on the stack. It leaves out asynchronous children, which end after the span.
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
			until = to // neither the child nor the span has ended
		case !ended || until > end || until < start:
			continue // the child is asynchronous
		}
		children = append(children, child{kid, start, until})
	}
	// If several children end together, the path goes to the child that began last, and then to the others.
	slices.SortStableFunc(children, func(a, b child) int {
		return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from))
	})
	c.stack = append(c.stack, waiting{row: r, from: from, to: to, children: children})
}

// beside sets the Beside of the steps.
func (c *critical) beside() {
	steps := c.path.Steps
	byRow := make(map[view.Row][]int)
	for i := range steps {
		byRow[steps[i].Span] = append(byRow[steps[i].Span], i)
	}
	for r, at := range byRow {
		for _, kid := range c.v.Children(r) {
			role := c.v.Role(kid)
			if role != view.RoleLink && role != view.RoleLog || !c.namesSpan(kid, role) {
				continue
			}
			i := 0 // the step for a link without a time
			if time, timed := c.v.Start(kid); timed {
				i, _ = slices.BinarySearchFunc(at, time, func(i int, time int64) int { return cmp.Compare(steps[i].To(), time) })
				if i == len(at) || steps[at[i]].From > time {
					continue
				}
			}
			steps[at[i]].Beside = append(steps[at[i]].Beside, kid)
		}
	}
}

// namesSpan reports whether a link, or an attribute of a log record, names a span in the view other
// than its own span.
func (c *critical) namesSpan(r view.Row, role view.Role) bool {
	e, err := c.v.Entry(r)
	if err != nil {
		return false
	}
	if role == view.RoleLink {
		trace, _ := e.Attribute(mapping.AttrLinkTraceID)
		span, _ := e.Attribute(mapping.AttrLinkSpanID)
		return SpanNamed(c.v, trace.Text(), span.Text()) != 0
	}
	trace := c.v.TraceID(r)
	own := c.v.Ref(r).SpanID
	for _, a := range e.UserAttributes() {
		if a.Value.Kind() == format.KindString && a.Value.Text() != hex.EncodeToString(own[:]) && SpanNamed(c.v, hex.EncodeToString(trace[:]), a.Value.Text()) != 0 {
			return true
		}
	}
	return false
}

// SpanNamed returns the row of the span with the given ids in hexadecimal digits, or 0 if there is none.
func SpanNamed(v *view.View, trace, span string) view.Row {
	t, ok := wire.ParseID[[16]byte](trace)
	s, ok2 := wire.ParseID[[8]byte](span)
	if !ok || !ok2 {
		return 0
	}
	r, _ := v.Span(format.SpanRef{TraceID: t, SpanID: s})
	return r
}
