package analyze

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/query"
)

const (
	exchanges = 20      // the number of random exchanges that measure the effect of chance
	mostTries = 100_000 // the maximum number of requests in all exchanges; twice as many if chance gave an equal cause once
)

// A Question says which requests Explain compares.
type Question struct {
	Before []query.Run // a baseline; if it is empty, Explain compares the requests of Now with each other
	Now    []query.Run
	// Without a baseline, Explain compares the requests from Since on with earlier requests. If Since is NoTime and
	// Alike is set, it compares requests that have selected rows with other requests of the same names. Otherwise it
	// compares the requests after the trigger of a flight recorder with earlier requests, if this shows a cause.
	// Otherwise it looks for the time of the largest change.
	Since  Time
	Alike  bool
	Deaths []Death             // processes whose files were not closed; File and Reason are set
	Clocks []Clock             // the corrections of the clocks; small differences between the corrected services are not sure
	Within bool                // only the rows in Now count, even if other rows belong to the same requests
	Top    *Overview           // the overview of Now from [Top]; nil: Explain calls Top
	Clock  func(t Time) string // prints a time of day in sentences; nil: UTC
}

// Explain says why the recording Now was made and how it ended, what fails in it, where its time is spent, and what
// changed.
func Explain(ctx context.Context, q *Question) (*Explanation, error) {
	alone := len(q.Before) == 0
	w, all, err := workloadOf(ctx, q, alone && q.Alike && q.Since == NoTime)
	if err != nil {
		return nil, err
	}
	w.clocks, w.clock = q.Clocks, q.Clock
	if w.clock == nil {
		w.clock = func(t Time) string { return time.Unix(0, int64(t)).UTC().Format("15:04:05.000") }
	}
	slices.SortStableFunc(w.requests, func(a, b *request) int { return cmp.Compare(a.start, b.start) })
	if len(w.requests) == 0 {
		x, err := w.explainRecords(ctx, q)
		x.Complete, x.Apart = all == 0, w.apart
		return x, cmp.Or(err, ctx.Err())
	}
	selected := alone && slices.ContainsFunc(w.requests, func(r *request) bool { return !r.now })
	x, others := &Explanation{}, "before"
	switch {
	case selected:
		others = "others"
		x, err = w.selected(ctx)
	case !alone:
		x = w.rank(0)
		w.exchangeSides(ctx, x)
		x.Baseline, err = w.noteOf()
	case q.Since != NoTime:
		x = w.sinceTime(q.Since)
	default:
		x = w.changed()
	}
	x.Failures = w.failures()
	w.cover(x)
	if !alone {
		w.blameFailures(x)
	}
	before, _ := divided(w.requests)
	among := false
	if alone && !selected && q.Since == NoTime && !x.Found && err == nil {
		among, err = w.among(ctx, x)
	}
	w.divide(0)
	if alone {
		w.setPeriods(x)
	}
	if err == nil && !among {
		for _, r := range before {
			r.now = false
		}
		err = w.within(ctx, x.Causes)
	}
	w.divide(0)
	v := q.Now[0].View
	if err == nil && alone && len(q.Now) == 1 {
		x.Deaths = w.died(v, q.Deaths)
		w.concerns(x, x.Deaths)
	}
	if c := x.sure(); c != nil && alone && err == nil {
		err = w.onset(ctx, x, c)
	}
	if err == nil && alone && !selected && len(q.Now) == 1 {
		err = w.tellState(ctx, x, q.Now[0], q.Top)
	}
	w.finish(x, others)
	x.Complete, x.Apart = all == len(w.requests), w.apart
	return x, cmp.Or(err, ctx.Err())
}

// selected compares the selected requests with the other requests of the same names.
func (w *workload) selected(ctx context.Context) (*Explanation, error) {
	x := w.rank(0)
	w.exchangeSides(ctx, x)
	var err error
	x.Shares, err = w.why(ctx, groupOf(w.requests, (*request).isNow), new(Evidence), 1)
	return x, err
}

// sinceTime compares the requests from a time on with earlier requests.
func (w *workload) sinceTime(at Time) *Explanation {
	i, _ := slices.BinarySearchFunc(w.requests, int64(at), func(q *request, at int64) int { return cmp.Compare(q.start, at) })
	x := w.since(i, 0)
	w.inTime(x, true)
	return x
}

