package analyze

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// An Overview summarizes a trace for a person who has not seen it before.
type Overview struct {
	First  Time `json:"first_unix_nano"` // the earliest time
	Last   Time `json:"last_unix_nano"`  // the latest time
	Spans  int  `json:"spans"`
	Logs   int  `json:"logs"`
	Events int  `json:"events"`
	Errors int  `json:"errors"`          // failed spans and error log records
	Failed int  `json:"failed_requests"` // failed spans without a span above them
	Open   int  `json:"open_spans"`      // spans that have not ended; spans that continue in a later file, which the view lacks, do not count
	// Services lists each service that has spans or log records, the services with most errors first.
	Services []ServiceCount `json:"services"`
	// Slowest lists the slowest requests by service and name. A request is a span that has no span above it, except
	// for a span of entrace run. If there are other spans, spans of entrace run do not count here or in Self.
	Slowest []SlowRequest `json:"slowest"`
	Self    *query.Table  `json:"self"` // the span names with the largest self time, from [query.Summary]
	// Patterns has the most frequent patterns of error texts. OtherErrors is the number of errors that match none of
	// the patterns that were counted. If several spans pass a failure on, or log records repeat it, the failure
	// counts once here, at the innermost span.
	Patterns    []ErrorPattern `json:"error_patterns"`
	OtherErrors int            `json:"other_errors"`
	NeverEnded  []view.Row     `json:"never_ended"` // the spans that Open counts, the earliest first
	// Gaps are the longest periods in which no span began or ended, and nothing was logged.
	Gaps  []Gap       `json:"gaps"`
	Waits []WaitTotal `json:"waits"` // from [Waits]; Top leaves Waits empty, because filling it takes longer
	// Repeats are the calls that single spans repeat, sorted by total time.
	Repeats []Repeat `json:"repeats"`
	// Growth and Goroutines come from a flight recorder's samples of the Go runtime. Growth lists the values that
	// grow. Goroutines lists the goroutines of the last dump by stack; MoreGoroutines counts the goroutines with other
	// stacks.
	Growth         []Growth      `json:"growth"`
	Goroutines     []*Goroutines `json:"goroutines"`
	GoroutinesAt   Time          `json:"goroutines_at_unix_nano"`
	MoreGoroutines int64         `json:"more_goroutines"`
	// Locks says where goroutines of the last dump wait for a lock, if spans have not ended.
	Locks string `json:"locks"`
}

// A ServiceCount counts the spans, log records and errors of a service.
type ServiceCount struct {
	Service string `json:"service"`
	Spans   int    `json:"spans"`
	Logs    int    `json:"logs"`
	Errors  int    `json:"errors"`
}

// A SlowRequest summarizes the ended requests of a service and name.
type SlowRequest struct {
	Row   view.Row `json:"row"`   // the longest request
	Count int      `json:"count"` // the number of requests
}

// An ErrorPattern is a pattern of error texts, with the number of errors that match it.
type ErrorPattern struct {
	Pattern string    `json:"pattern"` // with <number>, <hex>, <uuid> and <text> for the parts that differ
	Role    view.Role `json:"role"`
	Count   int       `json:"count"`
	First   view.Row  `json:"first"` // the first error that matches
}

// A Gap is a period in which nothing happened.
type Gap struct {
	From     Time     `json:"from_unix_nano"`
	Duration int64    `json:"duration_nano"`
	Before   view.Row `json:"before"` // the last row before the gap
	// After is the first row after the gap. It is 0 at the end of the trace if only a recorder wrote anything after
	// the gap, for example because the process hung.
	After view.Row `json:"after" null:"yes"`
}

// maxPatterns is the maximum number of patterns of errors that are counted.
const maxPatterns = 10_000

