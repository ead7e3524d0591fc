package analyze

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// This file tests a change over time within one recording. Neighboring requests have much in common: caches, garbage
// collections, other programs on the machine. So the test exchanges whole stretches of time, and not single requests.

const (
	stretches  = 24  // the number of stretches into which the calls of an operation are divided
	shuffles   = 999 // the number of random orders of the stretches
	alphaTime  = .01 // the largest share of the random orders that may show a change as large
	floorLog   = .02 // the least standard deviation of logarithms of times
	floorCalls = .5  // the least standard deviation of shares, in calls per stretch
)

// inTime makes causes unsure if adjacent stretches of time differ by as much without a change. If given is set, the
// time of the change was given and not searched for.
func (w *workload) inTime(x *Explanation, given bool) {
	more := math.Log10(splits)
	if given {
		more = 0
	}
	var causes []*Cause
	for i := range x.Causes {
		c := &x.Causes[i]
		causes = append(causes, c)
		for k := range c.Evidence {
			e := &c.Evidence[k]
			if !e.Sure {
				continue
			}
			if e.odd != nil {
				_, _, bound := w.family(e.odd, x.tried, more)
				e.Sure = e.odd.p/w.clustered(c.Service, e) >= bound
			} else {
				e.Sure = w.lasting(c.Service, e, given)
			}
		}
	}
	w.leaveOutHabits(x, causes) // the only sure evidence that is left may be about habits
	for _, c := range causes {
		at := slices.IndexFunc(c.Evidence, func(e Evidence) bool { return e.Sure })
		c.Sure = at >= 0
		if at > 0 {
			first := c.Evidence[at]
			c.Evidence = slices.Insert(slices.Delete(c.Evidence, at, at+1), 0, first)
			c.headedBy(&c.Evidence[0])
		}
	}
	x.order()
}

// A point is a value of a call.
type point struct {
	at    int64
	value float64
	now   bool
}