// changed compares the requests after the trigger of a flight recorder, or else after the largest change, with
// earlier requests. If it finds a cause, the workload remains divided at that time. Otherwise the workload has no
// baseline.
func (w *workload) changed() *Explanation {
	if w.triggered != NoTime {
		if x := w.sinceTime(w.triggered); x.Found {
			return x
		}
	}
	x := w.sinceChange()
	w.divide(x.Looked.Requests[0])
	if x.Found {
		w.inTime(x, false)
	}
	if c := x.sure(); c != nil && c.Evidence[0].began != 0 { // the stretches say more exactly when the change began
		i, _ := slices.BinarySearchFunc(w.requests, c.Evidence[0].began, func(q *request, at int64) int { return cmp.Compare(q.start, at) })
		if min(i, len(w.requests)-i) >= fewApart {
			y := w.since(i, math.Log10(splits))
			w.inTime(y, false)
			if y.Found && y.Causes[0].Service == x.Causes[0].Service {
				x = y
			}
		}
	}
	w.divide(x.Looked.Requests[0])
	x.searched = true
	if c := x.sure(); c != nil && x.Since != nil {
		x.Since.Grows = c.Evidence[0].grows
	}
	if !x.Found {
		if x.busy && x.Since != nil {
			x.slower = w.slower(x.Since.At)
		}
		x.Since = nil
		x.Looked.Requests, x.Failed = [2]int{0, len(w.requests)}, [2]int{0, x.Failed[0] + x.Failed[1]}
		w.divide(0)
	}
	return x
}

// slower returns a text that says that requests of most kinds are slower since a given time, or "" if they are not.
// The workload must be divided at that time.
func (w *workload) slower(from Time) string {
	type growth struct {
		*route

		times float64
	}
	var grown []growth
	kinds := 0
	for r, of := range sidesOf(w.requests) {
		before, now := of[0].tooks, of[1].tooks
		if len(before) < few || len(now) < few {
			continue
		}
		kinds++
		if times := float64(now[len(now)/2]) / float64(max(1, before[len(before)/2])); times >= busyTimes {
			grown = append(grown, growth{r, times})
		}
	}
	if kinds == 0 || 2*len(grown) < kinds {
		return ""
	}
	slices.SortFunc(grown, func(a, b growth) int { return cmp.Or(cmp.Compare(b.n, a.n), a.compare(b.operation)) })
	var said []string
	for _, g := range grown[:min(len(grown), few)] {
		said = append(said, fmt.Sprintf("%s takes %.2g times as long", g.name, g.times))
	}
	return fmt.Sprintf("nearly everything is slower from %s on, because the machine is busy or something that all requests share is slow: %s", w.clock(from), strings.Join(said, ", "))
}

// setPeriods sets From and To of the sure causes.
func (w *workload) setPeriods(x *Explanation) {
	for i := range x.Causes {
		c := &x.Causes[i]
		if !c.Sure {
			continue
		}
		c.From, c.To = w.group(c.Service, &c.Evidence[0]).period()
	}
}

// tellState adds the trigger and the findings, which need no comparison.
func (w *workload) tellState(ctx context.Context, x *Explanation, run query.Run, top *Overview) (err error) {
	x.Trigger = w.trigger
	if x.Trigger != nil {
		err = x.Trigger.tell(run)
		if err != nil {
			return err
		}
	}
	for i := range x.Failures {
		x.Failures[i].Place, err = placeOf(run.View, x.Failures[i].Row)
		if err != nil {
			return err
		}
	}
	if top == nil {
		top, err = Top(ctx, run.View, run.Rows, few, nil)
		if err != nil {
			return err
		}
	}
	x.Where, err = w.where(ctx, run, top)
	if x.Trigger != nil && x.Trigger.Kind == "watchdog" && x.Trigger.Text == "" {
		x.Trigger.Text = top.Locks
	}
	return err
}

