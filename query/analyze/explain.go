package analyze

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/query"
)

// An Explanation says why a recording is slower than another one, or fails more often: its causes, ranked.
type Explanation struct {
	Verdict  string  `json:"verdict"`  // a sentence
	Found    bool    `json:"found"`    // a cause is sure
	Complete bool    `json:"complete"` // all requests were compared, and not a part of them
	Looked   Looked  `json:"looked"`
	Chance   [2]int  `json:"chance"`     // how often chance did as much, and in how many tries; none if there is no sure cause
	Since    *Since  `json:"since"`      // nil: with a baseline, and without a sure cause
	Causes   []Cause `json:"causes"`     // at most six
	More     int     `json:"more"`       // causes that are left out
	Shares   []Share `json:"shares"`     // what the selected requests, or the slow ones, have more often than the others
	Failed   [2]int  `json:"failed"`     // requests, before and now
	Apart    int     `json:"logs_apart"` // log records that belong to no request, and were not looked at

	odd   []*oddity
	tried tried
}

// Looked counts what was compared: requests, and tests of each kind.
type Looked struct {
	Requests  [2]int  `json:"requests"` // before and now
	Series    int     `json:"series"`   // times of operations and of calls between services
	Errors    int     `json:"errors"`
	Habits    int     `json:"habits"`
	AllSlower float64 `json:"all_slower"` // by how much all times moved together, in standard deviations
	Spread    float64 `json:"spread"`
}

// Since is when the requests begin that are compared with those before them.
type Since struct {
	At    Time  `json:"at_unix_nano"`
	After int64 `json:"after_nano"` // since the first request
}

// A Cause is a service that others suffer from.
type Cause struct {
	Service   string     `json:"service"`
	Operation string     `json:"operation"` // of the first evidence
	Kind      string     `json:"kind"`
	Score     float64    `json:"score"` // the sum of Parts, which are shares of the time and of the requests
	Sure      bool       `json:"sure"`
	Parts     Parts      `json:"parts"`
	Evidence  []Evidence `json:"evidence"` // at most five, what says most first
	More      int        `json:"more"`
	Query     string     `json:"query"`   // selects what the first evidence is about
	Command   string     `json:"command"` // shows it; set by commands
}

// Parts are what a score is the sum of.
type Parts struct {
	Time  float64 `json:"time"`      // of its own
	Calls float64 `json:"calls"`     // between it and others
	Acts  float64 `json:"behaviour"` //nolint:misspell // errors, and what it does no longer; the key is that of the schema
}

// An Evidence is a sign of a cause.
type Evidence struct {
	Kind      string  `json:"kind"` // slower, slower calls, error, warning, new or no longer
	Operation string  `json:"operation"`
	Place     string  `json:"place,omitempty"` // in the source
	Pattern   string  `json:"pattern,omitempty"`
	After     string  `json:"after,omitempty"` // what calls did before what they do no longer
	Before    Count   `json:"before"`
	Now       Count   `json:"now"`
	Over      int64   `json:"over_nano,omitempty"` // from there on a call is slow
	Text      string  `json:"text"`                // a sentence
	Share     float64 `json:"share"`
	Log10P    float64 `json:"log10p"` // of the chance
	Sure      bool    `json:"sure"`

	about item
}

// A Count is how many calls of an operation a sign is in.
type Count struct {
	N      int   `json:"n"`
	Of     int   `json:"of"`
	Median int64 `json:"median_nano,omitempty"`
}

// A Share is a value that selected or slow requests have more often than others.
type Share struct {
	Where  string `json:"where"` // a filter that selects rows with the value
	In     int64  `json:"in"`
	Others int64  `json:"others"`
	Of     [2]int `json:"of"` // such requests, and others
}

const (
	maxCauses   = 6
	maxEvidence = 5
	splits      = 12      // parts, between which a recording without a baseline may be divided
	fewApart    = 10      // requests before and behind, unless all are fewer than twice as many
	exchanges   = 20      // how often requests are exchanged, to see what chance does
	mostTries   = 100_000 // requests that are compared in all exchanges
)

