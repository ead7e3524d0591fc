package viewer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

const (
	maxBins      = 4000 // the maximum number of bins of a strip
	maxIdle      = 20   // the maximum number of gaps of a strip
	stripColors  = 8    // the number of colors of services, as in the page
	noBin        = -1
	minIdleShare = 20 // a gap takes at least 1/minIdleShare of the time of a strip
)

// A strip shows how many rows begin in each bin, a part of the time. Each list of numbers has one number per bin.
type strip struct {
	From     int64       `json:"from_unix_nano"`
	To       int64       `json:"to_unix_nano"`
	Services [][]uint32  `json:"services"` // the number of rows, by the color of their service and by bin
	Errors   []uint32    `json:"errors"`
	Open     []uint32    `json:"open"` // spans that have not ended
	Hits     []uint32    `json:"hits"` // rows that the query selects; empty without a query
	Idle     [][2]string `json:"idle"` // long gaps in which no row began or ended, in chronological order
}

// strip answers with the number of rows over time. The parameter n is the number of bins. The bins cover the
// window, or the whole time without a window.
func (q *request) strip(ctx context.Context) (any, error) {
	n, x := q.bins(), q.extent(0, q.window())
	if q.err != nil {
		return nil, q.err
	}
	from, to := x.from, x.to
	out, err := remember(&q.results, "strip", fmt.Sprint(n, from, to), func() (*strip, error) { return q.stripOf(ctx, nil, n, from, to) })
	if err != nil {
		return nil, err
	}
	if text := q.Get("q"); text != "" {
		f, err := q.found(ctx, text)
		if err != nil {
			return nil, err
		}
		with := *out
		with.Hits = make([]uint32, n)
		for rank := range f.ranks().All() {
			if start, timed := q.v.Start(q.v.Tree().Row(rank)); timed {
				if i := bin(start, from, to, n); i != noBin {
					with.Hits[i]++
				}
			}
		}
		out = &with
	}
	return out, nil
}

// bins returns the parameter n, the number of parts into which the answer divides a time.
func (q *request) bins() int {
	n := q.number("n", 1000, maxBins+1)
	if n == 0 {
		q.fail("parameter \"n\" must be above 0")
	}
	return n
}

// bin divides the time between from and to into n equal parts, and returns the number of the part that contains
// the time at. It returns noBin if at is outside.
func bin(at, from, to int64, n int) int {
	if at < from || at > to {
		return noBin
	}
	return min(n-1, int(float64(uint64(at-from))*float64(n)/float64(max(1, uint64(to-from)))))
}

// A stripPart holds the counts of one goroutine, or of all.
type stripPart struct {
	services [stripColors][]uint32
	errors   []uint32
	open     []uint32
	busy     []uint64 // a bit for each fine bin, set if a row begins or ends in it
}

// fineBins is the number of parts of the time that are examined to find gaps.
const fineBins = 1 << 14

// stripOf counts the shown rows of a set, or of the whole trace if the set is nil.
func (s *state) stripOf(ctx context.Context, rows view.Set[view.Row], n int, from, to int64) (*strip, error) {
	numbers, none, samples := s.serviceNumbers(), len(s.services()), s.sampleMetas()
	spans := s.times()
	newPart := func() *stripPart {
		p := &stripPart{errors: make([]uint32, n), open: make([]uint32, n), busy: make([]uint64, fineBins/64)}
		for i := range p.services {
			p.services[i] = make([]uint32, n)
		}
		return p
	}
	parts, err := columns.Collect(ctx, s.columns.Each, func() (*stripPart, func(k int)) {
		p := newPart()
		return p, func(k int) {
			if spans[k][0] > to || spans[k][1] < from {
				return
			}
			b := s.columns.Block(k)
			for i, start := range b.Start {
				if start == columns.NoTime || len(samples) > 0 && samples[b.Meta[i]] {
					continue
				}
				r, f := view.Row(b.First)+view.Row(i), view.Flags(b.Flags[i])
				if !isShown(s.v, r) || rows != nil && !rows.Has(r) {
					continue
				}
				for _, t := range [...]int64{start, start + max(0, b.Duration[i])} {
					if at := bin(t, from, to, fineBins); at != noBin {
						p.busy[at/64] |= 1 << (at % 64)
					}
				}
				at := bin(start, from, to, n)
				if at == noBin {
					continue
				}
				color := serviceIn(&b, i, numbers, none)
				if color == none {
					color = 0 // as in the page
				}
				p.services[color%stripColors][at]++
				if f.Role() != view.RoleRecorder && f.IsError() {
					p.errors[at]++
				}
				if f.Open() {
					p.open[at]++
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	all, used := newPart(), 0
	for _, p := range parts {
		for c := range all.services {
			for i, x := range p.services[c] {
				all.services[c][i] += x
				if x > 0 {
					used = max(used, c+1)
				}
			}
		}
		for i := range n {
			all.errors[i] += p.errors[i]
			all.open[i] += p.open[i]
		}
		for i, w := range p.busy {
			all.busy[i] |= w
		}
	}
	return &strip{
		From: from, To: to, Services: append([][]uint32{}, all.services[:used]...),
		Errors: all.errors, Open: all.open, Hits: []uint32{}, Idle: idleTimes(all.busy, from, to),
	}, nil
}

// serviceNumbers returns, for each resource, the index of its service in s.services(). For no service, the number
// is the length of s.services().
func (s *state) serviceNumbers() []int {
	names := s.services()
	resources := s.columns.Resources()
	out := make([]int, len(resources))
	for code, r := range resources {
		out[code] = slices.Index(names, s.v.Service(view.Row(r)))
		if out[code] < 0 {
			out[code] = len(names)
		}
	}
	return out
}

// servicesByRow returns a function that returns the number of a row's service.
func (s *state) servicesByRow() func(r view.Row) int {
	numbers, none := s.serviceNumbers(), len(s.services())
	return func(r view.Row) int {
		b := s.columns.Block(int(r) / columns.BlockRows)
		return serviceIn(&b, int(r)%columns.BlockRows, numbers, none)
	}
}

// serviceIn returns the number of the service of row i of a block. The parameter numbers is the result of
// serviceNumbers. The parameter none is the number that stands for no service.
func serviceIn(b *columns.Block, i int, numbers []int, none int) int {
	if code := int(b.Resource[i]); code < len(numbers) {
		return numbers[code]
	}
	return none
}

// idleTimes returns the longest gaps between busy bins, in chronological order.
func idleTimes(busy []uint64, from, to int64) [][2]string {
	type gap struct{ from, n int }
	var gaps []gap
	last := -1
	for at := range fineBins {
		if busy[at/64]>>(at%64)&1 == 0 {
			continue
		}
		if n := at - last - 1; last >= 0 && n >= fineBins/minIdleShare {
			gaps = append(gaps, gap{last + 1, n})
		}
		last = at
	}
	slices.SortFunc(gaps, func(a, b gap) int { return cmp.Compare(b.n, a.n) })
	gaps = gaps[:min(len(gaps), maxIdle)]
	slices.SortFunc(gaps, func(a, b gap) int { return cmp.Compare(a.from, b.from) })
	out := [][2]string{}
	width := float64(uint64(to-from)) / fineBins
	for _, g := range gaps {
		out = append(out, [2]string{
			strconv.FormatInt(from+int64(uint64(float64(g.from)*width)), 10), strconv.FormatInt(from+int64(uint64(float64(g.from+g.n)*width)), 10),
		})
	}
	return out
}