// finish makes the sentences, and leaves out causes and evidence that are not worth reporting.
func (w *workload) finish(x *Explanation, others string) {
	several := len(w.services()) > 1
	for i := range x.Failures {
		x.Failures[i].Text = x.Failures[i].sentence(several, w.clock)
	}
	for i := range x.Shares {
		x.Shares[i].Text = x.Shares[i].sentence(others, "")
	}
	for i := range x.Habits {
		x.Habits[i].Text = x.Habits[i].sentence(others, "")
	}
	x.Habits = x.Habits[:min(len(x.Habits), maxHabits)]
	for i := range x.Causes {
		c := &x.Causes[i]
		if c.To == NoTime && x.Since != nil && w.near(c.From, x.Since.At) {
			c.From = NoTime // x.Since has the same time
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
			c.Evidence[k].Text = c.Evidence[k].sentence(others, c.Operation)
		}
		c.More = n - len(c.Evidence)
		c.Covers.Text = c.Covers.text()
	}
	told := make(map[*series]bool)
	// Slower calls between two services are evidence for both services: report them once.
	x.Causes = slices.DeleteFunc(x.Causes, func(c Cause) bool {
		of := c.Evidence[0].series
		known := w.rules.alike && len(c.Evidence) == 1 && of != nil && told[of]
		told[of] = true
		return known
	})
	x.Verdict, x.Alarming = x.verdict(len(w.requests))
}

// since compares the requests from index i on with the earlier requests.
func (w *workload) since(i int, more float64) *Explanation {
	w.divide(i)
	x := w.rank(more)
	if x.Looked.Series > 0 {
		at := w.requests[i].start
		x.Since = &Since{At: Time(at), After: at - w.requests[0].start}
	}
	return x
}

// sure returns the first sure cause, or nil.
func (x *Explanation) sure() *Cause {
	if at := slices.IndexFunc(x.Causes, func(c Cause) bool { return c.Sure }); at >= 0 {
		return &x.Causes[at]
	}
	return nil
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

// exchangeSides measures how often chance gives causes that are as significant as the causes of x. It swaps requests
// between the two sides at random. It swaps whole requests, because the calls of a request depend on each other. If
// more than one tenth of the exchanges give such causes, no cause of x is sure any longer.
func (w *workload) exchangeSides(ctx context.Context, x *Explanation) {
	_, now := divided(w.requests)
	defer func() {
		w.divide(len(w.requests))
		for _, q := range now {
			q.now = true
		}
	}()
	tries := min(exchanges, mostTries/max(1, len(w.requests)))
	if !x.Found || tries < exchanges/4 {
		return
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same answer each time
	for x.Chance[1] < tries || x.Chance[0] > 0 && x.Chance[1] < min(exchanges, 2*tries) {
		r.Shuffle(len(w.requests), func(i, k int) {
			a, b := w.requests[i], w.requests[k]
			a.now, b.now = b.now, a.now
		})
		x.Chance[1]++
		if w.rank(0).surest() >= x.surest() {
			x.Chance[0]++
		}
		if ctx.Err() != nil {
			return
		}
	}
	if 10*x.Chance[0] > x.Chance[1] {
		for i := range x.Causes {
			x.Causes[i].Sure = false
		}
		x.Found = false
	}
}

// surest returns the sum of -log10 of the chances of the sure evidence for the first sure cause, or 0 if no cause
// is sure.
func (x *Explanation) surest() (p float64) {
	if c := x.sure(); c != nil {
		for _, e := range c.Evidence {
			if e.Sure {
				p -= e.Log10P
			}
		}
	}
	return p
}

// apart returns how well a division separates the requests: the largest weight of a cause, times a factor that is
// largest if both sides have the same number of requests. The result is largest where a change began.
func (x *Explanation) apart() float64 {
	most := 0.0
	for _, c := range x.Causes {
		weight := c.weight()
		if c.busy { // if everything is slower from here on, this counts as much as a cause
			weight = c.Score
		}
		most = max(most, weight)
	}
	before, now := float64(x.Looked.Requests[0]), float64(x.Looked.Requests[1])
	return most * math.Sqrt(before*now/(before+now))
}

// An end is one of the two services of an edge, as caller or as called service.
type end struct {
	called  bool
	service string
}

// rank ranks the causes of the differences between the baseline and the requests now. The parameter more is added to
// the -log10 of the chance that each test must reach.
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
		added := time / float64(max(1, s.requests))
		time /= total
		y, p := time*share, s.p
		if !s.edge && s.calls == nil { // if the whole service is more significant than the operation, use the service's chance
			q := pools[s.service]
			all := s.moreSlow(q.counts[0], q.counts[1], q.counts[2], q.counts[3])
			if q.n > 1 {
				if q.moved*2 > q.n {
					all = max(all, stat.Normal(q.u/math.Sqrt(q.variance)/scale))
				}
				p = max(p, all-math.Log10(2))
			}
		}
		certain := math.Pow(min(1, p/bound), 2)
		certainly := p >= bound && y >= leastTime
		sure := certainly && time >= w.rules.weight
		if w.rules.alike {
			x.busy = x.busy || s.busy
			sure = sure && !s.busy && (s.calls != nil || added >= leastAdded || min(s.n, s.m) >= enoughCalls) && (more == 0 || min(s.n, s.m) >= fewApart) // more: the place was searched for
		}
		if !s.edge {
			c := cause(s.service)
			c.certain = c.certain || certainly && w.rules.ranksSmall
			c.busy = c.busy || certainly && s.busy
			c.Parts.Time += y * certain
			kind := KindSlower
			if s.calls != nil {
				kind = KindMoreCalls
			}
			c.Evidence = append(c.Evidence, s.evidence(kind, s.name, y*certain, p, sure))
			continue
		}
		for _, e := range ends(s) {
			excess[e] += time * certain
			slow[e] += share * float64(s.m)
			c := cause(e.service)
			c.certain = c.certain || certainly && w.rules.ranksSmall
			c.Evidence = append(c.Evidence, s.evidence(KindSlowerCalls, s.service+" → "+s.name, y*certain, p, sure && !w.withinClockError(s)))
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
			certainly := o.p >= bound
			sure := certainly && w.matters(kind, k, len(now), x.Failed[1])
			c.certain = c.certain || certainly && w.rules.ranksSmall
			e := w.oddity(o, kind, o.weight*float64(k)/float64(len(now)), sure)
			c.Evidence = append(c.Evidence, e)
		}
	}
	w.leaveOutHabits(x, slices.Collect(maps.Values(causes)))
	x.conclude(causes)
	return x
}

