package analyze

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

const (
	farAbove    = 3   // slow calls are reported if their median is at least this many times the median of all calls
	leastGap    = 0.2 // the least difference between the shares of slow calls and of other calls that have a value
	gapByRun    = 0.7 // the least gap for spans that ran at the same time; larger, because many spans run at the same time
	leastBeside = 0.2 // if the only evidence is spans that ran beside slow calls, a cause must have at least this score
)

// ofOutcome matches names of attributes in OpenTelemetry's semantic conventions that say how a call ended, and not
// why.
var ofOutcome = regexp.MustCompile(`^(event)?\.(.*\.)?(err|error|exception)(\.|$)|http\.(response|status)|(status|response)[._]?code|otel\.status|rpc\..*status`)

// SaysOutcome reports whether a field is an attribute that says how a call ended, and not why.
func SaysOutcome(field string) bool { return ofOutcome.MatchString(field) }

// accidental matches attributes that differ from connection to connection, such as the port of a client.
var accidental = regexp.MustCompile(`peer\.port|client\.port|source\.port|thread\.`)

// A group holds the calls of an operation that were slow or had an error, and the other calls of the operation.
type group struct {
	view  *view.View
	sides map[bool][]*call // true: the slow or failed calls; false: the others
}

// slow returns causes without a comparison over time: calls that were far slower than most calls of their operation,
// and errors that at most half of the calls of their service have. The causes are sorted by importance.
func (w *workload) slow() (list []Cause) {
	add := func(service string, e Evidence, p Parts) {
		list = append(list, Cause{From: NoTime, To: NoTime, Service: service, Operation: e.Operation, Kind: e.Kind, Score: e.Share, Sure: true, Parts: p, Evidence: []Evidence{e}, Query: e.query(service)})
	}
	time := 0.0
	for _, q := range w.requests {
		time += float64(q.took)
	}
	for _, m := range w.samples {
		if m.edge {
			continue
		}
		_, all := tooks(m.sorted)
		tell := func(slow []int64, median int64) {
			over := 0.0
			for _, n := range slow {
				over += float64(n-median) / time
			}
			if len(slow) < few || over < w.rules.weight || slow[len(slow)/2] < farAbove*median {
				return
			}
			e := Evidence{
				Kind: KindSlow, Operation: m.name, Before: Count{Of: len(all) - len(slow), Median: median}, Now: Count{len(slow), len(all), slow[len(slow)/2]},
				Over: slow[0] - 1, Share: over, Sure: true, among: true, series: &series{sample: m, limit: slow[0] - 1},
			}
			if m.calls != nil {
				e.Kind = KindMoreCalls
			}
			add(m.service, e, Parts{Time: over})
		}
		if m.calls != nil && all[len(all)/2] == 0 {
			continue // most spans make no calls, for instance because of a cache, so a call is not unusual
		}
		tell(stat.Slow(all), all[len(all)/2])
		tell(mostSlow(all)) // if most calls are slow, compare them with the few fast ones
	}
	failed := 0
	for _, q := range w.requests {
		if q.failed {
			failed++
		}
	}
	byService, passes := make(map[string][]*call), make(map[*call]bool)
	for _, c := range slices.Backward(w.all) { // in this direction, callees precede their callers
		if c.bad && c.up != nil {
			passes[c.up] = true
		}
		if !passes[c] {
			byService[c.service] = append(byService[c.service], c)
		}
	}
	for service, calls := range byService {
		for n, f := range frequencies(calls) {
			if w.items[n].kind != itemError || f.requests < few || 2*f.calls > len(calls) || !w.matters(KindError, f.requests, len(w.requests), failed) {
				continue
			}
			e := w.oddity(&oddity{item: n, counts: [4]int{0, 0, f.calls, len(calls)}}, KindError, float64(f.calls)/float64(len(w.requests)), true)
			e.among = true
			add(service, e, Parts{Acts: e.Share})
		}
	}
	slices.SortFunc(list, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Evidence[0].Text, b.Evidence[0].Text))
	})
	return list[:min(len(list), maxCauses)]
}

// mostSlow divides the calls of an operation if most of them are slow, for instance because they wait for a lock. It
// returns the sorted durations of the slow calls, and the median of the few calls that are far faster. It returns nil
// if no calls are far faster than the others.
func mostSlow(all []int64) (slow []int64, median int64) {
	if n := len(stat.Fast(all)); n >= few && all[(n+len(all))/2] >= farAbove*farAbove*all[n/2] {
		return all[n:], all[n/2]
	}
	return nil, 0
}

