package analyze

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/entrace-go/entrace/internal/read/stat"
)

// The thresholds of a ranking. docs/explain.md explains their values.
const (
	few            = 3      // an operation with fewer values in the baseline is not judged
	slowFloor      = 0.02   // this share of the time of the median request is added to the limit above which a value is slow
	leastStep      = 0.05   // a median that grew by a smaller share is no cause, even if the growth is significant
	leastShared    = 0.0003 // series with a smaller share of all time are too noisy to estimate the common shift
	leastTime      = 0.0005 // a cause adds at least this share to the time of all requests
	leastHarm      = 0.25   // requests are harmed by a changed habit if their median grows by this share
	leastZ         = 3      // the least z at which a shift of the median counts
	always         = 0.95   // a habit is done in at least this share of the calls
	lookAt         = 1.0    // a change is examined if -log10 of its chance is greater
	alpha          = 2.0    // -log10 of the chance of a false cause in each family of tests
	eighths        = 8      // the number of parts of a recording; slow calls in only one part are a burst and do not count
	farOff         = 5      // slow values that exceed the median by this many limits are also compared with the values of all operations
	calleeNow      = 1.1    // factor for called services, so that they rank before an equal caller
	notSure        = 0.5    // the weight of a cause without sure evidence
	splits         = 12     // the number of parts between which a recording without a baseline can be divided
	leastElsewhere = 100    // the fewest calls of other services or operations that can show a busy machine
	busyShare      = .1     // a machine is busy if at least this share of the other calls is slow,
	busyTimes      = 2.5    // and if this share is at least busyTimes times the share before
	fewApart       = 10     // the fewest requests on each side of a division, if there are at least twice as many
	leastVariance  = 3      // a number of errors with a smaller variance is not considered normally distributed
)

// divide makes the requests before index i the baseline, and the others the requests now.
func (w *workload) divide(i int) {
	for k, q := range w.requests {
		q.now = k >= i
	}
}

// divided splits a list into the items of the baseline and the items now.
func divided[T interface{ isNow() bool }](list []T) (before, now []T) {
	for _, x := range list {
		if x.isNow() {
			now = append(now, x)
		} else {
			before = append(before, x)
		}
	}
	return before, now
}

func (o operation) compare(p operation) int {
	return cmp.Or(cmp.Compare(o.service, p.service), cmp.Compare(o.name, p.name), o.path.compare(p.path))
}

// An oddity is an item that the calls of an operation do or log more often than before, or a habit that they gave up.
type oddity struct {
	operation

	item   int // the index in workload.items
	after  int // for a habit, only calls that did this item are counted; item 0, which all calls have, counts all
	gone   bool
	p      float64
	counts [4]int // calls with the item before, all calls before, calls with the item now, all calls now
	weight float64
}

// A bitset has a bit for each call.
type bitset []uint64

func (b bitset) and(c bitset) (n int) {
	for i := range min(len(b), len(c)) {
		n += bits.OnesCount64(b[i] & c[i])
	}
	return n
}

// doing returns for each of the given items the set of calls that did it, by index in list.
func doing(list []*call, items []int) map[int]bitset {
	out := make(map[int]bitset)
	for _, x := range items {
		out[x] = make(bitset, (len(list)+63)/64)
	}
	for i, c := range list {
		for _, x := range c.items {
			if b := out[x]; b != nil {
				b[i/64] |= 1 << (i % 64)
			}
		}
	}
	return out
}

// A frequency says for an item (a thing that a call does or logs) how many calls have it, and to how many requests
// these calls belong.
type frequency struct {
	calls, requests int
	last            *request
}

// frequencies returns how often each item was done. The calls of a request are adjacent in the list.
func frequencies(list []*call) map[int]frequency {
	out := make(map[int]frequency)
	for _, c := range list {
		for _, x := range c.items {
			f := out[x]
			f.calls++
			if f.last != c.request {
				f.last, f.requests = c.request, f.requests+1
			}
			out[x] = f
		}
	}
	return out
}

// A stratum is an error and the service in whose operations it occurs.
type stratum struct {
	service string
	item    int
}