// Explain compares the runs now with those before. If there are none before, it compares requests of the runs now: those
// from a time on, if since is one; else, if alike is set, those of which a run selects rows with others of the same names;
// else those from the largest change on, which it looks for.
func Explain(ctx context.Context, before, now []query.Run, since Time, alike bool) (*Explanation, error) {
	alone := len(before) == 0
	w, all, err := workloadOf(ctx, before, now, alone && alike && since == NoTime)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(w.requests, func(a, b *request) int { return cmp.Compare(a.start, b.start) })
	x := &Explanation{}
	switch {
	case since != NoTime && alone:
		at, _ := slices.BinarySearchFunc(w.requests, int64(since), func(q *request, at int64) int { return cmp.Compare(q.start, at) })
		x = w.since(at, 0)
	case !alone:
		x = w.rank(0)
	case slices.ContainsFunc(w.requests, func(q *request) bool { return !q.now }):
		x = w.rank(0)
		x.Shares, err = w.shares(ctx)
	default:
		x = w.sinceChange()
		requests := slices.Clone(w.requests)
		w.exchange(ctx, x, splits, func(i, k int) { w.requests[i], w.requests[k] = w.requests[k], w.requests[i] }, w.sinceChange)
		w.requests = requests
		if w.divide(x.Looked.Requests[0]); !x.Found {
			if x.Since = nil; w.slow() {
				x.Shares, err = w.shares(ctx)
			}
		}
	}
	w.exchange(ctx, x, 1, func(i, k int) {
		a, b := w.requests[i], w.requests[k]
		a.now, b.now = b.now, a.now
	}, func() *Explanation { return w.rank(0) })
	if x.Complete, x.Apart = all == len(w.requests), w.apart; x.Verdict == "" {
		x.Verdict = "no cause found: there are no requests to compare"
	}
	return x, cmp.Or(err, ctx.Err())
}

// divide makes the requests from the i-th on those that are explained.
func (w *workload) divide(i int) {
	for k, q := range w.requests {
		q.now = k >= i
	}
}

// since ranks the requests from the i-th on beside those before.
func (w *workload) since(i int, more float64) *Explanation {
	w.divide(i)
	x := w.rank(more)
	if x.Looked.Series > 0 {
		at := w.requests[i].start
		x.Since = &Since{Time(at), at - w.requests[0].start}
	}
	return x
}

// sinceChange ranks the requests from the largest change on.
func (w *workload) sinceChange() *Explanation {
	n := len(w.requests)
	x := w.since(n/2, math.Log10(splits))
	for i := 1; i < splits; i++ {
		at := n * i / splits
		if try := w.since(at, math.Log10(splits)); min(at, n-at) >= fewApart && try.apart() > x.apart() { // each try costs
			x = try
		}
	}
	return x
}

// slow makes the requests that took far longer than most with their name those that are explained, if there are enough.
func (w *workload) slow() bool {
	byName := make(map[operation][]int64)
	for _, q := range w.requests {
		name := operationOf(q.view, q.row)
		byName[name] = append(byName[name], q.took)
	}
	for name, list := range byName {
		slices.Sort(list)
		byName[name] = []int64{3 * list[len(list)*3/4]}
	}
	n := 0
	for _, q := range w.requests {
		if q.now = q.took > byName[operationOf(q.view, q.row)][0]; q.now {
			n++
		}
	}
	return n >= few
}