// leaveOutHabits makes evidence about new spans and given-up habits unsure and adds it to x.Habits, if there is no
// other sure evidence and the change does no harm. A change does no harm if the method hurts returns false, or the
// method partly returns true.
func (w *workload) leaveOutHabits(x *Explanation, causes []*Cause) {
	isHabit := func(e Evidence) bool { return e.Kind == KindNew || e.Kind == KindNoLonger }
	for _, c := range causes {
		if slices.ContainsFunc(c.Evidence, func(e Evidence) bool { return e.Sure && !isHabit(e) }) {
			return
		}
	}
	for _, c := range causes {
		for i := range c.Evidence {
			e := &c.Evidence[i]
			if e.Sure && isHabit(*e) && (w.rules.alike && w.partly(e.odd) || !w.hurts(e.odd)) {
				e.Sure = false
				x.Habits = append(x.Habits, *e)
			}
		}
	}
	slices.SortFunc(x.Habits, func(a, b Evidence) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Pattern, b.Pattern))
	})
}

func (c *Cause) weight() float64 {
	if c.Sure || c.certain {
		return c.Score
	}
	return c.Score * notSure
}

// moreErrors returns the errors and warnings in x that are more frequent now, the most significant first. The
// parameter x is a result of rank.
func (w *workload) moreErrors(x *Explanation) (list []Evidence) {
	for _, o := range x.odd {
		if kind, _, bound := w.family(o, x.tried, 0); kind == KindError || kind == KindWarning {
			e := w.oddity(o, kind, 0, o.p >= bound)
			e.Text = e.sentence("before", "")
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b Evidence) int { return cmp.Compare(a.Log10P, b.Log10P) })
	return list
}