// Top returns an overview of rows of a view. Each list has at most limit items. If o, which may be nil, has a period,
// only gaps within the period count.
func Top(ctx context.Context, v *view.View, rows view.Set[view.Row], limit int, o *query.Options) (*Overview, error) {
	from, to := o.Period()
	top := &Overview{First: NoTime, Last: NoTime, GoroutinesAt: NoTime}
	services := make(map[uint16]*ServiceCount)
	others := withoutRuns(v, rows)
	slowest := make(map[operation]*SlowRequest)
	within := Above(v, others)
	var errs []view.Row
	c := columns.Of(v)
	for k := range c.Blocks() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b := c.Block(k)
		for i := range rows[k*columns.Words : (k+1)*columns.Words].All() {
			r, f := view.Row(b.First)+i, view.Flags(b.Flags[i])
			s := at(services, b.Resource[i])
			switch f.Role() {
			case view.RoleSpan:
				top.Spans++
				s.Spans++
				switch d := b.Duration[i]; {
				case d != columns.NoDuration:
					if others.Has(r) && !within(r) {
						x := at(slowest, operation{service: v.Service(r), name: v.Name(r)})
						x.Count++
						if most, ended := v.Duration(x.Row); !ended || d > int64(most) {
							x.Row = r
						}
					}
				case f.Open() && !v.GoesOn(r):
					top.Open++
					top.NeverEnded = append(top.NeverEnded, r)
				}
			case view.RoleLog:
				top.Logs++
				s.Logs++
			case view.RoleEvent:
				top.Events++
			case view.RoleOther:
			default:
				continue
			}
			if at := b.Start[i]; at != columns.NoTime {
				if top.First == NoTime {
					top.First = Time(at)
				}
				top.First, top.Last = min(top.First, Time(at)), max(top.Last, Time(b.EndOf(int(i))))
			}
			if f.IsError() {
				top.Errors++
				s.Errors++
				errs = append(errs, r)
				if f.Role() == view.RoleSpan && others.Has(r) && !within(r) {
					top.Failed++
				}
			}
		}
	}
	top.Slowest = make([]SlowRequest, 0, len(slowest))
	for _, x := range slowest {
		top.Slowest = append(top.Slowest, *x)
	}
	slices.SortFunc(top.Slowest, func(a, b SlowRequest) int {
		x, _ := v.Duration(a.Row)
		y, _ := v.Duration(b.Row)
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(a.Row, b.Row))
	})
	top.Slowest = top.Slowest[:min(limit, len(top.Slowest))]
	began := func(r view.Row) int64 {
		if at, timed := v.Start(r); timed {
			return at
		}
		return math.MaxInt64
	}
	slices.SortFunc(top.NeverEnded, func(a, b view.Row) int { return cmp.Or(cmp.Compare(began(a), began(b)), cmp.Compare(a, b)) })
	top.NeverEnded = top.NeverEnded[:min(limit, len(top.NeverEnded))]
	byName := make(map[string]*ServiceCount)
	resources := c.Resources()
	for code, s := range services {
		if int(code) < len(resources) {
			s.Service = v.Service(view.Row(resources[code]))
		}
		all := at(byName, s.Service)
		*all = ServiceCount{s.Service, all.Spans + s.Spans, all.Logs + s.Logs, all.Errors + s.Errors}
	}
	for _, s := range byName {
		// A service without spans and log records has only entries of a recorder, such as the text of a crash.
		if s.Spans > 0 || s.Logs > 0 {
			top.Services = append(top.Services, *s)
		}
	}
	slices.SortFunc(top.Services, func(a, b ServiceCount) int {
		return cmp.Or(cmp.Compare(b.Errors, a.Errors), cmp.Compare(a.Service, b.Service))
	})
	var err error
	top.Self, err = query.Summary(ctx, v, others, o)
	if err == nil {
		err = top.Self.Sort("self")
		top.Self.Lines = top.Self.Lines[:min(limit, len(top.Self.Lines))]
	}
	if err == nil {
		err = top.patterns(ctx, v, rows, errs, limit)
	}
	if err == nil {
		top.Repeats, err = repeatsOf(ctx, v, rows, limit)
	}
	if err == nil {
		err = top.addRuntime(ctx, v)
	}
	if top.First != NoTime {
		top.gaps(v, rows, limit, from, to)
	}
	return top, err
}

// withoutRuns returns the rows without the spans that entrace run recorded for commands. It returns all rows if
// they have no other spans.
func withoutRuns(v *view.View, rows view.Set[view.Row]) view.Set[view.Row] {
	if !slices.Contains(v.Services(), mapping.RunService) {
		return rows
	}
	left, spans := v.NewSet(), false
	for r := range rows.All() {
		isSpan := v.Role(r) == view.RoleSpan
		if !isSpan || v.Service(r) != mapping.RunService {
			left.Add(r)
			spans = spans || isSpan
		}
	}
	if !spans {
		return rows
	}
	return left
}