// among replaces the causes of x by causes that the method slow returns. It chooses the causes whose calls
// differ from other calls in an attribute or in the spans that ran at the same time. It reports whether there
// are any.
func (w *workload) among(ctx context.Context, x *Explanation) (told bool, err error) {
	w.divide(0)
	causes := w.slow()
	err = w.within(ctx, causes)
	causes = slices.DeleteFunc(causes, func(c Cause) bool {
		// On a busy machine, any long operation slows others. It is a cause only if it costs much time.
		from, to := w.group(c.Service, &c.Evidence[0]).period()
		// A short stall makes everything slow that is open at that moment.
		stall := to != NoTime && to-from < w.length()/stretches
		besideOnly := !slices.ContainsFunc(c.Evidence[1:], func(e Evidence) bool { return !e.beside })
		return stall || len(c.Evidence) == 1 || besideOnly && c.Score < leastBeside
	})
	told = len(causes) > 0
	if told {
		x.Found, x.Causes, x.More, x.Since, x.Chance = true, causes, 0, nil, [2]int{}
		x.Looked.Requests, x.Failed = [2]int{0, len(w.requests)}, [2]int{0, x.Failed[0] + x.Failed[1]}
	}
	return told, err
}

// within adds evidence to each sure cause: properties that distinguish its calls from the other calls now.
func (w *workload) within(ctx context.Context, causes []Cause) error {
	for i := range causes {
		c := &causes[i]
		if !c.Sure {
			continue
		}
		g := w.group(c.Service, &c.Evidence[0])
		if calls := g.sides[true]; len(calls) > 0 {
			slices.SortStableFunc(calls, func(a, b *call) int { return cmp.Compare(a.end-a.start, b.end-b.start) })
			c.Example = calls[len(calls)/2].row
		}
		why, err := w.why(ctx, g, &c.Evidence[0], len(causes))
		if err != nil {
			return err
		}
		c.Evidence = slices.Insert(c.Evidence, 1, why...)
	}
	return nil
}

// group divides the calls now of an operation into the calls that show an evidence and the others.
func (w *workload) group(service string, e *Evidence) *group {
	g := &group{sides: make(map[bool][]*call)}
	switch {
	case e.Over > 0 && !e.series.edge:
		shown := e.series.shown()
		over := shown.limit
		_, now := tooks(shown.sorted)
		if slow := stat.Slow(now); len(slow) > 0 {
			over = min(over, slow[0]-1) // also include calls below the limit that are far slower than most calls now
		}
		for _, d := range shown.list {
			g.add(d.call, d.took > over)
		}
	case e.odd != nil:
		// Count only operations of which some call shows the evidence, so that like is compared with like.
		shows := make(map[operation]bool)
		for _, c := range w.all {
			shows[c.operation] = shows[c.operation] || !w.rules.alike || e.odd.in(c)
		}
		for _, c := range w.all {
			if c.service == service && (c.operation == e.odd.operation || e.odd.name == "" && shows[c.operation]) {
				g.add(c, e.odd.in(c))
			}
		}
	}
	return g
}

// groupOf divides whole requests into two sides.
func groupOf(requests []*request, in func(q *request) bool) *group {
	g := &group{requests[0].view, make(map[bool][]*call)}
	for _, q := range requests {
		side := in(q)
		g.sides[side] = append(g.sides[side], &call{request: q, row: q.row, start: q.start})
	}
	return g
}

// add adds a call if its request is compared with the baseline. It ignores calls of other runs than the run of the
// first call.
func (g *group) add(c *call, in bool) {
	if v := c.request.view; c.request.now && (g.view == nil || g.view == v) {
		g.view, g.sides[in] = v, append(g.sides[in], c)
	}
}

// why returns evidence that distinguishes the calls of a group from the other calls. The parameter groups is the number
// of groups that are tested. For slow calls, why also considers spans that ran at the same time.
func (w *workload) why(ctx context.Context, g *group, e *Evidence, groups int) (list []Evidence, err error) {
	slow, gap := e.Over > 0, leastGap
	if n, of := e.Before.N*e.Now.Of, e.Before.Of*e.Now.N; n < of {
		gap *= 1 - float64(n)/float64(of) // require less if some calls showed the evidence before as well
	}
	if len(g.sides[true]) < few || len(g.sides[false]) < few {
		return nil, nil
	}
	rows := []func(c *call) view.Row{func(c *call) view.Row { return c.row }, func(c *call) view.Row { return c.request.row }}
	if !slices.ContainsFunc(g.sides[true], func(c *call) bool { return c.up != nil }) {
		rows = rows[:1] // the calls are whole requests
	}
	for i, rowOf := range rows {
		in, others := g.view.NewSet(), g.view.NewSet()
		for _, c := range g.sides[true] {
			in.Add(rowOf(c))
		}
		for _, c := range g.sides[false] {
			if r := rowOf(c); !in.Has(r) {
				others.Add(r)
			}
		}
		var ran []Beside
		if slow && i == 0 {
			longest := slices.MaxFunc(g.sides[true], func(a, b *call) int { return cmp.Compare(a.end-a.start, b.end-b.start) })
			ran = slices.DeleteFunc(RanBeside(g.view, longest.row, in, others), func(b Beside) bool {
				// Ignore requests of the same name: they overlap more because they are slow. Also ignore a span that is
				// far slower than usual: it waits for the same thing as the slow calls.
				return operation{service: b.Service, name: b.Name} == operationOf(g.view, longest.request.row) || b.Took > farAbove*farAbove*b.typical
			})
		}
		if most := len(g.sides[true]) > len(g.sides[false]); most && slow {
			return tellRan(list, ran, groups), nil // an attribute value of most calls would not describe the problem
		}
		list, err = tell(ctx, list, g.view, in, others, ran, groups, gap, i == 0)
		if err != nil {
			return nil, err
		}
	}
	return g.requests(list, groups), nil
}

