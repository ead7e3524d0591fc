package viewer

import (
	"context"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/read/columns"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// cutSize is the largest number of bytes of a value in an answer, unless the request has the parameter all.
const cutSize = 16 << 10

// A linked is a link of a span.
type linked struct {
	Trace      string      `json:"trace"`
	Span       string      `json:"span"`
	To         *place      `json:"to"` // the linked span; nil if the trace does not have it
	Attributes []attribute `json:"attributes" null:"yes"`
}

// details holds everything about a row. Times are whole numbers of nanoseconds. The page reads them as
// bigint, because a JavaScript number cannot hold all of them.
type details struct {
	Row         view.Row     `json:"row"`
	ID          string       `json:"id"`
	Role        string       `json:"role"`
	Name        string       `json:"name"`
	Message     *string      `json:"message"`
	Level       string       `json:"level"`
	Kind        string       `json:"kind"`
	Status      string       `json:"status"`
	Description string       `json:"description"`
	Exception   *exception   `json:"exception"` // the first exception of a span that failed
	Inner       *place       `json:"inner"`     // the innermost failed span below this failed span, with its error message
	Target      string       `json:"target"`
	File        string       `json:"file"`
	Line        uint32       `json:"line"`
	Service     string       `json:"service"`
	Trace       string       `json:"trace"`
	Span        string       `json:"span"`
	Start       analyze.Time `json:"start_unix_nano"`
	Took        *int64       `json:"took_nano"` // for an open span, how long it has been open at least
	Self        *int64       `json:"self_nano"`
	Open        bool         `json:"open"`
	Path        []place      `json:"path"`
	Below       int          `json:"below"`
	Logs        int          `json:"logs"` // number of log records and events at and below the row
	Attributes  []attribute  `json:"attributes"`
	Resource    []attribute  `json:"resource" null:"yes"`
	Links       []linked     `json:"links"`
	Stacks      []stack      `json:"stacks"`             // the latest stacks of a span that has not ended
	Talk        bool         `json:"talk"`               // the row or a row below it is part of a conversation with a model
	StacksOf    string       `json:"stacksOf,omitempty"` // if Stacks belong to a span above this one: the name of that span
}

// An exception is an event with the reason why a span failed.
type exception struct {
	Row     view.Row `json:"row"`
	Type    string   `json:"type"`
	Message string   `json:"message"`
	Stack   string   `json:"stack"`
}

// addException adds the first exception among the children of the span at row r.
func (d *details) addException(v *view.View, r view.Row, most int) error {
	for kid := range v.Tree().Children(r) {
		if v.Role(kid) != view.RoleEvent || v.Name(kid) != mapping.NameException {
			continue
		}
		e, err := v.Entry(kid)
		if err != nil {
			return err
		}
		text := func(name string) string {
			a, _ := e.Attribute(name)
			return cut(a.Text(), most)
		}
		d.Exception = &exception{kid, text("exception.type"), text("exception.message"), text("exception.stacktrace")}
		return nil
	}
	return nil
}

// addInner adds the innermost failed span below the failed span at row r. If several children of a span failed, it
// uses the last failed child, because earlier children may be attempts that were repeated.
func (d *details) addInner(v *view.View, r view.Row, most int) error {
	in := r
	for next := in; next != 0; {
		in, next = next, 0
		for kid := range v.Tree().Children(in) {
			if v.Role(kid) == view.RoleSpan && v.Flags(kid).Failed() {
				next = kid
			}
		}
	}
	if in == r {
		return nil
	}
	e, err := v.Entry(in)
	if err != nil {
		return err
	}
	said, _ := e.Attribute(mapping.AttrStatusDescription)
	text := said.Text()
	x := new(details)
	if text == "" {
		err = x.addException(v, in, most)
		if x.Exception != nil {
			text = x.Exception.Message
		}
	}
	text = strings.TrimSuffix(v.Name(in)+": "+text, ": ")
	d.Inner = &place{in, cut(text, most)}
	return err
}

// A stack is the call stack of goroutines that worked for a span.
type stack struct {
	Row   view.Row `json:"row"`
	Time  int64    `json:"time_unix_nano"`
	Count string   `json:"count"` // the number of goroutines
	In    string   `json:"in"`    // the function in which the goroutines wait
	Stack string   `json:"stack"`
}

// maxStacks is the largest number of stacks of a span that are shown.
const maxStacks = 8

// addStacks adds the latest stacks below row r. If row r has no stacks, it adds the stacks directly below the nearest
// span above r that has stacks, because the labels of a goroutine may name its request but not its innermost span.
func (d *details) addStacks(ctx context.Context, v *view.View, r view.Row, most int) error {
	if metas := columns.Of(v).Metas(); len(metas) < math.MaxUint16 && !slices.ContainsFunc(metas, isDump) {
		return nil // the trace has no stacks; if Metas has fewer items than the limit, it has all names
	}
	for row := range analyze.Subtree(v, r) {
		if row%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := d.addStack(v, row, most); err != nil {
			return err
		}
	}
	for up := v.Parent(r); len(d.Stacks) == 0 && v.Role(up) == view.RoleSpan; up = v.Parent(up) {
		for kid := range v.Tree().Children(up) {
			if err := d.addStack(v, kid, most); err != nil {
				return err
			}
		}
		if len(d.Stacks) > 0 {
			d.StacksOf = preview(v.Name(up))
		}
	}
	return nil
}

// addStack adds row r if it is a stack of goroutines from package control/provider and d has no later stack. It
// removes older stacks from d.
func (d *details) addStack(v *view.View, r view.Row, most int) error {
	if v.Role(r) != view.RoleOther || !isDump(v.Metadata(r)) {
		return nil
	}
	at, timed := v.Start(r)
	last := int64(math.MinInt64)
	if len(d.Stacks) > 0 {
		last, _ = v.Start(d.Stacks[0].Row)
	}
	switch {
	case !timed || at < last || at == last && len(d.Stacks) == maxStacks:
		return nil
	case at > last:
		d.Stacks = d.Stacks[:0]
	}
	e, err := v.Entry(r)
	if err != nil {
		return err
	}
	text, _ := e.Attribute("stack")
	count, _ := e.Attribute("count")
	d.Stacks = append(d.Stacks, stack{r, at, count.String(), preview(e.Message.Value), cut(text.Text(), most)})
	return nil
}

// entry answers with everything about a row. With the parameter all, values are not cut.
func (q *request) entry(ctx context.Context) (any, error) {
	r := q.row("row")
	if q.err != nil {
		return nil, q.err
	}
	most := cutSize
	if q.Has("all") {
		most = 64 << 20
	}
	d, err := q.detailsOf(ctx, r, most)
	if err != nil {
		return nil, err
	}
	d.Path = q.path(r)
	d.Talk, err = q.hasTalk(r)
	return d, err
}

// detailsOf returns the details of a row without Path and Talk. It cuts values with more than most bytes.
func (s *state) detailsOf(ctx context.Context, r view.Row, most int) (*details, error) {
	v := s.v
	e, err := v.Entry(r)
	if err != nil {
		return nil, err
	}
	f := v.Flags(r)
	file, id := v.ID(r)
	d := details{
		Row: r, ID: s.names[file] + "#" + strconv.FormatUint(uint64(id), 10), Role: f.Role().String(),
		Name: e.Metadata.Name, Level: f.Severity().String(), Target: e.Metadata.Target, Service: v.Service(r),
		File: e.Metadata.File.Value, Line: e.Metadata.Line.Value, Path: []place{}, Attributes: attributesOf(e.UserAttributes(), most), Links: []linked{}, Stacks: []stack{},
	}
	if e.Message.Valid {
		d.Message = &e.Message.Value
	}
	if f.Role() == view.RoleSpan {
		d.Kind, d.Status, d.Open = f.Kind(), f.Status(), f.Open()
		description, _ := e.Attribute(mapping.AttrStatusDescription)
		d.Description = description.Text()
	}
	ref := v.Ref(r)
	if ref.TraceID != [16]byte{} {
		d.Trace = hex.EncodeToString(ref.TraceID[:])
	}
	if ref.SpanID != [8]byte{} {
		d.Span = hex.EncodeToString(ref.SpanID[:])
	}
	d.Start, d.Took = s.startOf(r), s.tookOf(r)
	if self, ended := v.SelfTime(r); ended {
		d.Self = new(int64(self))
	}
	if res := v.Resource(r); res != 0 {
		entry, err := v.Entry(res)
		if err != nil {
			return nil, err
		}
		d.Resource = attributesOf(entry.UserAttributes(), most)
	}
	t := v.Tree()
	d.Logs = s.logs().between(t.Rank(r), t.End(r))
	for kid := range t.Children(r) {
		if v.Role(kid) == view.RoleLink {
			if err := d.addLink(v, kid, most); err != nil {
				return nil, err
			}
		}
	}
	if f.Failed() {
		if err := errors.Join(d.addException(v, r, most), d.addInner(v, r, most)); err != nil {
			return nil, err
		}
	}
	if d.Open {
		if err := d.addStacks(ctx, v, r, most); err != nil {
			return nil, err
		}
	}
	d.Below = s.below(r)
	return &d, nil
}

func (d *details) addLink(v *view.View, r view.Row, most int) error {
	e, err := v.Entry(r)
	if err != nil {
		return err
	}
	trace, _ := e.Attribute(mapping.AttrLinkTraceID)
	span, _ := e.Attribute(mapping.AttrLinkSpanID)
	l := linked{Trace: trace.Text(), Span: span.Text(), Attributes: attributesOf(e.UserAttributes(), most)}
	if to := analyze.SpanNamed(v, l.Trace, l.Span); to != 0 {
		l.To = &place{to, v.Name(to)}
	}
	d.Links = append(d.Links, l)
	return nil
}

// A record is a log record below a row.
type record struct {
	Row   view.Row     `json:"row"`
	Time  analyze.Time `json:"time_unix_nano"`
	Level string       `json:"level"`
	Text  string       `json:"text"`
	More  string       `json:"more"` // its attributes
	In    string       `json:"in"`   // the name of its parent span
}

// maxLogs is the largest number of log records in an answer.
const maxLogs = 1000

// records answers with the log records and events at and below a row, ordered by time.
func (q *request) records(ctx context.Context) (any, error) {
	r := q.row("row")
	if q.err != nil {
		return nil, q.err
	}
	v := q.v
	rows := v.NewSet()
	for row := range analyze.Subtree(v, r) {
		if row%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if role := v.Role(row); role == view.RoleLog || role == view.RoleEvent {
			rows.Add(row)
		}
	}
	list := []record{}
	read, ranker := v.NewReader(), interest.NewRanker(v)
	order := query.InTime(v, rows)
	for _, r := range order[:min(len(order), maxLogs)] {
		e, err := read.Entry(r)
		if err != nil {
			return nil, err
		}
		x := record{Row: r, Time: q.startOf(r), Level: v.Flags(r).Severity().String(), Text: strings.Clone(preview(e.Message.Value)), More: attributesText(ranker.Attributes(r, e))}
		if !e.Message.Valid {
			x.Text = strings.Clone(preview(e.Metadata.Name))
		}
		if up := v.Parent(r); v.Role(up) == view.RoleSpan {
			x.In = preview(v.Name(up))
		}
		list = append(list, x)
	}
	return map[string]any{"logs": list, "total": len(order)}, nil
}
