package viewer

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/entrace-go/entrace/view"
)

// A flameNode stands for all spans that have the same name and service, and whose ancestors up to a root of the
// flame also have the same names and services. A root is a span with which the flame begins.
type flameNode struct {
	Name    string   `json:"name"`
	Service string   `json:"service"`
	Up      int      `json:"up"`  // the index of the node above; -1 for a root
	Row     view.Row `json:"row"` // the longest of the spans
	Count   int      `json:"count"`
	Errors  int      `json:"errors"`
	Total   int64    `json:"total_nano"` // the sum of the spans' durations
	Self    int64    `json:"self_nano"`  // the sum of the spans' self times
	Weight  float64  `json:"weight"`     // the width of the node, which includes all nodes below it; from 0 to 1
	// More compares the self time of the node with the same node of the other flame. Each self time is divided by
	// the number of roots of its own flame. More is the difference of the results, as a share of the mean duration
	// of a root in this flame.
	More float64 `json:"more"`

	full   string // the full name; Name may be only the beginning
	took   int64
	weight float64
}

// A flame holds the nodes of a tree of merged spans. In nodes, each node comes after the node above it.
type flame struct {
	nodes    []flameNode
	known    map[flameKey]int // indexes in nodes
	roots    int
	inverted bool // the flame is upside down, so the self time of a node includes the nodes below it
}

type flameKey struct {
	up            int // the number of the node above, -1 if there is none
	service, name string
}

// node returns the index of the node k. If the flame does not have this node, it adds one. The error says that the
// flame has too many nodes.
func (f *flame) node(k flameKey) (int, error) {
	i, ok := f.known[k]
	if !ok {
		i = len(f.nodes)
		f.nodes = append(f.nodes, flameNode{Name: preview(k.name), full: k.name, Service: k.service, Up: k.up})
		f.known[k] = i
	}
	if i >= maxFlameNodes {
		return 0, badRequest("the flame graph would have more than " + strconv.Itoa(maxFlameNodes) + " nodes: choose fewer spans")
	}
	return i, nil
}

// invert returns the flame upside down: all names are roots, and below each name are the names that were above it.
func (f *flame) invert() (*flame, error) {
	out := &flame{known: make(map[flameKey]int), roots: f.roots, inverted: true}
	for i := range f.nodes {
		n, to := &f.nodes[i], -1
		for at := i; at >= 0; at = f.nodes[at].Up {
			var err error
			to, err = out.node(flameKey{to, f.nodes[at].Service, f.nodes[at].full})
			if err != nil {
				return nil, err
			}
			x := &out.nodes[to]
			x.Count, x.Errors, x.Total, x.Self, x.More = x.Count+n.Count, x.Errors+n.Errors, sum(x.Total, n.Total), sum(x.Self, n.Self), x.More+n.More
			if n.took >= x.took {
				x.took, x.Row = n.took, n.Row
			}
		}
	}
	return out, nil
}

const (
	maxFlame      = 8000 // the maximum number of nodes in an answer; the widest nodes are kept
	maxFlameNodes = 1 << 17
)

// flame answers with spans merged by the names above them.
//   - With a query, the flame has the selected spans and all spans below them. Without a query, it has all spans at
//     and below root.
//   - The width of a node is the sum of the self times of its spans and of all spans below them. With by=count, the
//     width is the number of all these spans.
//   - With by=up, the names are the roots, sorted by self time, and the names above a span are below it.
//   - If the request has another side, each node is compared with the same node of that side. Otherwise, with a
//     query, it is compared with the spans of the same names that the query does not select.
func (q *request) flame(ctx context.Context) (any, error) {
	c, err := q.selection(ctx)
	if err != nil {
		return nil, err
	}
	than, err := q.side(ctx)
	if err != nil {
		return nil, err
	}
	return q.flameOf(ctx, c, than, q.Get("by"))
}

// A flameAnswer has the widest nodes of a flame, and the number of nodes that are left out.
type flameAnswer struct {
	Nodes []flameNode `json:"nodes"`
	Roots int         `json:"roots"`
	Left  int         `json:"left"`
}

// flameOf merges the spans of a selection. It compares them with the spans of the side than. If than is nil and
// the selection has a query, it compares the selected spans with the other spans of the same names.
func (s *state) flameOf(ctx context.Context, c *selection, than *side, by string) (*flameAnswer, error) {
	begins := func(r view.Row) bool { return (c.hits == nil || c.hits.Has(r)) && c.isInside(r) }
	in, err := s.merged(ctx, c.from, c.end, begins, nil)
	if err != nil {
		return nil, err
	}
	var others *flame
	switch {
	case in.roots == 0:
	case than != nil:
		others, err = than.of.merged(ctx, 0, than.of.v.Tree().Len(), than.rows.Has, nil)
	case c.hits != nil:
		others, err = s.merged(ctx, c.from, c.end, func(r view.Row) bool {
			_, same := in.known[flameKey{-1, s.v.Service(r), s.v.Name(r)}]
			return same && c.isInside(r)
		}, c.hits)
	}
	if err != nil {
		return nil, err
	}
	if others != nil {
		in.compare(others)
	}
	if by == "up" {
		in, err = in.invert()
		if err != nil {
			return nil, err
		}
	}
	nodes, left := in.widest(by == "count")
	return &flameAnswer{nodes, in.roots, left}, nil
}