// conclude sorts the evidence of the causes, and the causes.
func (x *Explanation) conclude(causes map[string]*Cause) {
	for _, c := range causes {
		slices.SortFunc(c.Evidence, func(a, b Evidence) int {
			return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Place, b.Place), cmp.Compare(a.After, b.After))
		})
		c.Score = c.Parts.Time + c.Parts.Calls + c.Parts.Acts
		c.Sure = slices.ContainsFunc(c.Evidence, func(e Evidence) bool { return e.Sure })
		c.headedBy(&c.Evidence[0])
	}
	for _, c := range causes {
		x.Causes = append(x.Causes, *c)
	}
	x.order()
	x.More = max(0, len(x.Causes)-maxCauses)
	x.Causes = x.Causes[:len(x.Causes)-x.More]
}

// headedBy makes e the evidence that names the operation of a cause.
func (c *Cause) headedBy(e *Evidence) {
	c.Operation, c.Kind, c.Query, c.Of = e.Operation, e.Kind, e.query(c.Service), ""
	if e.series != nil && e.series.path.parent != "" && len(e.series.parts) == 0 {
		c.Of = e.series.path.request
	}
}

// order sorts the causes by weight, and sets Found.
func (x *Explanation) order() {
	slices.SortStableFunc(x.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.weight(), a.weight()), cmp.Compare(a.Service, b.Service))
	})
	x.Found = x.sure() != nil
}

// partly reports whether most calls keep a habit, or the calls without it do something else in its place. In both
// cases the calls without the habit lack nothing: they take another path, for instance because they open a
// connection.
func (w *workload) partly(o *oddity) bool {
	if !o.gone {
		return false
	}
	var with, without []*call
	for _, c := range w.byName[o.operation] {
		if c.does(o.item) {
			with = append(with, c)
		} else if c.request.now && o.in(c) {
			without = append(without, c)
		}
	}
	had := frequencies(with)
	for n, f := range frequencies(without) {
		if float64(f.calls) >= nearlyAll*float64(len(without)) && float64(had[n].calls) <= (1-nearlyAll)*float64(len(with)) {
			return true
		}
	}
	return 2*o.counts[2] > o.counts[3]
}

// hurts reports whether any requests fail more often than before, or requests with the oddity o take clearly longer.
// It compares them with present requests without o, or with earlier requests if fewer than fewApart present requests
// lack o. A habit that calls give up without harm is a change, but no cause.
func (w *workload) hurts(o *oddity) bool {
	if w.failsMore() {
		return true
	}
	shows, names := make(map[*request]bool), make(map[*route]bool)
	for _, c := range w.all {
		if c.request.now && (c.operation == o.operation || o.name == "" && c.service == o.service) && o.in(c) {
			shows[c.request], names[c.request.route] = true, true
		}
	}
	tooks := make(map[*route]*[3][]int64) // before, now without the oddity, and now with it
	for _, q := range w.requests {
		side := q.side()
		if shows[q] {
			side = 2
		}
		if names[q.route] {
			of := at(tooks, q.route)
			of[side] = append(of[side], q.took)
		}
	}
	was, is, u, variance := 0.0, 0.0, 0.0, 0.0
	for _, of := range tooks {
		for _, list := range of {
			slices.Sort(list)
		}
		before, now := of[0], of[2]
		if len(of[1]) >= fewApart {
			before = of[1]
		}
		if len(before) == 0 || len(now) == 0 {
			continue
		}
		m := float64(len(now))
		was, is = was+m*float64(before[len(before)/2]), is+m*float64(now[len(now)/2])
		a, b := stat.RankSum(before, now)
		u, variance = u+a, variance+b
	}
	return is > was*(1+leastHarm) && variance > 0 && stat.Normal(u/math.Sqrt(variance)) >= alpha
}

// failsMore reports whether the requests of a name, or with an error, fail more often than before.
func (w *workload) failsMore() bool {
	sides := sidesOf(w.requests)
	for _, of := range sides {
		before, now := len(of[0].tooks), len(of[1].tooks)
		if before > 0 && stat.MoreOften(of[1].bad, now, of[0].bad, before) >= need(len(sides), 0) {
			return true
		}
	}
	return false
}