// exchange says how often chance does as much: whole requests are exchanged, as calls of one are not independent, and ranked
// again, which looks at so many places. A cause that more than a tenth of the tries have is none, or more than a twelfth if the
// place was looked for.
func (w *workload) exchange(ctx context.Context, x *Explanation, places int, swap func(i, k int), again func() *Explanation) {
	tries := min(exchanges, mostTries/max(1, places*len(w.requests)))
	if !x.Found || x.Chance[1] > 0 || tries < exchanges/4 {
		return
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same answer each time
	for range tries {
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

// shares returns the attributes that the requests now have more often than the others.
func (w *workload) shares(ctx context.Context) ([]Share, error) {
	v := w.requests[0].view
	in, others := v.NewSet(), v.NewSet()
	for _, q := range w.requests {
		switch {
		case q.view != v: // one run is looked at
		case q.now:
			in.Add(q.row)
		default:
			others.Add(q.row)
		}
	}
	c, err := query.ContrastOf(ctx, query.Run{View: v, Rows: in}, query.Run{View: v, Rows: others})
	if err != nil {
		return nil, err
	}
	var list []Share
	for _, f := range c.Fields {
		if !strings.Contains(f.Field, ".") { // the query says it, or follows from what it says
			continue
		}
		for _, v := range f.Values {
			if !v.Chance && v.Difference > 0 && len(list) < 3 {
				list = append(list, Share{v.Where, v.In, v.Others, [2]int{int(c.In), int(c.Others)}})
				break
			}
		}
	}
	return list, nil
}

// surest returns how sure the first cause is.
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

// apart says how much of now the first cause is to blame for. It is as large as can be where a change began.
func (x *Explanation) apart() float64 {
	if len(x.Causes) == 0 {
		return 0
	}
	before, now := float64(x.Looked.Requests[0]), float64(x.Looked.Requests[1])
	return x.Causes[0].weight() * math.Sqrt(before*now/(before+now))
}

// An end is one of the two services of calls.
type end struct {
	called  bool
	service string
}

// rank explains what is different now. More is added to the bounds.
func (w *workload) rank(more float64) *Explanation {
	before, now := divided(w.requests, func(q *request) bool { return q.now })
	x := &Explanation{Looked: Looked{Requests: [2]int{len(before), len(now)}}}
	for i, list := range [2][]*request{before, now} {
		for _, q := range list {
			if q.bad {
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
			causes[service] = &Cause{Service: service}
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
		p := pools[s.service]
		if p == nil {
			p = new(pool)
			pools[s.service] = p
		}
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
		if time <= 0 || s.p <= 0 || total == 0 {
			continue
		}
		time /= total
		y, p := time*share, s.p
		if !s.edge { // an operation is as sure as all of its service
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
			c.Evidence = append(c.Evidence, s.evidence("slower", s.name, y*certain, p, sure))
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

// moreErrors returns the errors and warnings that calls have more often now, the surest first, of those that rank looked at.
func (w *workload) moreErrors(x *Explanation) (list []Evidence) {
	for _, o := range x.odd {
		if kind, _, bound := w.family(o, x.tried, 0); kind == "error" || kind == "warning" {
			list = append(list, w.oddity(o, kind, 0, o.p >= bound))
		}
	}
	slices.SortStableFunc(list, func(a, b Evidence) int { return cmp.Compare(a.Log10P, b.Log10P) })
	return list
}

// conclude sorts the causes, and says which it is.
func (x *Explanation) conclude(causes map[string]*Cause) {
	for _, c := range causes {
		slices.SortFunc(c.Evidence, func(a, b Evidence) int {
			return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Place, b.Place), cmp.Compare(a.After, b.After))
		})
		first := &c.Evidence[0]
		c.Score = c.Parts.Time + c.Parts.Calls + c.Parts.Acts
		c.Sure = slices.ContainsFunc(c.Evidence, func(e Evidence) bool { return e.Sure })
		c.Operation, c.Kind, c.Query = first.Operation, first.Kind, first.query(c.Service)
		c.More = max(0, len(c.Evidence)-maxEvidence)
		c.Evidence = c.Evidence[:len(c.Evidence)-c.More]
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
	default:
		x.Verdict = "no cause found: nothing is different"
	}
}

func took(n int64) []byte { return quantity.AppendShort(nil, time.Duration(n)) }

func name(service string) string { return cmp.Or(service, "(no service)") }

func (s *series) evidence(kind, operation string, share, p float64, sure bool) Evidence {
	return Evidence{
		Kind: kind, Operation: operation, Before: Count{s.was, s.n, s.med}, Now: Count{s.slow, s.m, s.now}, Over: s.limit, Share: share, Log10P: -p, Sure: sure,
		Text: fmt.Sprintf("median %s → %s, %d of %d over %s (before %d of %d): %s", took(s.med), took(s.now), s.slow, s.m, took(s.limit), s.was, s.n, operation),
	}
}

func (w *workload) oddity(o *oddity, kind string, share float64, sure bool) Evidence {
	x := w.items[o.item]
	e := Evidence{
		Kind: kind, Operation: o.name, Place: x.place, Pattern: x.said(), After: w.items[o.after].text, Before: Count{N: o.counts[0], Of: o.counts[1]},
		Now: Count{N: o.counts[2], Of: o.counts[3]}, Share: share, Log10P: -o.p, Sure: sure, about: x,
	}
	if x.cause != "" {
		e.Pattern += ": " + x.cause
	}
	verb := kind
	if o.gone {
		verb += map[itemKind]string{itemLog: " logged", itemSpan: " done", itemCall: " called"}[x.kind]
	}
	e.Text = strings.Replace(fmt.Sprintf("%d of %d calls of %s (before %d of %d): %s %s", e.Now.N, e.Now.Of, o.name, e.Before.N, e.Before.Of, verb, e.Pattern), " of  (", " (", 1)
	return e
}

// query returns a query that selects what the evidence is about.
func (e *Evidence) query(service string) string {
	of := query.Where("service", service)
	switch e.Kind {
	case "slower":
		over := e.Over
		if e.Now.N == 0 { // all of them are a little slower
			over = e.Before.Median
		}
		return "{ " + of + " && " + query.Where("name", e.Operation) + " && self > " + strconv.FormatInt(over, 10) + "ns }"
	case "slower calls":
		from, to, _ := strings.Cut(e.Operation, " → ")
		return "{ " + query.Where("service", to) + " && " + query.Where("parent:service", from) + " }"
	case "error", "warning":
		if e.about.name != "" {
			return "{ " + of + " && " + query.Where("name", e.about.name) + " && (span:failed || level >= error) }"
		}
		found := false
		for _, text := range []string{e.about.said(), e.about.cause} { // up to what differs, or would have to be escaped
			if text = strings.TrimRight(text[:strings.IndexAny(text+"<", "<…\"\\\t\r")], " :"); text != "" {
				of, found = of+` && "`+text+`"`, true
			}
		}
		if !found {
			of += " && level >= warn"
		}
		return of
	}
	return "{ " + of + " && " + query.Where("name", e.Operation) + " }"
}
