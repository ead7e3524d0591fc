package analyze

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/entrace-go/entrace/internal/read/stat"
)

// A duration is the time of one call.
type duration struct {
	took int64
	call *call
}

// A sample holds measured values of an operation, of an edge or of an arrow. For an operation, a value is the time in
// which a span was the deepest open span. For an edge, it is the own time of a span that calls one other service: the
// time in which no span below it ran. For an arrow, it is the number of a span's calls of an operation, multiplied by
// the average time of a call so that it can be treated as a time.
type sample struct {
	sampled

	calls   *counted // nil for times
	list    []duration
	sorted  []duration // ascending
	medians []duration // the median of each request, ascending, because calls of one request depend on each other
}

// A sampled identifies the operation, edge or arrow of a sample.
type sampled struct {
	operation

	edge bool // the operation has a service, and as its name a service that it calls
}

func byTook(a, b duration) int { return cmp.Compare(a.took, b.took) }

// sort sets the sorted values. The durations of a request are adjacent in the list.
func (m *sample) sort() {
	m.sorted = slices.SortedFunc(slices.Values(m.list), byTook)
	for from := 0; from < len(m.list); {
		to := from
		for to < len(m.list) && m.list[to].call.request == m.list[from].call.request {
			to++
		}
		of := slices.SortedFunc(slices.Values(m.list[from:to]), byTook)
		m.medians = append(m.medians, of[(to-from)/2])
		from = to
	}
	slices.SortFunc(m.medians, byTook)
}

// tooks returns the times of the two sides of a list.
func tooks(list []duration) (before, now []int64) {
	before, now = make([]int64, 0, len(list)), make([]int64, 0, len(list))
	for _, d := range list {
		if d.isNow() {
			now = append(now, d.took)
		} else {
			before = append(before, d.took)
		}
	}
	return before, now
}

// A series compares the values of a sample before with its values now.
type series struct {
	*sample

	grown           float64 // for calls, the additional calls per span
	n, m            int     // the numbers of values before and now
	med, now, limit int64
	slow, was       int // values above the limit, now and before
	// kept has the numbers of slow values and of all values now, without the eighth of the recording with most slow
	// values.
	kept             [2]int
	tail, shift, far int64
	u, variance, z   float64
	auc, p           float64   // p is -log10 of the chance
	parts            []*series // the series of the kinds of calls of one name; empty if there is one kind
	most             *series   // the part with most additional time, whose values are shown; nil if there is one kind
	step             float64   // the least growth of the median that matters
	before           []int64   // the values before, ascending
	elsewhere        float64   // the share of the calls of other services, or of other operations, that are slow now
	requests         int       // the number of requests now that have these calls
	busy             bool      // the share elsewhere has grown, as on a busy machine, or half of the operations take far longer
}

// time returns the approximate total time of the calls before.
func (s *series) time() float64 { return float64(s.med) * float64(s.n) }

// shared reports whether the series has enough values and time to estimate the common shift of all operations. The
// parameter all is the total time of all series.
func (s *series) shared(all float64) bool { return min(s.n, s.m) >= 8 && s.time() > leastShared*all }

// newSeries compares the two sides of a sample. It returns nil if one side has too few values.
func (w *workload) newSeries(of *sample, floor int64) *series {
	b, v := tooks(of.sorted)
	if len(b) < few || len(v) == 0 {
		return nil
	}
	s := &series{sample: of, n: len(b), m: len(v), med: b[len(b)/2], now: v[len(v)/2], step: w.rules.step, before: b}
	s.limit = int64(w.rules.slow*float64(b[min(s.n-1, int(.95*float64(s.n)))])) + floor
	sum := func(list []int64) (slow int, excess int64) {
		from, _ := slices.BinarySearch(list, s.limit+1)
		for _, x := range list[from:] {
			excess += x - s.med
		}
		return len(list) - from, excess
	}
	var had, has int64
	s.was, had = sum(b)
	s.slow, has = sum(v)
	s.tail = max(0, has-had*int64(s.m)/int64(s.n))
	s.shift = max(0, s.now-s.med) * int64(s.m)
	if s.slow > 0 {
		s.far = v[s.m-s.slow+s.slow/2] - s.med // the middle slow value
	}
	s.kept = [2]int{s.slow, s.m}
	if s.slow > 1 && s.m >= eighths {
		var late, every [eighths]int
		for _, d := range of.list {
			if !d.isNow() {
				continue
			}
			every[d.call.request.eighth]++
			if d.took > s.limit {
				late[d.call.request.eighth]++
			}
		}
		worst := 0
		for i := range late {
			if late[i] > late[worst] || late[i] == late[worst] && every[i] < every[worst] {
				worst = i
			}
		}
		s.kept = [2]int{s.slow - late[worst], s.m - every[worst]}
	}
	_, requests := tooks(of.medians)
	s.requests = len(requests)
	u, _ := stat.RankSum(b, v)
	s.auc = u/float64(s.n*s.m) + .5
	s.u, s.variance = stat.RankSum(tooks(of.medians))
	if s.variance > 0 {
		s.z = s.u / math.Sqrt(s.variance)
	}
	return s
}