// SlowestPart returns the span below row r with the largest self time. It returns false if no span
// below r has a larger self time than r.
func SlowestPart(v *view.View, r view.Row) (part view.Row, ok bool) {
	most, _ := v.SelfTime(r)
	for row := range Subtree(v, r) {
		if self, ended := v.SelfTime(row); ended && self > most {
			part, most, ok = row, self, true
		}
	}
	return part, ok
}

// patterns sets o.Patterns and o.OtherErrors.
func (o *Overview) patterns(ctx context.Context, v *view.View, rows view.Set[view.Row], errs []view.Row, limit int) error {
	type key struct {
		role    view.Role
		pattern string
	}
	found := make(map[key]int)
	var list []ErrorPattern
	known := make(map[string]string) // a cache of the patterns of texts
	text := newErrorTexts(v)
	for i, r := range errs {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s, err := text.of(r)
		if err != nil {
			return err
		}
		told, err := text.repeats(r, s, rows)
		if err != nil {
			return err
		}
		if told {
			continue
		}
		p, ok := known[s]
		if !ok {
			p = Pattern(s)
			if len(known) < maxPatterns {
				known[s] = p
			}
		}
		k := key{v.Role(r), p}
		n, ok := found[k]
		switch {
		case ok:
			list[n].Count++
		case len(list) < maxPatterns:
			found[k] = len(list)
			list = append(list, ErrorPattern{Pattern: p, Role: k.role, Count: 1, First: r})
		default:
			o.OtherErrors++
		}
	}
	slices.SortStableFunc(list, func(a, b ErrorPattern) int { return cmp.Compare(b.Count, a.Count) })
	for _, p := range list[min(limit, len(list)):] {
		o.OtherErrors += p.Count
	}
	o.Patterns = list[:min(limit, len(list))]
	return nil
}

// errorTexts computes the texts of errors. The text of a log record is its message and the error in its
// attributes. The text of a span is its name and the description of its status. If there is no description, it is
// the name and the message of the span's first exception.
type errorTexts struct {
	v         *view.View
	read      *view.Reader
	saidBelow map[view.Row][]string // results of the method below, by row
}

func newErrorTexts(v *view.View) *errorTexts {
	return &errorTexts{v: v, read: v.NewReader(), saidBelow: make(map[view.Row][]string)}
}

// attribute returns the first of some attributes that row r has and that is not empty, or "".
func (t *errorTexts) attribute(r view.Row, names ...string) (string, error) {
	e, err := t.read.WithoutIDs(r)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if v, ok := e.Attribute(name); ok && v.Text() != "" {
			return strings.Clone(v.Text()), nil
		}
	}
	return "", nil
}

// cause returns the error in the attributes of a log record.
func (t *errorTexts) cause(r view.Row) (string, error) {
	return t.attribute(r, "err", "error", "exception.message")
}

func (t *errorTexts) of(r view.Row) (s string, err error) {
	if t.v.Role(r) == view.RoleSpan {
		s, err = t.said(r)
	} else if s, ok := t.v.Message(r); ok {
		cause, err := t.cause(r)
		if cause != "" && !strings.Contains(s, cause) {
			s += ": " + cause
		}
		return s, err
	}
	if s == "" {
		return t.v.Name(r), err
	}
	return t.v.Name(r) + ": " + s, err
}

// said returns the error text of the span at row r: the description of its status, or else the message of its first
// exception, or else "".
func (t *errorTexts) said(r view.Row) (s string, err error) {
	s, err = t.attribute(r, mapping.AttrStatusDescription)
	if s != "" || err != nil {
		return s, err
	}
	for _, kid := range t.v.Children(r) {
		if t.v.Role(kid) == view.RoleEvent && t.v.Name(kid) == mapping.NameException {
			return t.attribute(kid, "exception.message")
		}
	}
	return "", nil
}

// The maximum numbers of spans through which a failure is followed, and of failures below a span that are compared.
const (
	maxPassed = 100
	maxBelow  = 16
)

