package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// selfRows is the number of rows that a selfTimes processes at a time, a multiple of
// columns.BlockRows. Each row takes 24 bytes. For each such part, selfTimes makes one pass over all
// blocks that may have children of its rows.
var selfRows = 1 << 18

// A selfTimes computes for how long the children of spans were open, for one part of the rows at a
// time. It gives the same results as [view.View.SelfTime], but does not need the tree, which takes
// 12 bytes for every row.
type selfTimes struct {
	v        *view.View
	from     view.Row
	covered  []int64 // for how long some child was open; index: parent row minus from
	until    []int64 // the time up to which covered is computed
	last     []int64 // the start of the last child processed
	unsorted map[view.Row][]interval
	parents  []uint64 // of parentsOf
}

// partBit returns the bit of the part that contains row r.
func partBit(r view.Row) uint64 { return 1 << (int(r) / selfRows % 64) }

type interval struct{ from, to int64 }

// of returns for how long children of row r were open. Row r must be in the part that was computed
// last.
func (s *selfTimes) of(r view.Row) int64 { return s.covered[r-s.from] }

// parentsOf returns for each block a bit for each part of which it may have children.
func parentsOf(ctx context.Context, v *view.View) ([]uint64, error) {
	parents := make([]uint64, v.Columns().Blocks())
	err := v.Columns().Each(ctx, func() func(k int) {
		return func(k int) {
			b := v.Columns().Block(k)
			for i, f := range b.Flags {
				if view.Flags(f).Role() == view.RoleSpan {
					parents[k] |= partBit(view.Row(b.Parent[i]))
				}
			}
		}
	})
	return parents, err
}

// compute computes the times of the part that begins with row from.
func (s *selfTimes) compute(ctx context.Context, from view.Row) error {
	n := min(selfRows, s.v.Len()-int(from))
	s.from = from
	s.covered, s.until, s.last = zeros(s.covered, n), zeros(s.until, n), zeros(s.last, n)
	s.unsorted = nil
	for k := int(from) / columns.BlockRows; k*columns.BlockRows < int(from)+n; k++ {
		copy(s.until[k*columns.BlockRows-int(from):], s.v.Columns().Block(k).Start)
	}
	copy(s.last, s.until)
	if err := s.each(ctx, s.add); err != nil || s.unsorted == nil {
		return err
	}
	// The children of the parents in unsorted are not in the order of time.
	err := s.each(ctx, func(p view.Row, kid interval) {
		if _, is := s.unsorted[p]; is {
			s.unsorted[p] = append(s.unsorted[p], kid)
		}
	})
	for p, kids := range s.unsorted {
		slices.SortFunc(kids, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
		i := p - s.from
		s.covered[i] = 0
		s.until[i], _ = s.v.Start(p)
		for _, kid := range kids {
			s.cover(i, kid)
		}
	}
	return err
}

func zeros(s []int64, n int) []int64 {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// each calls fn for each child span of the ended spans in the current part.
func (s *selfTimes) each(ctx context.Context, fn func(p view.Row, kid interval)) error {
	for k := range s.v.Columns().Blocks() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.parents[k]&partBit(s.from) == 0 {
			continue
		}
		b := s.v.Columns().Block(k)
		for i, f := range b.Flags {
			if view.Flags(f).Role() != view.RoleSpan {
				continue
			}
			p := view.Row(b.Parent[i])
			if p < s.from || int(p-s.from) >= len(s.covered) || s.v.Role(p) != view.RoleSpan {
				continue
			}
			took, ended := s.v.Duration(p)
			if !ended {
				continue
			}
			start, _ := s.v.Start(p)
			kid := interval{b.Start[i], start + int64(took)} // a child without an end was open until its parent ended
			if d := b.Duration[i]; d != columns.NoDuration {
				kid.to = min(kid.from+d, kid.to)
			}
			fn(p, kid)
		}
	}
	return nil
}

func (s *selfTimes) add(p view.Row, kid interval) {
	i := p - s.from
	if kid.from < s.last[i] && s.covered[i] > 0 {
		if s.unsorted == nil {
			s.unsorted = make(map[view.Row][]interval)
		}
		s.unsorted[p] = nil
	}
	s.last[i] = max(s.last[i], kid.from)
	s.cover(i, kid)
}

func (s *selfTimes) cover(i view.Row, kid interval) {
	if begin := max(kid.from, s.until[i]); kid.to > begin {
		s.covered[i] += kid.to - begin
		s.until[i] = kid.to
	}
}