// cover counts for each sure cause the failed and the slow requests in which the cause shows. If Explain searched for
// the time of the change, a cause that harms only one or two requests is not sure. Causes that cover at least half of
// the failures go first.
func (w *workload) cover(x *Explanation) {
	sides, slow, failed := sidesOf(w.requests), make(map[*request]bool), x.Failed[1]
	_, now := divided(w.requests)
	for _, q := range now {
		if list := sides[q.route][0].tooks; len(list) >= fewApart && q.took > list[len(list)-1-len(list)/20] {
			slow[q] = true
		}
	}
	for i := range x.Causes {
		c := &x.Causes[i]
		if !c.Sure {
			continue
		}
		c.Covers = Covered{Failed: [2]int{0, failed}, Slow: [2]int{0, len(slow)}}
		seen := make(map[*request]bool)
		for _, call := range w.group(c.Service, &c.Evidence[0]).sides[true] {
			q := call.request
			if seen[q] {
				continue
			}
			seen[q] = true
			if q.failed {
				c.Covers.Failed[0]++
			}
			if slow[q] {
				c.Covers.Slow[0]++
			}
		}
		harmed := len(seen)
		if kind := c.Kind; kind != KindError && kind != KindWarning && kind != KindNoLonger && kind != KindNew {
			c.Covers.Failed[0] = 0 // these requests are slow, and fail for another reason
			if len(slow) > 0 {
				harmed = c.Covers.Slow[0]
			}
		}
		if x.searched && len(seen) > 0 && harmed < few {
			c.Sure = false
		}
	}
	x.order()
	ofFailures := func(c Cause) bool { return c.Sure && 2*c.Covers.Failed[0] >= max(few, c.Covers.Failed[1]) }
	slices.SortStableFunc(x.Causes, func(a, b Cause) int {
		switch {
		case a.Sure && b.Sure && ofFailures(a) && !ofFailures(b):
			return -1
		case a.Sure && b.Sure && ofFailures(b) && !ofFailures(a):
			return 1
		}
		return 0
	})
}

// verdict returns a sentence about the most important result: the trigger or a death, else failures, else a cause,
// else where the time is spent. The result alarming says whether something is wrong.
func (x *Explanation) verdict(requests int) (text string, alarming bool) {
	cause := ""
	if c := x.sure(); c != nil {
		cause = c.sentence()
	}
	failure := ""
	if at := slices.IndexFunc(x.Failures, func(f Failure) bool { return f.State != AsBefore }); at >= 0 {
		failure = x.Failures[at].Text
		f := &x.Failures[at]
		if small := float64(f.Now.N) < leastFailing*float64(f.Now.Of); small && f.State != AtOneTime {
			failure = ""
		}
	}
	covered := slices.ContainsFunc(x.Causes, func(c Cause) bool { return c.Sure && c.Covers.Failed[0] > 0 })
	switch {
	case x.Trigger != nil:
		return x.Trigger.sentence(), true
	case len(x.Deaths) > 0:
		return x.Deaths[0].Text, true
	case cause != "" && (failure == "" || covered):
		return cause, true
	case failure != "":
		return failure, true
	case cause != "":
		return cause, true
	case x.slower != "":
		return x.slower, false
	case len(x.Where) > 0 && requests < 2*fewApart:
		return "too few requests to find a change; " + absolute(x.Where), false
	case len(x.Where) > 0:
		return "no change in this file; " + absolute(x.Where), false
	case len(x.Causes) > 0:
		return "no cause found; the largest difference is in " + name(x.Causes[0].Service), false
	case x.Looked.Series+x.Looked.Errors == 0:
		return "no cause found: too few calls of the same operations to compare", false
	}
	return "no cause found: nothing is different", false
}

// sentence returns the text of a sure cause for a verdict.
func (c *Cause) sentence() string {
	text := "cause: " + name(c.Service)
	if what := cmp.Or(c.Operation, c.Evidence[0].Pattern); what != "" {
		text += ", " + what
	}
	if c.Of != "" && c.Of != c.Operation {
		text += " of " + c.Of
	}
	said := strings.TrimPrefix(c.Evidence[0].Pattern, c.Operation+": ")
	if c.Kind == KindError && said != "" && !strings.HasSuffix(text, said) {
		text += ": " + said
	}
	if len(c.Evidence) > 1 && c.Evidence[1].Kind == KindShare {
		text += ", " + c.Evidence[1].Pattern
	}
	return text
}