// merged merges the spans with ranks in [from, end). The roots of the flame are the outermost spans for which
// begins returns true. The flame omits the rows in skip, which may be nil, and all rows below them.
func (s *state) merged(ctx context.Context, from, end int, begins func(r view.Row) bool, skip view.Set[view.Row]) (*flame, error) {
	v, t := s.v, s.v.Tree()
	f := &flame{known: make(map[flameKey]int)}
	type level struct{ end, node int }
	var levels []level
	for rank := from; rank < end; rank++ {
		if rank%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r := t.Row(rank)
		if v.Role(r) != view.RoleSpan {
			continue
		}
		if s.hidden().Has(rank) || skip != nil && skip.Has(r) {
			rank = t.End(r) - 1
			continue
		}
		for len(levels) > 0 && levels[len(levels)-1].end <= rank {
			levels = levels[:len(levels)-1]
		}
		up := -1
		if len(levels) > 0 {
			up = levels[len(levels)-1].node
		} else if !begins(r) {
			continue
		} else {
			f.roots++
		}
		i, err := f.node(flameKey{up, v.Service(r), v.Name(r)})
		if err != nil {
			return nil, err
		}
		n := &f.nodes[i]
		n.Count++
		if v.Flags(r).IsError() {
			n.Errors++
		}
		if took, known := v.Lasted(r); known {
			n.Total = sum(n.Total, int64(took))
			if int64(took) >= n.took {
				n.took, n.Row = int64(took), r
			}
		}
		if self, ended := v.SelfTime(r); ended {
			n.Self = sum(n.Self, int64(self))
		}
		levels = append(levels, level{t.End(r), i})
	}
	return f, nil
}

// sum adds two durations. It counts a negative b as 0, and returns math.MaxInt64 if the sum overflows.
func sum(a, b int64) int64 {
	b = max(0, b)
	if a+b < 0 {
		return math.MaxInt64
	}
	return a + b
}

// compare sets the field More of each node. The other flame is others.
func (f *flame) compare(others *flame) {
	whole := int64(0)
	for i := range f.nodes {
		if f.nodes[i].Up < 0 {
			whole += f.nodes[i].Total
		}
	}
	mean := float64(whole) / float64(f.roots)
	if others.roots == 0 || mean == 0 {
		return
	}
	same := make([]int, len(f.nodes)) // for each node, the index of the same node in others; -2 if others does not have it
	for i := range f.nodes {
		n := &f.nodes[i]
		same[i] = -2
		up := -1
		if n.Up >= 0 {
			up = same[n.Up]
		}
		took := 0.0
		if at, ok := others.known[flameKey{up, n.Service, n.full}]; ok {
			same[i], took = at, float64(others.nodes[at].Self)/float64(others.roots)
		}
		n.More = (float64(n.Self)/float64(f.roots) - took) / mean
	}
}

// widest returns the widest nodes, and the number of omitted nodes.
func (f *flame) widest(byCount bool) (nodes []flameNode, left int) {
	for i := range f.nodes {
		f.nodes[i].weight = float64(f.nodes[i].Self)
		if byCount {
			f.nodes[i].weight = float64(f.nodes[i].Count)
		}
	}
	whole := 0.0
	for _, n := range slices.Backward(f.nodes) { // children come after their parent, so this visits children first
		switch {
		case n.Up < 0:
			whole += n.weight
		case !f.inverted:
			f.nodes[n.Up].weight += n.weight
		}
	}
	isWide := largest(f.nodes, maxFlame, func(n *flameNode) float64 { return n.weight })
	number := make([]int, len(f.nodes))
	nodes = []flameNode{}
	for i := range f.nodes {
		n := f.nodes[i]
		number[i] = -1
		if n.Up >= 0 && number[n.Up] < 0 || !isWide(n.weight) {
			left++
			continue
		}
		number[i] = len(nodes)
		if n.Up >= 0 {
			n.Up = number[n.Up]
		}
		if whole > 0 {
			n.Weight = n.weight / whole
		}
		nodes = append(nodes, n)
	}
	return nodes, left
}

// largest returns a function that reports whether a number is one of the n largest of a list. Call it for the numbers
// in the order of the list: if several numbers are equal, it prefers the earlier ones.
func largest[T any, N int64 | float64](list []T, n int, number func(x *T) N) func(x N) bool {
	if len(list) <= n {
		return func(N) bool { return true }
	}
	numbers := make([]N, len(list))
	for i := range list {
		numbers[i] = -number(&list[i])
	}
	slices.Sort(numbers)
	least := -numbers[n-1]
	larger, _ := slices.BinarySearch(numbers, -least)
	equal := n - larger
	return func(x N) bool {
		if x == least {
			equal--
		}
		return x > least || x == least && equal >= 0
	}
}
