package analyze

import (
	"cmp"
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/query"
)

const (
	exchanges = 20      // the number of random exchanges that measure the effect of chance
	mostTries = 100_000 // the maximum number of requests in all exchanges; doubled if chance did as much in one
)

// Explain compares the runs now with the runs before. If before is empty, Explain compares requests of the runs
// now with each other. If since is a time, it compares the requests from then on with earlier ones. Otherwise, if
// alike is set, it compares requests with selected rows with other requests of the same names. Otherwise it
// compares the requests after the trigger of a flight recorder with earlier ones, if this shows a cause. If all
// this does not apply, it looks for the time of the largest change, and compares the requests from then on with
// earlier ones.
func Explain(ctx context.Context, before, now []query.Run, since Time, alike bool) (*Explanation, error) {
	alone := len(before) == 0
	w, all, err := workloadOf(ctx, before, now, alone && alike && since == NoTime)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(w.requests, func(a, b *request) int { return cmp.Compare(a.start, b.start) })
	x, whole := &Explanation{}, false
	from := func(at Time) {
		i, _ := slices.BinarySearchFunc(w.requests, int64(at), func(q *request, at int64) int { return cmp.Compare(q.start, at) })
		x = w.since(i, 0)
	}
	exchange := func() {
		w.exchange(ctx, x, 1, func(i, k int) {
			a, b := w.requests[i], w.requests[k]
			a.now, b.now = b.now, a.now
		}, func() *Explanation { return w.rank(0) })
	}
	switch {
	case since != NoTime && alone:
		from(since)
	case !alone:
		x = w.rank(0)
	case slices.ContainsFunc(w.requests, func(q *request) bool { return !q.now }):
		x = w.rank(0)
		selected := &group{w.requests[0].view, make(map[bool][]*call)}
		for _, q := range w.requests {
			selected.sides[q.now] = append(selected.sides[q.now], &call{request: q, row: q.row})
		}
		x.Shares, err = w.why(ctx, selected, new(Evidence), 1)
		for _, c := range x.Causes {
			for i := range c.Evidence {
				c.Evidence[i].Text = strings.Replace(c.Evidence[i].Text, "(before ", "(others ", 1)
			}
		}
	default:
		if w.triggered != NoTime {
			from(w.triggered)
			exchange()
		}
		if x.Found {
			w.divide(x.Looked.Requests[0])
			break
		}
		x = w.sinceChange()
		requests := slices.Clone(w.requests)
		w.exchange(ctx, x, splits, func(i, k int) { w.requests[i], w.requests[k] = w.requests[k], w.requests[i] }, w.sinceChange)
		w.requests = requests
		whole = len(requests) > 0
		if w.divide(x.Looked.Requests[0]); !x.Found {
			x.Since = nil
		}
	}
	was, _ := divided(w.requests)
	exchange()
	if whole {
		whole, err = w.among(ctx, x)
	}
	w.divide(0)
	for i := range x.Causes {
		if c := &x.Causes[i]; c.Sure && alone {
			c.From, c.To = w.group(c.Service, &c.Evidence[0]).period()
		}
	}
	if err == nil && !whole {
		for _, q := range was {
			q.now = false
		}
		err = w.within(ctx, x.Causes)
	}
	if at := slices.IndexFunc(x.Causes, func(c Cause) bool { return c.Sure }); at >= 0 {
		if alone && err == nil {
			err = w.onset(ctx, x, &x.Causes[at])
		}
		if c := &x.Causes[at]; len(c.Evidence) > 1 && c.Evidence[1].Kind == "share" {
			x.Verdict += ", " + c.Evidence[1].Pattern
		} else if what := cmp.Or(c.Operation, c.Evidence[0].Pattern); what != "" {
			x.Verdict += ", " + what
		}
	}
	for i := range x.Causes {
		c := &x.Causes[i]
		if c.To == NoTime && x.Since != nil && w.near(c.From, x.Since.At) {
			c.From = NoTime // x.Since has this time already
		}
		n, rest := len(c.Evidence), c.Evidence[1:]
		switch {
		case c.Sure:
			rest = slices.DeleteFunc(rest, func(e Evidence) bool { return !e.Sure })
		case i > 0:
			rest = nil
		}
		c.Evidence = c.Evidence[:1+min(len(rest), maxEvidence-1)]
		for k := range c.Evidence {
			c.Evidence[k].Text = strings.TrimSuffix(c.Evidence[k].Text, ": "+c.Operation) // it is printed above the evidence
		}
		c.More = n - len(c.Evidence)
	}
	if x.Complete, x.Apart = all == len(w.requests), w.apart; x.Verdict == "" {
		x.Verdict = "no cause found: there are no requests to compare"
	}
	return x, cmp.Or(err, ctx.Err())
}