// strata tests an error in all operations of a service together (Mantel and Haenszel). It compares each operation
// with the same operation before, so that a different mix of operations does not look like more errors.
type strata struct {
	excess, variance float64 // of the number of requests with the error
	most             float64 // the largest -log10 of the chance in a single operation
	operations       int
	counts           [4]int // as in an oddity
}

func (s strata) and(o *oddity, k, of, k0, of0 float64) strata {
	all, with := of+of0, k+k0
	s.excess += k - of*with/all
	s.variance += of * of0 * with * (all - with) / (all * all * (all - 1))
	s.most, s.operations = max(s.most, o.p), s.operations+1
	for i, n := range o.counts {
		s.counts[i] += n
	}
	return s
}

// A tried has the number of tests of each family.
type tried struct{ times, errors, spans, habits int }

func need(n int, more float64) float64 { return alpha + more + math.Log10(float64(max(1, n))) }

// oddities returns the errors that are more frequent in the calls of an operation than before, the spans that are
// new, and the habits that the calls gave up. It tests the number of calls and the number of requests, and uses
// the less significant result.
func (w *workload) oddities() (all []*oddity, n tried) {
	everywhere := make(map[stratum]strata)
	for _, op := range slices.SortedFunc(maps.Keys(w.byName), operation.compare) {
		was, is := divided(w.byName[op])
		if len(was) == 0 || len(is) == 0 {
			continue
		}
		had, has := frequencies(was), frequencies(is)
		of, of0 := has[0].requests, had[0].requests
		for _, x := range slices.Sorted(maps.Keys(has)) {
			f, b := has[x], had[x]
			switch kind := w.items[x].kind; {
			case kind == itemError || kind == itemWarning:
				n.errors++
			case kind == itemSpan && b.calls == 0:
				n.spans++
			default:
				continue
			}
			o := &oddity{operation: op, item: x, counts: [4]int{b.calls, len(was), f.calls, len(is)}}
			o.p = min(stat.MoreOften(f.calls, len(is), b.calls, len(was)), stat.MoreOften(f.requests, of, b.requests, of0))
			if o.p > lookAt {
				all = append(all, o)
			}
			if of+of0 > 1 {
				everywhere[stratum{op.service, x}] = everywhere[stratum{op.service, x}].and(o, float64(f.requests), float64(of), float64(b.requests), float64(of0))
			}
		}
		well, fine := slices.DeleteFunc(slices.Clone(was), (*call).unfit), slices.DeleteFunc(slices.Clone(is), (*call).unfit)
		if len(well) >= few && len(fine) > 0 {
			list, tests := w.gone(op, well, fine)
			all, n.habits = append(all, list...), n.habits+tests
		}
	}
	for k, e := range everywhere {
		if p := stat.Normal((e.excess - .5) / math.Sqrt(e.variance)); e.operations > 1 && e.variance > leastVariance && p > e.most {
			all = slices.DeleteFunc(all, func(o *oddity) bool { return !o.gone && o.service == k.service && o.item == k.item })
			all = append(all, &oddity{operation: operation{service: k.service}, item: k.item, p: p, counts: e.counts})
		}
	}
	slices.SortStableFunc(all, func(a, b *oddity) int { return cmp.Or(a.compare(b.operation), cmp.Compare(a.item, b.item)) })
	return all, n
}

