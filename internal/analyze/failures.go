package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/view"
)

// A Failure describes requests of one name with the same innermost failed span. Failed spans above that span only
// pass the failure on and are not failures of their own.
type Failure struct {
	Request   string   `json:"request"` // the name of the requests, with their route
	Service   string   `json:"service"` // the service of the innermost failed span
	Operation string   `json:"operation"`
	Pattern   string   `json:"pattern"`         // the error text, without numbers and ids
	Status    string   `json:"status"`          // the HTTP or gRPC status of the innermost span that has one
	Place     string   `json:"place,omitempty"` // the place in the source, if a stack is recorded
	Before    Count    `json:"before"`
	Now       Count    `json:"now"`
	State     Changed  `json:"state"`
	From      Time     `json:"from_unix_nano"` // if the requests failed in one short period, its start; else NoTime
	To        Time     `json:"to_unix_nano"`
	Log10P    float64  `json:"log10p"` // the decimal logarithm of the probability that the difference is chance
	Row       view.Row `json:"row"`    // an example
	Text      string   `json:"text"`   // a sentence
}

// Changed says how a failure now differs from before.
type Changed string

// The states of a failure.
const (
	NewRequest Changed = "new request"      // no request of this name is in the baseline
	New        Changed = "new"              // the failure did not happen before
	More       Changed = "more than before" // significantly more often
	AsBefore   Changed = "as before"
	AtOneTime  Changed = "at one time" // nearly all failures are in a short part of the recording
	AllFail    Changed = "all of them" // nearly all requests of the name fail, and did so before or there is no comparison
	Some       Changed = ""            // there is no comparison, and neither AtOneTime nor AllFail applies
)

// A failureKind identifies a kind of failure.
type failureKind struct {
	service, name, text, status string
	example                     view.Row // not part of the key
}

// A route holds the requests of one service and name, and the time that they spend in each operation.
type route struct {
	operation // the name includes the HTTP route

	took int64
	n    int
	own  map[operation]*ownTime // by operation without a path
}

// A side has the requests of a route on one side of a comparison.
type side struct {
	tooks []int64 // ascending
	bad   int     // requests that failed or have a call with an error
}

// sidesOf returns the two sides of each route of a list of requests.
func sidesOf(list []*request) map[*route]*[2]side {
	sides := make(map[*route]*[2]side)
	for _, q := range list {
		s := &at(sides, q.route)[q.side()]
		s.tooks = append(s.tooks, q.took)
		if q.failed || q.bad {
			s.bad++
		}
	}
	for _, of := range sides {
		slices.Sort(of[0].tooks)
		slices.Sort(of[1].tooks)
	}
	return sides
}

// An ownTime sums the own time of the spans of an operation.
type ownTime struct {
	took, most int64
	longest    view.Row
}

// addToRoute adds a request to its route, and finds its innermost failure.
func (x *callReader) addToRoute(q *request, spans []*member) (err error) {
	key := operation{service: spans[0].service, name: x.paths.label(x.v, q.row)}
	t := x.routes[key]
	if t == nil {
		t = &route{operation: key, own: make(map[operation]*ownTime)}
		x.routes[key] = t
	}
	q.route = t
	t.n, t.took = t.n+1, t.took+q.took
	for _, s := range spans {
		o := at(t.own, operation{service: s.service, name: s.name})
		o.took += s.own
		if s.own >= o.most {
			o.most, o.longest = s.own, s.row
		}
	}
	if q.failed {
		q.failure, err = x.failureOf(spans)
	}
	return err
}

// failureOf returns the kind of the innermost failure of a request: the last failed span without a failed span below
// it.
func (x *callReader) failureOf(spans []*member) (*failureKind, error) {
	inner := spans[0]
	for _, s := range spans {
		if s.failed && !s.passes {
			inner = s
		}
	}
	text, err := x.texts.of(inner.row)
	if err != nil {
		return nil, err
	}
	var logged view.Row
	said, has := strings.CutPrefix(text, inner.name+": ")
	if !has { // the span has no error text, but a log record below it or below its callers may have one
		said = ""
		for s := inner; s != nil && said == ""; s = s.up {
			logged, said, err = x.loggedError(s.row)
			if err != nil {
				return nil, err
			}
		}
	}
	k := failureKind{service: inner.service, name: inner.name, text: Pattern(said)}
	if x.v.Flags(inner.row).Status() == "unset" { // the record says that the span failed, and perhaps with which status
		k.status = x.paths.statusOf(logged)
	}
	for s := inner; s != nil && k.status == ""; s = s.up {
		k.status = x.paths.statusOf(s.row)
	}
	known := x.kinds[k]
	if known == nil {
		known = new(k)
		known.example = inner.row
		x.kinds[k] = known
	}
	return known, nil
}

// loggedError returns the last log record of level ERROR directly below a row, and its text. If there is none, it
// returns 0 and "".
func (x *callReader) loggedError(r view.Row) (logged view.Row, text string, err error) {
	for _, kid := range x.v.Children(r) {
		if x.v.Role(kid) == view.RoleLog && x.v.Flags(kid).Level() >= format.LevelError && err == nil {
			logged = kid
			text, err = x.texts.of(kid)
		}
	}
	return logged, text, err
}

const (
	leastFailing = .1 // a failure is not reported if it is a smaller share both of the requests of its name and of all failed requests
	leastBurst   = 5  // the least number of failures of a kind in a burst
	nearlyAll    = .9 // at least this share counts as nearly all, see AllFail
)