// since compares the requests from index i on with the earlier ones.
func (w *workload) since(i int, more float64) *Explanation {
	w.divide(i)
	x := w.rank(more)
	if x.Looked.Series > 0 {
		at := w.requests[i].start
		x.Since = &Since{Time(at), at - w.requests[0].start}
	}
	return x
}

// sinceChange compares the requests after the largest change with the earlier requests.
func (w *workload) sinceChange() *Explanation {
	n := len(w.requests)
	x := w.since(n/2, math.Log10(splits))
	for i := 1; i < splits; i++ {
		at := n * i / splits
		if try := w.since(at, math.Log10(splits)); min(at, n-at) >= fewApart && try.apart() > x.apart() {
			x = try
		}
	}
	return x
}

// exchange measures how often chance gives causes that are as significant as those of x. It swaps requests between
// the sides at random, and calls again to rank the causes. It swaps whole requests, because the calls of a request
// depend on each other. The parameter places is the number of places of a change that again considers. If chance
// did as much in more than one tenth of the exchanges, or one twelfth with several places, no cause of x is sure
// any longer.
func (w *workload) exchange(ctx context.Context, x *Explanation, places int, swap func(i, k int), again func() *Explanation) {
	tries := min(exchanges, mostTries/max(1, places*len(w.requests)))
	if !x.Found || x.Chance[1] > 0 || tries < exchanges/4 {
		return
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same answer each time
	for x.Chance[1] < tries || x.Chance[0] > 0 && x.Chance[1] < min(exchanges, 2*tries) {
		r.Shuffle(len(w.requests), swap)
		if x.Chance[1]++; again().surest() >= x.surest() {
			x.Chance[0]++
		}
		if ctx.Err() != nil {
			return
		}
	}
	if max(10, places)*x.Chance[0] > x.Chance[1] {
		for i := range x.Causes {
			x.Causes[i].Sure = false
		}
		x.Found, x.Verdict = false, "no cause found; the largest difference is in "+name(x.Causes[0].Service)
	}
}

// surest returns the sum of -log10 of the chances of the sure evidence for the first sure cause, or 0 if no cause
// is sure.
func (x *Explanation) surest() (p float64) {
	for _, c := range x.Causes {
		if !c.Sure {
			continue
		}
		for _, e := range c.Evidence {
			if e.Sure {
				p -= e.Log10P
			}
		}
		break
	}
	return p
}

// apart returns how well a division separates the requests: the weight of the first cause, times a factor that is
// largest if both sides have the same number of requests. It is largest where a change began.
func (x *Explanation) apart() float64 {
	if len(x.Causes) == 0 {
		return 0
	}
	before, now := float64(x.Looked.Requests[0]), float64(x.Looked.Requests[1])
	return x.Causes[0].weight() * math.Sqrt(before*now/(before+now))
}

// An end is one of the two services of an edge, as caller or as called service.
type end struct {
	called  bool
	service string
}

// rank ranks the causes of the differences between the baseline and the requests now. It adds more to the required
// -log10 of each test.
func (w *workload) rank(more float64) *Explanation {
	before, now := divided(w.requests)
	x := &Explanation{Looked: Looked{Requests: [2]int{len(before), len(now)}}}
	for i, list := range [2][]*request{before, now} {
		for _, q := range list {
			if q.failed {
				x.Failed[i]++
			}
		}
	}
	if len(before) == 0 || len(now) == 0 {
		return x
	}
	total := 0.0
	for _, q := range now {
		total += float64(q.took)
	}
	times, mid, scale := w.series()
	odd, n := w.oddities()
	n.times = len(times)
	x.odd, x.tried = odd, n
	x.Looked = Looked{x.Looked.Requests, n.times, n.errors, n.habits, mid, scale}
	causes := make(map[string]*Cause)
	cause := func(service string) *Cause {
		if causes[service] == nil {
			causes[service] = &Cause{Service: service, From: NoTime, To: NoTime}
		}
		return causes[service]
	}
	type pool struct {
		u, variance float64
		n, moved    int
		counts      [4]int
	}
	pools := make(map[string]*pool)
	calls, excess, slow := make(map[end]float64), make(map[end]float64), make(map[end]float64)
	ends := func(s *series) [2]end { return [2]end{{false, s.service}, {true, s.name}} }
	for _, s := range times {
		if s.edge {
			for _, e := range ends(s) {
				calls[e] += float64(s.m)
			}
			continue
		}
		if s.calls != nil {
			continue
		}
		p := at(pools, s.service)
		p.u, p.variance, p.n = p.u+s.u-mid*math.Sqrt(s.variance), p.variance+s.variance, p.n+1
		if s.moved() {
			p.moved++
		}
		for i, k := range [4]int{s.kept[0], s.kept[1], s.was, s.n} {
			p.counts[i] += k
		}
	}
	bound := need(n.times, more)
	for _, s := range times {
		time, share := s.excess()
		if time <= 0 || s.p <= 0 || total == 0 || s.calls != nil && s.p < bound {
			continue
		}
		time /= total
		y, p := time*share, s.p
		if !s.edge && s.calls == nil { // an operation is at least as significant as its whole service
			q := pools[s.service]
			if all := stat.MoreOften(q.counts[0], q.counts[1], q.counts[2], q.counts[3]); q.n > 1 {
				if q.moved*2 > q.n {
					all = max(all, stat.Normal(q.u/math.Sqrt(q.variance)/scale))
				}
				p = max(p, all-math.Log10(2))
			}
		}
		certain := math.Pow(min(1, p/bound), 2)
		sure := p >= bound && y >= leastTime
		if !s.edge {
			c := cause(s.service)
			c.Parts.Time += y * certain
			kind := "slower"
			if s.calls != nil {
				kind = "more calls"
			}
			c.Evidence = append(c.Evidence, s.evidence(kind, s.name, y*certain, p, sure))
			continue
		}
		for _, e := range ends(s) {
			excess[e] += time * certain
			slow[e] += share * float64(s.m)
			c := cause(e.service)
			c.Evidence = append(c.Evidence, s.evidence("slower calls", s.service+" → "+s.name, y*certain, p, sure))
		}
	}
	for _, called := range []bool{false, true} {
		for service, c := range causes {
			e := end{called, service}
			if excess[e] > 0 {
				y := excess[e] * slow[e] / calls[e]
				if called {
					y *= calleeNow
				}
				c.Parts.Calls += y
			}
		}
	}
	for _, o := range odd {
		_, weight, bound := w.family(o, n, more)
		if !o.gone {
			is, was := float64(o.counts[2])/float64(o.counts[3]), float64(o.counts[0])/float64(o.counts[1])
			weight *= max(0, is-was) / is
		}
		o.weight = weight * math.Pow(min(1, o.p/bound), 2)
	}
	score, why := w.blame(odd)
	for service, list := range why {
		c := cause(service)
		c.Parts.Acts = score[service] / float64(len(now))
		for o, k := range list {
			kind, _, bound := w.family(o, n, more)
			c.Evidence = append(c.Evidence, w.oddity(o, kind, o.weight*float64(k)/float64(len(now)), o.p >= bound))
		}
	}
	x.conclude(causes)
	return x
}

func (c *Cause) weight() float64 {
	if c.Sure {
		return c.Score
	}
	return c.Score * notSure
}

// moreErrors returns those of the errors and warnings in x, which rank returned, that are more frequent now, the
// most significant first.
func (w *workload) moreErrors(x *Explanation) (list []Evidence) {
	for _, o := range x.odd {
		if kind, _, bound := w.family(o, x.tried, 0); kind == "error" || kind == "warning" {
			list = append(list, w.oddity(o, kind, 0, o.p >= bound))
		}
	}
	slices.SortStableFunc(list, func(a, b Evidence) int { return cmp.Compare(a.Log10P, b.Log10P) })
	return list
}

// conclude sorts the causes and sets the verdict.
func (x *Explanation) conclude(causes map[string]*Cause) {
	for _, c := range causes {
		slices.SortFunc(c.Evidence, func(a, b Evidence) int {
			return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Place, b.Place), cmp.Compare(a.After, b.After))
		})
		first := &c.Evidence[0]
		c.Score = c.Parts.Time + c.Parts.Calls + c.Parts.Acts
		c.Sure = slices.ContainsFunc(c.Evidence, func(e Evidence) bool { return e.Sure })
		c.Operation, c.Kind, c.Query = first.Operation, first.Kind, first.query(c.Service)
		x.Found = x.Found || c.Sure
	}
	list := slices.SortedFunc(maps.Values(causes), func(a, b *Cause) int {
		return cmp.Or(cmp.Compare(b.weight(), a.weight()), cmp.Compare(a.Service, b.Service))
	})
	x.More = max(0, len(list)-maxCauses)
	for _, c := range list[:len(list)-x.More] {
		x.Causes = append(x.Causes, *c)
	}
	at := slices.IndexFunc(list, func(c *Cause) bool { return c.Sure })
	switch {
	case at >= 0:
		x.Verdict = "cause: " + name(list[at].Service)
	case len(list) > 0:
		x.Verdict = "no cause found; the largest difference is in " + name(list[0].Service)
	case x.Looked.Series+x.Looked.Errors == 0:
		x.Verdict = "no cause found: too few calls of the same operations to compare"
	default:
		x.Verdict = "no cause found: nothing is different"
	}
}