// judge tests whether the values have grown, and stores -log10 of the chance of such a growth in p. Before the tests,
// it removes the shift that all operations have in common, for instance on a busy machine: mid is the median of all z,
// and scale measures their spread. The function off returns the sorted differences between all times before and the
// median of their operation.
func (s *series) judge(mid, scale float64, off func() []int64) {
	s.z = (s.z - mid) / scale
	p := s.moreSlow(s.kept[0], s.kept[1], s.was, s.n)
	if s.moved() {
		p = max(p, stat.Normal(s.z))
	}
	if k, m := s.kept[0]-s.kept[0]/2, s.kept[1]; k > 0 && s.far > farOff*s.limit {
		all := off()
		at, _ := slices.BinarySearch(all, s.far)
		if q := max(float64(len(all)-at+1)/float64(len(all)+1), float64(s.was)/2/float64(s.n), s.elsewhere/2); float64(m)*q < float64(k) {
			p = max(p, stat.AtLeast(k, m, q))
		}
	}
	s.p = max(0, p-math.Log10(3)) // a correction for the choice of the best of three tests
}

// moreSlow returns -log10 of the chance that k of n values are slow. Slow values must be more frequent than before,
// and more frequent than elsewhere now, because a busy machine makes some calls of all operations slow.
func (s *series) moreSlow(k, n, k0, n0 int) float64 {
	p := stat.MoreOften(k, n, k0, n0)
	if s.elsewhere > 0 {
		p = min(p, stat.AtLeast(k, n, s.elsewhere))
	}
	return p
}

// setElsewhere sets for each series the share of the other calls that are slow now. The other calls are the calls of
// other services, because a fault of a service may slow all its operations. If other services have too few calls, they
// are the calls of other operations.
func setElsewhere(all []*series) {
	// Slow and all calls, now and before; by operation, by service (without a name), and in total (without both).
	of := make(map[operation]*[4]int)
	for _, s := range all {
		if s.edge {
			continue
		}
		for _, key := range []operation{{service: s.service, name: s.name}, {service: s.service}, {}} {
			for i, k := range [4]int{s.slow, s.m, s.was, s.n} {
				at(of, key)[i] += k
			}
		}
	}
	total := at(of, operation{})
	for _, s := range all {
		for _, key := range []operation{{service: s.service}, {service: s.service, name: s.name}} {
			own := at(of, key)
			slow, n, slow0, n0 := total[0]-own[0], total[1]-own[1], total[2]-own[2], total[3]-own[3]
			if n < leastElsewhere {
				continue
			}
			s.elsewhere = float64(slow) / float64(n)
			s.busy = s.elsewhere >= busyShare && s.elsewhere*float64(n0) >= busyTimes*float64(slow0) && stat.MoreOften(slow, n, slow0, n0) >= alpha
			break
		}
	}
}

// setSharedSlows marks all series as busy if at least half of five or more operations take far longer: then something
// that they share is slow, and the operation that grew most is only a victim. The parameter time is the total time of
// all series.
func setSharedSlows(all []*series, time float64) {
	moved, of := 0, 0
	for _, s := range all {
		if !s.shared(time) {
			continue
		}
		of++
		if s.z > leastZ && float64(s.now) >= busyTimes*float64(s.med) {
			moved++
		}
	}
	if of < 5 || 2*moved < of {
		return
	}
	for _, s := range all {
		s.busy = true
	}
}

// shown returns the part of a series whose values are shown.
func (s *series) shown() *series { return cmp.Or(s.most, s) }

// each returns the parts of a series, or the series itself.
func (s *series) each() []*series {
	if len(s.parts) == 0 {
		return []*series{s}
	}
	return s.parts
}

// shifted reports whether most calls take longer than before, and not only some. If the series has parts, shifted
// looks at the part with most additional time.
func (s *series) shifted() bool { return s.shown().moved() && s.shown().z > leastZ }

func (s *series) moved() bool { return float64(s.now) > float64(s.med)*(1+s.step) }

// excess returns how much more time the calls took in total than before, and the share of the calls that took
// longer.
func (s *series) excess() (time, share float64) {
	time, share = float64(s.tail), float64(s.slow)/float64(s.m)
	if s.z > leastZ {
		time, share = max(time, float64(s.shift)), max(share, 2*s.auc-1)
	}
	return time, share
}

// series compares the values of all samples.
func (w *workload) series() (all []*series, mid, scale float64) {
	before, now := divided(w.requests)
	var whole []int64
	for _, q := range before {
		whole = append(whole, q.took)
	}
	slices.Sort(whole)
	floor := int64(slowFloor * float64(whole[len(whole)/2]))
	slices.SortStableFunc(now, func(a, b *request) int { return cmp.Compare(a.start, b.start) })
	for i, q := range now {
		q.eighth = i * eighths / len(now)
	}
	var calls []*series
	time := 0.0
	for _, m := range w.samples {
		switch s := w.newSeries(m, floor); {
		case s == nil:
		case m.calls != nil:
			calls = append(calls, s)
		default:
			all, time = append(all, s), time+s.time()
		}
	}
	var zs []float64
	for _, s := range all {
		if s.shared(time) {
			zs = append(zs, s.z)
		}
	}
	scale = 1
	slices.Sort(zs)
	if len(zs) >= 5 {
		mid = zs[len(zs)/2]
		for i := range zs {
			zs[i] = math.Abs(zs[i] - mid)
		}
		slices.Sort(zs)
		scale = max(1, 1.4826*zs[len(zs)/2])
	}
	if len(zs) < 5 { // with so few values, a slow operation looks like a busy machine
		for _, s := range all {
			s.step = w.rules.stepFew
		}
	}
	off := sync.OnceValue(func() (off []int64) {
		for _, s := range all {
			for _, x := range s.before {
				off = append(off, x-s.med)
			}
		}
		slices.Sort(off)
		return off
	})
	if w.rules.alike {
		setElsewhere(all)
		setSharedSlows(all, time)
	}
	for _, s := range all {
		s.judge(mid, scale, off)
	}
	return w.pooled(append(all, moreCalls(calls)...)), mid, scale
}