// points returns a value for each call of the operation of an evidence. The value is the logarithm of a time, or a
// number of calls, or 1 if the call shows the evidence and 0 if not.
func (w *workload) points(service string, e *Evidence) (list []point) {
	add := func(c *call, value float64) { list = append(list, point{c.start, value, c.request.now}) }
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	switch {
	case e.odd != nil:
		for _, c := range w.all {
			counts := !e.odd.gone || !c.unfit() && c.does(e.odd.after)
			if counts && (c.operation == e.odd.operation || e.odd.name == "" && c.service == service) {
				add(c, is(e.odd.in(c)))
			}
		}
	default:
		moved := e.series.shifted()
		for _, p := range e.series.each() {
			for _, d := range p.list {
				switch {
				case p.calls != nil:
					add(d.call, float64((d.took-p.med)/p.calls.each))
				case moved:
					add(d.call, math.Log(float64(d.took+1)/float64(p.med+1)))
				default:
					add(d.call, is(d.took > p.limit))
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	return list
}

// clustered returns a factor by which the calls that show an evidence are clustered in time. The factor is the
// variance of their number between stretches before the change, divided by the variance for independent calls. It is
// at least 1, and +Inf if nearly all of these calls now are in one stretch.
func (w *workload) clustered(service string, e *Evidence) float64 {
	var before, now []float64
	for _, p := range w.points(service, e) {
		if p.now {
			now = append(now, p.value)
		} else {
			before = append(before, p.value)
		}
	}
	sums := func(list []float64) (parts []float64, all float64) {
		b := min(stretches/2, len(list)/few)
		for i := range b {
			sum := 0.0
			for _, x := range list[i*len(list)/b : (i+1)*len(list)/b] {
				sum += x
			}
			parts, all = append(parts, sum), all+sum
		}
		return parts, all
	}
	if parts, all := sums(now); len(parts) > 1 && slices.Max(parts) > inPeriod*all {
		return math.Inf(1)
	}
	before = before[:len(before)-len(before)/splits] // the time of the change is not exact, so the last calls before it may already have the fault
	parts, all := sums(before)
	n := float64(len(before))
	if all == 0 || all == n || len(parts) < 2 {
		return 1
	}
	sum := 0.0
	for _, k := range parts {
		d := k - all/float64(len(parts))
		sum += d * d
	}
	return max(1, sum/float64(len(parts)-1)/(n/float64(len(parts))*all/n*(1-all/n)))
}

// lasting reports whether the values of an evidence change more at one time than in random orders of the stretches of
// the recording. It sets e.began.
func (w *workload) lasting(service string, e *Evidence, given bool) bool {
	list := w.points(service, e)
	n := len(list)
	if n < 2*few {
		return false
	}
	after := 0
	for _, p := range list {
		if p.now {
			after++
		}
	}
	if given && 4*after < n {
		return isRare(list, after)
	}
	moved := e.series.calls == nil && e.series.shifted()
	b := min(stretches, n)
	means := make([]float64, b)
	for i := range means {
		part := slices.Clone(list[i*n/b : (i+1)*n/b])
		if moved { // use the median, so that single outliers, such as a garbage collection, do not matter
			slices.SortFunc(part, func(a, b point) int { return cmp.Compare(a.value, b.value) })
			means[i] = part[len(part)/2].value
			continue
		}
		for _, p := range part {
			means[i] += p.value / float64(len(part))
		}
	}
	floor := floorLog
	if !moved {
		floor = floorCalls * float64(b) / float64(n)
	}
	truth, from := largestStep(means, floor)
	if truth <= 0 {
		return false
	}
	if from > 0 {
		e.began, e.grows = list[from*n/b].at, growsEvenly(means, from)
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a fixed seed, so that the answer is the same each time
	above := 0
	for range shuffles {
		r.Shuffle(b, func(i, k int) { means[i], means[k] = means[k], means[i] })
		if t, _ := largestStep(means, floor); t >= truth {
			above++
		}
	}
	return float64(above+1) <= alphaTime*float64(shuffles+1)
}

// largestStep returns the largest t of a period against the rest of a list.
func largestStep(list []float64, floor float64) (most float64, first int) {
	n, all, squares := len(list), 0.0, 0.0
	for _, x := range list {
		all, squares = all+x, squares+x*x
	}
	for from := range n {
		sum, square := 0.0, 0.0
		for to := from + 1; to <= n; to++ {
			x := list[to-1]
			sum, square = sum+x, square+x*x
			a, b := float64(to-from), float64(n-to+from)
			if min(a, b) < 2 {
				continue
			}
			within := square - sum*sum/a + (squares - square) - (all-sum)*(all-sum)/b
			sd := math.Sqrt(max(0, within)/max(1, a+b-2) + floor*floor)
			if t := (sum/a - (all-sum)/b) / (sd * math.Sqrt(1/a+1/b)); t > most {
				most, first = t, from
			}
		}
	}
	return most, first
}

// earlyPart divides a rise: a value that grows from the beginning on has at least this part of the rise early.
const earlyPart = 10

// growsEvenly reports whether a list rises from its beginning on: a line fits it better than a step at an index does.
func growsEvenly(list []float64, step int) bool {
	mean := func(list []float64) (sum float64) {
		for _, x := range list {
			sum += x / float64(len(list))
		}
		return sum
	}
	n, slope := float64(len(list)), 0.0
	for i, x := range list {
		slope += (float64(i) - (n-1)/2) * x
	}
	a, b, sixth := float64(step), mean(list[step:])-mean(list[:step]), len(list)/6
	first := mean(list[:sixth])
	rise := mean(list[len(list)-sixth:]) - first
	return 12*slope*slope/(n*n-1) > a*(n-a)*b*b && mean(list[sixth:2*sixth])-first > rise/earlyPart
}

// isRare reports whether the sum of the last values is larger than the sums of nearly all earlier windows of the same
// length.
func isRare(list []point, last int) bool {
	sum := func(from int) (s float64) {
		for _, p := range list[from : from+last] {
			s += p.value
		}
		return s
	}
	most, tries, above := sum(len(list)-last), 0, 0
	for from := 0; from+last <= len(list)-last; from += max(1, last/2) {
		tries++
		if sum(from) >= most {
			above++
		}
	}
	return 20*above <= tries
}
