package query

import (
	"context"
	"math/bits"
	"slices"
	"sync"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// A grouping assigns the rows of a block to groups. It is used by one goroutine.
type grouping struct {
	e       env
	rows    view.Set[view.Row]
	keys    []eval
	codes   func(b *columns.Block) []uint16
	groups  *groups
	numbers []uint32 // by code: the number of its group plus 1, or 0 if it is not known
	key     []byte
	members []member
}

// A member is the index of a row in a block, and the number of its group.
type member struct{ i, group int32 }

// codesOf returns a function that returns a code for each row of a block. All rows with the same
// code are in one group, except rows with the code [columns.Unknown]. It returns nil if by has no
// such codes.
func codesOf(by []expr) func(b *columns.Block) []uint16 {
	flags := func(b *columns.Block) []uint16 { return b.Flags }
	if len(by) == 0 {
		return flags // any codes will do, because all rows are in one group
	}
	f, ok := by[0].(*field)
	if len(by) > 1 || !ok || f.parent {
		return nil
	}
	switch f.kind {
	case fieldName, fieldTarget:
		return func(b *columns.Block) []uint16 { return b.Meta }
	case fieldService:
		return func(b *columns.Block) []uint16 { return b.Resource }
	case fieldLevel, fieldStatus, fieldKindOfSpan:
		return flags
	}
	return nil
}

// of returns the selected rows of a block with their groups. The result is valid until the next
// call.
func (x *grouping) of(k int, b *columns.Block) []member {
	var codes []uint16
	if x.codes != nil {
		codes = x.codes(b)
	}
	x.members = x.members[:0]
	for w, word := range x.rows[k*words64 : (k+1)*words64] {
		for ; word != 0; word &= word - 1 {
			i := w*64 + bits.TrailingZeros64(word)
			n := uint32(0)
			if codes != nil && int(codes[i]) < len(x.numbers) {
				n = x.numbers[codes[i]]
			}
			if n == 0 {
				x.e.row = view.Row(b.First) + view.Row(i)
				x.key = x.key[:0]
				for _, f := range x.keys {
					x.key = appendKey(x.key, f(&x.e))
				}
				n = uint32(x.groups.of(x.key)) + 1
				if codes != nil && codes[i] != columns.Unknown {
					x.know(codes[i], n)
				}
			}
			x.members = append(x.members, member{int32(i), int32(n - 1)})
		}
	}
	return x.members
}

// know remembers the number of the group of a code.
func (x *grouping) know(code uint16, n uint32) {
	if more := int(code) + 1 - len(x.numbers); more > 0 {
		x.numbers = append(x.numbers, make([]uint32, more)...)
	}
	x.numbers[code] = n
}

// add adds the values of rows of a block to the accumulators of their groups.
func (x *grouping) add(keep []keeps, b *columns.Block, members []member) {
	for at := range keep {
		switch k := &keep[at]; {
		case k.fn == "count":
			for _, r := range members {
				x.groups.acc(int(r.group), at).n++
			}
		case k.duration:
			for _, r := range members {
				d, ok := took(b, r.i)
				switch a := x.groups.acc(int(r.group), at); {
				case !ok:
				case k.twice && a.kept != nil && a.ints.spread != nil: // a faster form of add
					a.n++
					a.ints.spread.add(d)
				default:
					a.add(k, durationValue(d))
				}
			}
		default:
			for _, r := range members {
				x.e.row = view.Row(b.First) + view.Row(r.i)
				x.groups.acc(int(r.group), at).add(k, k.value(&x.e))
			}
		}
	}
}

// took returns the duration of row i of a block. If the row is not a span with a duration, ok is
// false.
func took(b *columns.Block, i int32) (d int64, ok bool) {
	d = b.Duration[i]
	return d, d != columns.NoDuration && view.Flags(b.Flags[i]).Role() == view.RoleSpan
}

// manyGroups is the number of groups from which on a goroutine merges its groups into the common
// ones.
const manyGroups = groupChunk

// group computes the accumulators for each group of rows.
func (m *machine) group(keep []keeps, by []expr, rows view.Set[view.Row]) (*groups, error) {
	keys, err := m.evals(by)
	if err != nil {
		return nil, err
	}
	codes := codesOf(by)
	twice := slices.IndexFunc(keep, func(k keeps) bool { return k.duration && k.fn == "quantile" })
	if codes == nil { // a second pass would take too long then
		twice = -1
	}
	if twice >= 0 {
		keep[twice].twice = true
	}
	all := newGroups(len(keep))
	if len(by) == 0 {
		all.of(nil) // the single group exists even without rows
	}
	start := func(g *groups) *grouping {
		return &grouping{e: env{m: m, read: m.v.NewReader()}, rows: rows, keys: keys, codes: codes, groups: g, members: make([]member, 0, columns.BlockRows)}
	}
	var mu sync.Mutex
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	merge := func(x *grouping) {
		mu.Lock()
		defer mu.Unlock()
		if !all.merge(keep, x.groups, maxGroups) {
			stop()
		}
		x.groups.clear()
		clear(x.numbers)
	}
	var started []*grouping
	err = m.v.Columns().Each(ctx, func() func(k int) {
		x := start(newGroups(len(keep)))
		mu.Lock()
		defer mu.Unlock()
		started = append(started, x)
		return func(k int) {
			b := m.v.Columns().Block(k)
			x.add(keep, &b, x.of(k, &b))
			if len(x.groups.keys) > manyGroups {
				merge(x)
			}
		}
	})
	for _, x := range started {
		merge(x)
	}
	if len(all.keys) > maxGroups {
		return nil, tooManyGroups(by)
	}
	if err == nil && twice >= 0 {
		err = m.sortOut(&keep[twice], twice, all, start)
	}
	if err != nil {
		return nil, m.ctx.Err()
	}
	return all, nil
}

// sortOut makes a second pass over the rows. It collects the durations that are needed for exact
// quantiles of the groups.
func (m *machine) sortOut(k *keeps, at int, all *groups, start func(g *groups) *grouping) error {
	spreads := make([]*spread, len(all.keys)) // by group; nil for a group with few durations
	again := false
	for n := range spreads {
		if a := all.acc(n, at); a.kept != nil && a.ints.want(k.args) {
			spreads[n], again = a.ints.spread, true
		}
	}
	if !again {
		return nil
	}
	var mu sync.Mutex
	return m.v.Columns().Each(m.ctx, func() func(k int) {
		x := start(all) // all has every group already, so it does not change
		var list []wanted
		return func(k int) {
			b := m.v.Columns().Block(k)
			list = list[:0]
			for _, r := range x.of(k, &b) {
				if d, ok := took(&b, r.i); ok {
					list = spreads[r.group].addWanted(list, d)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			keepWanted(list)
		}
	})
}