// below returns the texts of the failures directly below row r: the texts of the failed child spans in rows. For a
// child without a text, it returns the texts of the failures below that child, or "" if there are none.
func (t *errorTexts) below(r view.Row, rows view.Set[view.Row], depth int) (said []string, err error) {
	if said, ok := t.saidBelow[r]; ok {
		return said, nil
	}
	for _, kid := range t.v.Children(r) {
		if !t.v.Flags(kid).Failed() || !rows.Has(kid) || len(said) >= maxBelow {
			continue
		}
		s, err := t.said(kid)
		if err != nil {
			return nil, err
		}
		var more []string
		if s == "" && depth < maxPassed {
			more, err = t.below(kid, rows, depth+1)
			if err != nil {
				return nil, err
			}
		}
		if len(more) == 0 {
			more = []string{s}
		}
		said = append(said, more...)
	}
	t.saidBelow[r] = said
	return said, nil
}

// repeats reports whether another error in rows describes the same failure as the error at row r, which has the given
// text. For a span without an error text, any failed span or error log record below it does. Otherwise a failed span
// below r does if the given text contains the text of that span. For a log record, its own span and the failed spans
// below it do so.
func (t *errorTexts) repeats(r view.Row, text string, rows view.Set[view.Row]) (bool, error) {
	span, isSpan := r, t.v.Role(r) == view.RoleSpan
	if !isSpan {
		span = t.v.Parent(r)
		if !t.v.Flags(span).Failed() || !rows.Has(span) {
			return false, nil
		}
	}
	said, err := t.below(span, rows, 0)
	if err != nil {
		return false, err
	}
	if isSpan && text == t.v.Name(r) {
		return len(said) > 0 || slices.ContainsFunc(t.v.Children(r), func(kid view.Row) bool {
			return t.v.Role(kid) == view.RoleLog && t.v.Flags(kid).IsError() && rows.Has(kid)
		}), nil
	}
	if !isSpan {
		own, err := t.said(span)
		if err != nil {
			return false, err
		}
		said = append(slices.Clip(said), own)
	}
	return slices.ContainsFunc(said, func(s string) bool { return s != "" && strings.Contains(text, s) }), nil
}

// gapBuckets is the number of parts into which the time is divided to find gaps. Gaps that are shorter than a part may
// not be found.
const gapBuckets = 1 << 16

// gaps finds the longest gaps between two times.
func (o *Overview) gaps(v *view.View, rows view.Set[view.Row], limit int, from, to int64) {
	type bucket struct {
		first, last       int64
		firstRow, lastRow view.Row
		any               bool
	}
	from, to = max(from, int64(o.First)), min(to, int64(o.Last))
	if from > to {
		return
	}
	width := uint64(to-from)/gapBuckets + 1
	buckets := make([]bucket, gapBuckets)
	add := func(at int64, r view.Row) {
		if at < from || at > to {
			return
		}
		b := &buckets[uint64(at-from)/width]
		if !b.any || at < b.first {
			b.first, b.firstRow = at, r
		}
		if !b.any || at >= b.last {
			b.last, b.lastRow = at, r
		}
		b.any = true
	}
	c := columns.Of(v)
	for k := range c.Blocks() {
		b := c.Block(k)
		for i := range rows[k*columns.Words : (k+1)*columns.Words].All() {
			switch view.Flags(b.Flags[i]).Role() {
			case view.RoleSpan, view.RoleLog, view.RoleEvent:
			default:
				continue
			}
			if start := b.Start[i]; start != columns.NoTime {
				add(start, view.Row(b.First)+i)
				if end := b.EndOf(int(i)); end > start {
					add(end, view.Row(b.First)+i)
				}
			}
		}
	}
	var last *bucket
	for i := range buckets {
		b := &buckets[i]
		if !b.any {
			continue
		}
		if last != nil && uint64(b.first-last.last) > width {
			o.Gaps = append(o.Gaps, Gap{Time(last.last), b.first - last.last, last.lastRow, b.firstRow})
		}
		last = b
	}
	if last != nil && int64(o.Last) > last.last && int64(o.Last) == to {
		o.Gaps = append(o.Gaps, Gap{Time(last.last), to - last.last, last.lastRow, 0})
	}
	slices.SortStableFunc(o.Gaps, func(a, b Gap) int { return cmp.Compare(b.Duration, a.Duration) })
	o.Gaps = o.Gaps[:min(limit, len(o.Gaps))]
}