// requests adds the name of a request to list, if most of the calls belong to requests of this name, but most of
// the other calls do not.
func (g *group) requests(list []Evidence, groups int) []Evidence {
	sides := make(map[bool]map[string]int)
	for in, calls := range g.sides {
		sides[in] = make(map[string]int)
		for _, c := range calls {
			sides[in][g.view.Name(c.request.row)]++
		}
	}
	for of, n := range sides[true] {
		in, others, m := len(g.sides[true]), len(g.sides[false]), sides[false][of]
		p := stat.MoreOften(n, in, m, others)
		if 2*n > in && 2*m < others && p >= need(groups*(len(sides[true])+len(sides[false])), 0) {
			list = addShare(list, shareOf("of "+of, "of requests "+of, Count{N: n, Of: in}, Count{N: m, Of: others}, p))
		}
	}
	return list
}

// tell adds evidence that distinguishes spans from others to a list: attributes, and spans that ran at the same time.
// The parameter groups is the number of groups that are tested, and gap the least difference between shares. If
// instances is set, tell also adds one attribute of the resource, to distinguish the instances of a service.
func tell(ctx context.Context, list []Evidence, v *view.View, in, others view.Set[view.Row], ran []Beside, groups int, gap float64, instances bool) ([]Evidence, error) {
	c, err := query.ContrastOf(ctx, query.Run{View: v, Rows: in}, query.Run{View: v, Rows: others})
	if err != nil {
		return nil, err
	}
	tests := groups
	for _, f := range c.Fields {
		tests += groups * len(f.Values)
	}
	for _, f := range c.Fields {
		resource := strings.HasPrefix(f.Field, "resource.")
		if f.Field[0] != '.' && !strings.HasPrefix(f.Field, "event.") && (!resource || !instances) || SaysOutcome(f.Field) || accidental.MatchString(f.Field) {
			continue
		}
		if at := slices.IndexFunc(f.Values, func(x query.ValueShare) bool { return x.Difference > 0 }); at >= 0 {
			x := f.Values[at]
			p := stat.MoreOften(int(x.In), int(c.In), int(x.Others), int(c.Others))
			// Omit values that a query cannot name or that are too long for a sentence.
			if uint(len(x.Where)-1) >= maxPattern || x.Chance || x.Difference < gap || p < need(tests, 0) {
				continue
			}
			instances = instances && !resource
			list = addShare(list, shareOf("where "+x.Where, x.Where, Count{N: int(x.In), Of: int(c.In)}, Count{N: int(x.Others), Of: int(c.Others)}, p))
		}
	}
	return tellRan(list, ran, groups), nil
}

// tellRan adds the names of spans that ran at the same time, if the difference is large and significant.
func tellRan(list []Evidence, ran []Beside, groups int) []Evidence {
	for _, b := range ran {
		if b.p >= need(groups*besideLooked, 0) && b.In-b.Others >= gapByRun {
			list = addShare(list, Evidence{
				beside: true, Log10P: -b.p, Pattern: "while " + b.Name + " runs",
				Text: fmt.Sprintf("%s of %s runs during most of the call in %.0f %% of these calls and %.0f %% of the others", b.Name, name(b.Service), math.Round(100*b.In), math.Round(100*b.Others)),
			})
		}
	}
	return list
}

// shareOf returns the evidence for addShare that calls have something more often than others.
func shareOf(pattern, what string, these, others Count, p float64) Evidence {
	text := fmt.Sprintf("%s: %d of these %d calls, %d of the %d others", what, these.N, these.Of, others.N, others.Of)
	return Evidence{Pattern: pattern, Before: others, Now: these, Log10P: -p, Text: text}
}

// addShare adds an evidence of the kind "share", unless the list already has its pattern or is full.
func addShare(list []Evidence, e Evidence) []Evidence {
	known := slices.ContainsFunc(list, func(l Evidence) bool { return l.Pattern == e.Pattern })
	e.Kind, e.Sure = KindShare, true
	if known || len(list) >= maxEvidence-1 {
		return list
	}
	return append(list, e)
}
