package analyze

import (
	"cmp"
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// An itemKind is the kind of an item.
type itemKind string

const (
	itemSpan    itemKind = "span" // a span of the call's own service
	itemCall    itemKind = "call" // a call of another service
	itemLog     itemKind = "log"
	itemWarning itemKind = "warning"
	itemError   itemKind = "error" // a log record, or a failed span
)

// An item is a thing that a call did or logged.
type item struct {
	kind  itemKind
	place string // the place in the source, for a log record
	name  string // the name of a failed span
	text  string
	cause string // the error in the attributes of a log record
}

// said returns the text of a log record or of a failed span without the place at its beginning.
func (x item) said() string { return strings.TrimLeft(strings.TrimPrefix(x.text, x.place), " :") }

// An operation is the name and service of the span with which a call enters a service. With rules.alike, its
// path distinguishes calls of the same name. Without rules.alike, the path is empty.
type operation struct {
	service, name string
	path          callPath
}

// A call begins when a request enters a service. It covers the span with which it begins, and the spans of the
// service and the log records below that span.
type call struct {
	operation

	request    *request
	row        view.Row
	start, end int64
	items      []int // indexes in workload.items, ascending; all calls have item 0, the zero item
	bad        bool  // the call has an error
	open       bool  // it has not ended
	up         *call // the call of another service that made this call
}

// An arrow leads from the operation of parent spans to the operation of child spans.
type arrow struct{ from, to operation }

func (a arrow) compare(b arrow) int { return cmp.Or(a.from.compare(b.from), a.to.compare(b.to)) }

func (a arrow) operation() operation {
	return operation{service: a.from.service, name: a.from.name + " → " + a.to.name, path: a.to.path}
}

// An arrowCalls holds the calls along an arrow.
type arrowCalls struct {
	calls, time int64       // the number of calls, and their total time, including all spans below them
	by          []callCount // in the order of the parent spans
}

// A callCount says how often the span with a number calls an operation. A span may have several counts.
type callCount struct{ span, calls int }

// A counted is an arrow whose numbers of calls are the values of a sample.
type counted struct {
	arrow

	each int64 // the average time of a call
}

// did adds an item to a call.
func (w *workload) did(c *call, x item) {
	n, ok := w.numbers[x]
	if !ok {
		n = len(w.items)
		w.numbers[x], w.items = n, append(w.items, x)
	}
	if at, has := slices.BinarySearch(c.items, n); !has {
		c.items = slices.Insert(c.items, at, n)
	}
}

// does reports whether a call did the item with number n.
func (c *call) does(n int) bool {
	_, has := slices.BinarySearch(c.items, n)
	return has
}

// A request is a span without a parent, with all spans below it.
type request struct {
	view        *view.View
	row         view.Row
	start, took int64
	route       *route
	failed      bool
	bad         bool         // one of its calls has an error
	refused     bool         // the answer has a status of 4xx, which is no failure, so errors below the request are no failures either
	failure     *failureKind // nil if the request did not fail
	now         bool         // the request is compared with the baseline; false: it belongs to the baseline
	eighth      int          // the part of the recording in which the request begins
}

// side returns 1 for a request that is compared with the baseline, and 0 for a request of the baseline.
func (q *request) side() int {
	if q.now {
		return 1
	}
	return 0
}

func (q *request) isNow() bool { return q.now }
func (c *call) isNow() bool    { return c.request.now }
func (d duration) isNow() bool { return d.call.request.now }

// A workload holds the calls and durations of the services in all runs.
type workload struct {
	all      []*call // callers before callees
	items    []item
	numbers  map[item]int // the index of each item in items
	byName   map[operation][]*call
	requests []*request
	// times has the samples of times until the runs are read. The time of an edge is the own time of a span that
	// calls one other service: the time in which no span below it ran.
	times   map[sampled]*sample
	samples []*sample             // times of operations, times of edges, and numbers of calls, each in a fixed order
	callers map[operation][]*call // by operation: the call of each span; nil after the runs are read
	arrows  map[arrow]*arrowCalls // nil after the runs are read
	routes  map[operation]*route  // by service and name of requests
	kinds   map[failureKind]*failureKind
	retries map[operation]*retries // by operation without a path
	apart   int                    // log records that belong to no request
	rules   rules
	clocks  []Clock // the clocks that were corrected
	clock   func(t Time) string
	trigger *Trigger // why the flight recorder wrote its latest file
	// triggered is the time at which the reason for a flight recorder's latest file began; see triggerOf.
	triggered Time
}

// workloadOf returns a sample of the requests that have a selected row in a run, and the number of all such requests.
// If others is set, it adds other requests with the same names to the baseline.
func workloadOf(ctx context.Context, q *Question, others bool) (w *workload, all int, err error) {
	w = &workload{
		rules: withinRecording, triggered: NoTime, items: make([]item, 1), numbers: make(map[item]int), byName: make(map[operation][]*call),
		times: make(map[sampled]*sample), callers: make(map[operation][]*call), arrows: make(map[arrow]*arrowCalls),
		routes: make(map[operation]*route), kinds: make(map[failureKind]*failureKind), retries: make(map[operation]*retries),
	}
	if len(q.Before) > 0 {
		w.rules = withBaseline
	}
	for i, run := range slices.Concat(q.Before, q.Now) {
		n, err := w.add(ctx, run, i >= len(q.Before), others, q.Within)
		if err != nil {
			return nil, 0, err
		}
		all += n
	}
	w.samples = slices.SortedFunc(maps.Values(w.times), func(a, b *sample) int {
		switch {
		case a.edge == b.edge:
			return a.compare(b.operation)
		case b.edge:
			return -1
		}
		return 1
	})
	w.count()
	for _, m := range w.samples {
		m.sort()
	}
	w.times = nil
	return w, all, nil
}

// mostHabits is the maximum number of items of an operation that are examined; the most frequent items are chosen.
const mostHabits = 200

// maxRequests is the maximum number of requests of a run that are compared. If there are more, they are sampled
// evenly.
const maxRequests = 20_000

// add adds the requests of a run and returns their number.
func (w *workload) add(ctx context.Context, run query.Run, now, others, within bool) (n int, err error) {
	v, t := run.View, run.View.Tree()
	var roots []view.Row
	chosen, names := v.NewSet(), make(map[operation]bool)
	for rank := 1; rank < t.Len(); {
		if rank%(1<<16) == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		root, end := t.Row(rank), rank+1
		switch v.Role(root) {
		case view.RoleSpan:
			for end = t.End(root); rank < end; rank++ {
				if run.Rows.Has(t.Row(rank)) {
					chosen.Add(root)
					names[operationOf(v, root)] = true
					break
				}
			}
			roots = append(roots, root)
		case view.RoleLog:
			w.apart++
		case view.RoleRecorder:
			if v.Name(root) != mapping.NameTrace {
				break
			}
			if trigger, at := triggerOf(v, root); at >= w.triggered {
				w.triggered, w.trigger = at, trigger
			}
		}
		rank = end
	}
	roots = slices.DeleteFunc(roots, func(r view.Row) bool { return !chosen.Has(r) && (!others || !names[operationOf(v, r)]) })
	// The span of a whole command is no request. If the program serves requests, a client span without a parent is no
	// request either: for example, a query that the program makes when it starts.
	roots = slices.DeleteFunc(roots, func(r view.Row) bool { return v.Service(r) == mapping.RunService })
	kindOf := func(r view.Row) string { return v.Flags(r).Kind() }
	if w.rules.alike && slices.ContainsFunc(roots, func(r view.Row) bool { return kindOf(r) == "server" || kindOf(r) == "consumer" }) {
		roots = without(roots, func(r view.Row) bool { return kindOf(r) == "client" })
	}
	if w.rules.alike {
		roots = withoutSeeding(v, roots)
	}
	x := callReader{workload: w, v: v, texts: newErrorTexts(v), ctx: ctx}
	if within {
		x.only = run.Rows
	}
	x.paths, err = newPathReader(ctx, v)
	if err != nil {
		return 0, err
	}
	for i := 0; i < len(roots); i += max(1, (len(roots)+maxRequests-1)/maxRequests) {
		if err := x.request(roots[i], now && chosen.Has(roots[i])); err != nil {
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	return len(roots), nil
}

// without returns a list without some of its rows, or the list itself if nothing would be left.
func without(list []view.Row, drop func(r view.Row) bool) []view.Row {
	rest := slices.DeleteFunc(slices.Clone(list), drop)
	if len(rest) == 0 {
		return list
	}
	return rest
}

// withoutSeeding leaves out the requests at the beginning of a recording if they come far faster one after the other
// than later requests, as when a database is filled before the test. Compared with these early requests, all later
// requests would seem slow. Failed requests are never left out.
func withoutSeeding(v *view.View, roots []view.Row) []view.Row {
	start := func(r view.Row) int64 { at, _ := v.Start(r); return at }
	n := len(roots)
	if n < 2*fewApart {
		return roots
	}
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, r := range roots {
		first, last = min(first, start(r)), max(last, start(r))
	}
	early := 0
	for _, r := range roots {
		if start(r)-first < (last-first)/seedingShare {
			early++
		}
	}
	if early*seedingShare < 2*n {
		return roots // the beginning has hardly more requests than later parts; this check needs no sorting
	}
	list := slices.SortedStableFunc(slices.Values(roots), func(a, b view.Row) int { return cmp.Compare(start(a), start(b)) })
	k := 0
	for k < n && start(list[k])-first < (last-first)/seedingShare && !v.Flags(list[k]).IsError() {
		k++
	}
	if min(k, n-k) < fewApart {
		return roots
	}
	usual := func(list []view.Row) (gap, took float64) { // the medians
		var gaps, times []int64
		for i, r := range list[1:] {
			gaps = append(gaps, start(r)-start(list[i]))
			if d, ended := v.Duration(r); ended {
				times = append(times, int64(d))
			}
		}
		return float64(max(1, stat.Quantile(gaps, .5))), float64(max(1, stat.Quantile(append(times, 1), .5)))
	}
	gap, took := usual(list[:k])
	laterGap, laterTook := usual(list[k:])
	if later := laterGap / gap; later < seedingPace || later < seedingPace/2*laterTook/took {
		return roots
	}
	return list[k:]
}

func operationOf(v *view.View, r view.Row) operation {
	return operation{service: v.Service(r), name: v.Name(r)}
}

// A callReader adds the calls of one run to a workload.
type callReader struct {
	*workload

	v     *view.View
	texts *errorTexts
	ctx   context.Context //nolint:containedctx // the context of the one call that the callReader serves
	paths *pathReader
	only  view.Set[view.Row] // if not nil, only these rows count
}

// A member is a span of a request.
type member struct {
	operation

	row             view.Row
	up              *member
	depth           int
	start, end, own int64
	below           int64 // the own time of all spans below it
	call            *call
	number          int      // the number of earlier spans of the operation
	remotes         []string // the services that it called
	failed          bool
	passes          bool // a span directly below it failed
}

// request adds the calls of the request at and below a span.
func (x *callReader) request(root view.Row, now bool) error {
	v := x.v
	q := &request{view: v, row: root, now: now}
	last := int64(math.MinInt64)
	var spans []*member
	known := make(map[view.Row]*member)
	for r := range Subtree(v, root) {
		if err := x.ctx.Err(); r%(1<<16) == 0 && err != nil {
			return err
		}
		if x.only != nil && !x.only.Has(r) {
			continue
		}
		up := known[v.Parent(r)]
		start, timed := v.Start(r)
		if v.Role(r) != view.RoleSpan || !timed {
			if v.Role(r) == view.RoleLog && up != nil && v.Service(r) == up.call.service {
				if err := x.log(r, up.call); err != nil {
					return err
				}
			}
			continue
		}
		took, _ := v.Lasted(r)
		op := operationOf(v, r)
		s := &member{operation: op, row: r, up: up, start: start, end: start + max(0, min(int64(took), math.MaxInt64-max(0, start))), failed: v.Flags(r).IsError()}
		if x.rules.alike {
			s.path = x.pathOf(s, spans)
		}
		if up != nil {
			s.depth = up.depth + 1
		}
		spans, known[r] = append(spans, s), s
		if len(spans) == 1 {
			q.start, q.failed = start, s.failed
			q.refused = x.rules.alike && !s.failed && x.paths.ended(r, false) == "4xx"
		}
		last = max(last, s.end)
		if up == nil || up.call.service != op.service {
			op.path.own = s.path.own
			s.call = &call{operation: op, request: q, row: r, start: start, end: s.end, items: []int{0}, open: v.Flags(r).Open()}
			x.all, x.byName[op] = append(x.all, s.call), append(x.byName[op], s.call)
			if up != nil {
				s.call.up = up.call
				up.remotes = append(up.remotes, op.service)
				x.did(up.call, item{kind: itemCall, text: op.service + " " + op.name})
			}
		} else {
			s.call = up.call
			x.did(s.call, item{kind: itemSpan, text: op.name})
		}
		if s.failed {
			s.call.bad, q.bad = true, true
			if up != nil {
				up.passes = true
			}
		}
	}
	if len(spans) == 0 {
		return nil
	}
	q.took = last - q.start
	x.requests = append(x.requests, q)
	sweep(slices.Clone(spans))
	if err := x.addToRoute(q, spans); err != nil {
		return err
	}
	x.called(spans)
	for _, s := range spans {
		if s.failed && !s.passes && !q.refused {
			text, err := x.texts.of(s.row)
			if err != nil {
				return err
			}
			said := patternWith(strings.TrimPrefix(text, s.name+": "), true)
			// Add the error unless a log record of the call has the same error.
			if !slices.ContainsFunc(s.call.items[:min(len(s.call.items), mostHabits)], func(n int) bool {
				e := x.items[n]
				return e.kind == itemError && e.name == "" && (e.cause == said || strings.HasSuffix(e.text, said))
			}) {
				x.did(s.call, item{kind: itemError, name: s.name, text: patternWith(text, true)})
			}
		}
		key := sampled{operation: s.operation}
		if x.rules.alike {
			key.path.ended = x.paths.ended(s.row, s.failed) + " " + x.paths.ended(root, q.failed)
		}
		// If the span called several services, it is unknown to which of them the time belongs.
		slices.Sort(s.remotes)
		if len(slices.Compact(s.remotes)) == 1 {
			key.operation = operation{service: key.service, name: s.remotes[0]}
			key.edge = true
			if x.rules.alike {
				key.path = callPath{request: s.path.request, parent: s.name, own: s.path.own}
			}
		}
		m := at(x.times, key)
		m.sampled, m.list = key, append(m.list, duration{s.own, s.call})
	}
	return nil
}

// pathOf returns the path of a span. The slice spans has the earlier spans of the request.
func (x *callReader) pathOf(s *member, spans []*member) callPath {
	p := callPath{own: x.paths.own(x.v, s.row)}
	if s.up != nil {
		p.parent = s.up.name
	}
	if len(spans) > 0 {
		p.request = spans[0].path.request
	} else {
		p.request = x.paths.label(x.v, s.row)
	}
	return x.paths.bounded(s.operation, p)
}

// sweep sets the own time of spans. It assigns each instant to the deepest open span, and among equally deep spans to
// the span that began last.
func sweep(spans []*member) {
	slices.SortStableFunc(spans, func(a, b *member) int { return cmp.Compare(a.start, b.start) })
	marks := make([]int64, 0, 2*len(spans))
	for _, s := range spans {
		marks = append(marks, s.start, s.end)
	}
	slices.Sort(marks)
	var open [][]*member // by depth, in the order in which they began; some have already ended
	for i, at := range marks[:len(marks)-1] {
		for ; len(spans) > 0 && spans[0].start <= at; spans = spans[1:] {
			for len(open) <= spans[0].depth {
				open = append(open, nil)
			}
			open[spans[0].depth] = append(open[spans[0].depth], spans[0])
		}
		for n := len(open); n > 0; n = len(open) {
			list := open[n-1]
			last := len(list) - 1
			if last >= 0 && list[last].end > at {
				list[last].own += marks[i+1] - at
				break
			}
			open[n-1] = list[:max(0, last)]
			if last < 0 {
				open = open[:n-1]
			}
		}
	}
}

// log adds a log record to a call.
func (x *callReader) log(r view.Row, c *call) error {
	text, _ := x.v.Message(r)
	level := x.v.Flags(r).Level()
	if level < format.LevelWarn || c.request.refused {
		thing := item{kind: itemLog, text: cmp.Or(x.place(r, text), patternWith(text, true))}
		x.did(c, thing)
		return nil
	}
	thing := item{kind: itemWarning, place: x.place(r, text), text: patternWith(text, true)}
	if level >= format.LevelError {
		thing.kind, c.bad, c.request.bad = itemError, true, true
	}
	cause, err := x.texts.cause(r)
	thing.cause = patternWith(cause, true)
	x.did(c, thing)
	return err
}

// placeInText matches the place in the source at the beginning of a log record's text. Many loggers write one.
var placeInText = regexp.MustCompile(`^([^\s\[\]{}=]*?[\w$.\[\]]+(?:#\d+|\.\w{1,4}:\d+))(?:[\s:)\]]|$)`)

// place returns the place in the source where a log record was written, or "" if the place is not recorded.
func (x *callReader) place(r view.Row, text string) string {
	if m := x.v.Metadata(r); m.File.Valid {
		return m.File.Value + ":" + strconv.Itoa(int(m.Line.Value))
	}
	if m := placeInText.FindStringSubmatch(text[:min(len(text), maxPattern)]); m != nil {
		return m[1]
	}
	return ""
}