// failures counts the failed requests by their names and innermost failures, the most frequent first.
func (w *workload) failures() []Failure {
	type key struct {
		of *route
		at *failureKind
	}
	found := make(map[key]*[2]int)
	requests, failed := [2]int{}, 0
	for _, q := range w.requests {
		side := q.side()
		requests[side]++
		if q.failure != nil {
			at(found, key{q.route, q.failure})[side]++
			if q.now {
				failed++
			}
		}
	}
	sides := sidesOf(w.requests)
	var all []Failure
	for k, n := range found {
		of := sides[k.of]
		total := [2]int{len(of[0].tooks), len(of[1].tooks)}
		rare := n[1] < few && len(w.requests) >= 2*fewApart
		if rare || n[1] == 0 || float64(n[1]) < leastFailing*float64(failed) && float64(n[1]) < leastFailing*float64(total[1]) {
			continue
		}
		f := Failure{
			Request: k.of.name, Service: k.at.service, Operation: k.at.name, Pattern: k.at.text, Status: k.at.status,
			Before: Count{N: n[0], Of: total[0]}, Now: Count{N: n[1], Of: total[1]}, Row: k.at.example,
		}
		p := stat.MoreOften(n[1], total[1], n[0], total[0])
		switch {
		case requests[0] == 0:
		case total[0] == 0:
			f.State, p = NewRequest, stat.MoreOften(n[1], requests[1], 0, requests[0])
		case n[0] == 0:
			f.State = New
		default:
			f.State = More
		}
		f.Log10P = -p
		if f.State != Some && p < need(len(found), 0) {
			f.State = AsBefore
		}
		f.From, f.To = NoTime, NoTime
		if f.State == AsBefore || f.State == Some {
			from, to := w.periodOf(k.of, k.at)
			switch {
			case to != NoTime && n[1] >= leastBurst:
				f.State, f.From, f.To = AtOneTime, from, to
			case float64(n[1]) >= nearlyAll*float64(total[1]):
				f.State = AllFail
			}
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Now.N, a.Now.N), cmp.Compare(a.Request, b.Request), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Pattern, b.Pattern))
	})
	return all[:min(len(all), maxFailures)]
}

// periodOf returns when nearly all failures of a kind happened. The result from is NoTime if the failures are spread
// over the recording, and to is NoTime if they lasted until the end.
func (w *workload) periodOf(of *route, kind *failureKind) (from, to Time) {
	requests := slices.DeleteFunc(slices.Clone(w.requests), func(q *request) bool { return q.route != of || !q.now })
	return groupOf(requests, func(q *request) bool { return q.failure == kind }).period()
}

// blameFailures adds a cause for failures that the baseline does not have, unless a cause covers most of the failed
// requests already. Otherwise a failed operation that has no call in the baseline would not be compared.
func (w *workload) blameFailures(x *Explanation) {
	failed, requests := x.Failed[1], x.Looked.Requests[1]
	covered := slices.ContainsFunc(x.Causes, func(c Cause) bool { return c.Sure && 2*c.Covers.Failed[0] >= failed })
	for _, f := range x.Failures {
		isNew := f.State == NewRequest || f.State == New
		if covered || !isNew || !w.matters(KindError, f.Now.N, requests, failed) {
			continue
		}
		e := Evidence{
			Kind: KindError, Operation: f.Operation, Pattern: f.Pattern, Before: f.Before, Now: f.Now, Text: f.sentence(false, w.clock),
			Share: float64(f.Now.N) / float64(requests), Log10P: f.Log10P, Sure: true, about: item{kind: itemError, name: f.Operation},
		}
		c := Cause{
			Service: f.Service, Score: e.Share, Sure: true, Parts: Parts{Acts: e.Share}, From: NoTime, To: NoTime, Example: f.Row,
			Covers: Covered{Failed: [2]int{f.Now.N, failed}}, Evidence: []Evidence{e},
		}
		c.headedBy(&e)
		x.Causes = slices.Insert(x.Causes, 0, c)
		x.Found, covered = true, true
	}
}

// sentence returns the text of a failure. If several services have spans, it names the service.
func (f *Failure) sentence(several bool, clock func(t Time) string) string {
	where := f.Operation
	if several && f.Service != "" {
		where = f.Service + " " + where
	}
	said := cmp.Or(f.Pattern, "no reason is recorded")
	if where == f.Request || strings.HasPrefix(f.Request, where+" ") {
		where = ""
	} else {
		where += ": "
	}
	text := fmt.Sprintf("%d of %d requests %s fail: %s%s", f.Now.N, f.Now.Of, f.Request, where, said)
	if f.Status != "" && !strings.Contains(said, f.Status) {
		text += ", status " + f.Status
	}
	if f.Place != "" {
		text += ", at " + f.Place
	}
	switch f.State {
	case NewRequest:
		text += " (no such request before)"
	case AtOneTime:
		text += fmt.Sprintf(", nearly all within %s from %s on", took(int64(f.To-f.From)), clock(f.From))
	case New, More, AsBefore:
		text += fmt.Sprintf(" (before %d of %d)", f.Before.N, f.Before.Of)
	}
	return text
}

// placeOf returns the place in the source of a failed span: the innermost frame of the program in the stack of its
// exception, or "".
func placeOf(v *view.View, r view.Row) (string, error) {
	for _, kid := range v.Children(r) {
		e, err := v.Entry(kid)
		if err != nil {
			return "", err
		}
		for _, name := range [2]string{"exception.stacktrace", "stack"} {
			if stack, has := e.Attribute(name); has {
				if place := callstack.Place(stack.Text(), ""); place != "" {
					return strings.Clone(place), nil
				}
			}
		}
	}
	return "", nil
}

// services returns the names of the services that have calls.
func (w *workload) services() []string {
	all := make(map[string]bool)
	for _, c := range w.all {
		all[c.service] = true
	}
	return slices.Sorted(maps.Keys(all))
}