// gone returns the habits that the calls gave up: items that nearly all successful calls did before and that calls
// now leave out. If nearly all calls with an item also did another item, the item may be a habit of only the calls
// with the other item.
func (w *workload) gone(op operation, well, fine []*call) (all []*oddity, tests int) {
	often := frequencies(well)
	things := slices.SortedFunc(maps.Keys(often), func(a, b int) int { return cmp.Or(often[b].calls-often[a].calls, a-b) }) // 0 comes first
	things = slices.DeleteFunc(things, func(x int) bool {
		kind := w.items[x].kind
		return kind == itemError || kind == itemWarning || often[x].calls < few
	})
	things = things[:min(len(things), mostHabits)]
	had, has := doing(well, things), doing(fine, things)
	for _, x := range things[1:] { // without item 0, which all calls have
		tests++
		var best *oddity
		for _, after := range things {
			of, have := had[after].and(had[after]), had[x].and(had[after])
			if after == x || float64(of) < .9*float64(often[x].calls) || float64(have) < always*float64(of) {
				continue
			}
			left, now := has[after].and(has[after]), has[x].and(has[after])
			if p := stat.AtMost(now, left, (float64(have)+.5)/float64(of+1)); p > lookAt && (best == nil || p > best.p+1) {
				best = &oddity{operation: op, item: x, after: after, gone: true, p: p, counts: [4]int{have, of, now, left}}
			}
		}
		if best == nil {
			continue
		}
		kept := func(list []*call) (n, of int) { // counts the requests in which all calls that did best.after also did x
			all := make(map[*request]bool)
			for _, c := range list {
				if c.does(best.after) {
					was, known := all[c.request]
					all[c.request] = c.does(x) && (was || !known)
				}
			}
			for _, was := range all {
				if was {
					n++
				}
			}
			return n, len(all)
		}
		n, of := kept(well)
		now, left := kept(fine)
		best.p = min(best.p, stat.AtMost(now, left, (float64(n)+.5)/float64(of+1)))
		if best.p > lookAt {
			all = append(all, best)
		}
	}
	return all, tests
}

// family returns the kind of evidence of an oddity, the weight of one call, and the value that -log10 of its
// chance must reach in its family of tests.
func (w *workload) family(o *oddity, n tried, more float64) (kind Kind, weight, bound float64) {
	switch {
	case o.gone:
		return KindNoLonger, .8, need(n.habits, more)
	case w.items[o.item].kind == itemSpan:
		return KindNew, .7, need(n.spans, more)
	case w.items[o.item].kind == itemWarning:
		return KindWarning, .7, need(n.errors, more)
	}
	return KindError, 1, need(n.errors, more)
}

// unfit reports whether a call has an error or has not ended, and so may leave out things for this reason.
func (c *call) unfit() bool { return c.bad || c.open }

// in reports whether the call c shows the oddity.
func (o *oddity) in(c *call) bool {
	if o.gone {
		return !c.unfit() && !c.does(o.item) && c.does(o.after)
	}
	return c.does(o.item)
}

// blame returns a score for each service and a count for each of its oddities. A call counts if it shows an oddity
// and no call of another service below it shows one. Each request adds to the score of a service the largest weight
// of the oddities of its counted calls. The count of an oddity is the number of counted calls that show it.
func (w *workload) blame(odd []*oddity) (score map[string]float64, why map[string]map[*oddity]int) {
	byName := make(map[operation][]*oddity)
	for _, o := range odd {
		byName[o.operation] = append(byName[o.operation], o)
	}
	deviates := make(map[*call][]*oddity)
	for _, c := range w.all {
		for _, o := range slices.Concat(byName[c.operation], byName[operation{service: c.service}]) {
			if c.request.now && o.in(c) {
				deviates[c] = append(deviates[c], o)
			}
		}
	}
	below := make(map[*call]bool)
	leaves := make(map[*request][]*call)
	var order []*request
	for _, c := range slices.Backward(w.all) { // in this direction, callees precede their callers
		if c.up != nil && (below[c] || deviates[c] != nil && c.service != c.up.service) {
			below[c.up] = true
		}
		if deviates[c] != nil && !below[c] {
			if leaves[c.request] == nil {
				order = append(order, c.request)
			}
			leaves[c.request] = append(leaves[c.request], c)
		}
	}
	score, why = make(map[string]float64), make(map[string]map[*oddity]int)
	for _, q := range order {
		most := make(map[string]float64)
		for _, c := range leaves[q] {
			if why[c.service] == nil {
				why[c.service] = make(map[*oddity]int)
			}
			for _, o := range deviates[c] {
				why[c.service][o]++
				most[c.service] = max(most[c.service], o.weight)
			}
		}
		for service, weight := range most {
			score[service] += weight
		}
	}
	return score, why
}
