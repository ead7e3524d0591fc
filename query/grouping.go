package query

import (
	"context"
	"math/bits"
	"slices"
	"sync"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// A grouping assigns the rows of a block to groups. Each goroutine has its own grouping.
type grouping struct {
	e       env
	rows    view.Set[view.Row]
	keys    []eval
	coder   *coder
	codes   []uint64 // the codes of the rows of a block
	groups  *groups
	numbers []uint32 // by code: the number of its group plus 1, or 0 if the group is not known yet
	key     []byte
	members []member
	took    []int64 // the duration of each member, for an aggregate
	count   bool    // the only aggregate is count(), so no members are needed
	counts  []int64 // by group: the rows so far, if count is set
}

// A member is the index of a row in a block, and the number of its group.
type member struct{ i, group int32 }

// A coder gives each row of a view a number, its code. Rows with the same code are in the same group.
type coder struct {
	parts []coded
	width uint64 // all codes are less than width
}

// A coded is an expression whose values have codes less than width. Its function joins the code of each row of a block
// to the row's code in codes.
type coded struct {
	width uint64
	of    func(e *env, k int, b *columns.Block, codes []uint64)
}

// join adds the code of one more expression, which has width codes, to the code of a row. If code is not less than
// width, the row has no code.
func join(at *uint64, width, code uint64) {
	if code >= width {
		code = noCode
	}
	*at = *at*width + code
}

const (
	maxCodes = 1 << 20 // limits a goroutine's table of group numbers, which takes 4 bytes for each code
	noCode   = 1 << 40 // this code or a greater one means that a row has no code; noCode*maxCodes is less than 1<<64
)

// joinAll joins the codes of the rows of a block to codes.
func joinAll[C uint16 | uint32](codes []uint64, width uint64, list []C) {
	codes = codes[:len(list)] // avoids a bounds check for each row
	for i, code := range list {
		join(&codes[i], width, uint64(code))
	}
}

// of stores the code of each row of block k in codes.
func (c *coder) of(e *env, k int, b *columns.Block, codes []uint64) {
	clear(codes)
	for i := range c.parts {
		c.parts[i].of(e, k, b, codes)
	}
}

// coderOf returns a coder for the expressions in by. It returns nil if an expression has no codes, or if there would
// be more than maxCodes codes.
func (m *machine) coderOf(by []expr) (*coder, error) {
	c := &coder{width: 1}
	for _, x := range by {
		p, err := m.codedOf(x)
		if err != nil || p == nil || c.width*p.width > maxCodes {
			return nil, err
		}
		c.width *= p.width
		c.parts = append(c.parts, *p)
	}
	return c, nil
}

// codedOf returns the codes of an expression, or nil if the expression has no codes.
func (m *machine) codedOf(x expr) (*coded, error) {
	if x, ok := x.(*binary); ok {
		return m.bucketCodes(x), nil
	}
	f, ok := x.(*field)
	if !ok {
		return nil, nil //nolint:nilnil // an expression without codes is not an error
	}
	c, err := m.column(f)
	width := uint64(0)
	if err == nil && c.hasCodes(f) {
		width = uint64(c.width)
	}
	switch {
	case width == 0, f.parent && c.short == nil:
		return nil, err
	case f.parent:
		return m.parentCodes(c), nil
	case c.short != nil:
		of := func(_ *env, _ int, b *columns.Block, codes []uint64) { joinAll(codes, width, c.short(b)) }
		return &coded{width, of}, nil
	}
	return &coded{width: width, of: func(e *env, k int, b *columns.Block, codes []uint64) { joinAll(codes, width, c.long(e, k, b)) }}, nil
}

// parentCodes returns the codes of a field of the parent row, and one more code for rows without a parent. As in
// [machine.field], the parent must be a span, an event or a log record.
func (m *machine) parentCodes(c *column) *coded {
	none := uint64(c.width)
	return &coded{width: none + 1, of: func(_ *env, _ int, b *columns.Block, codes []uint64) {
		for i, up := range b.Parent {
			of := b
			if up < b.First || int(up-b.First) >= len(b.Flags) {
				other := m.columns.Block(int(up) / columns.BlockRows)
				of = &other
			}
			code := none
			switch at := up - of.First; view.Flags(of.Flags[at]).Role() {
			case view.RoleSpan, view.RoleEvent, view.RoleLog:
				code = uint64(c.short(of)[at])
				if code >= none {
					code = noCode
				}
			}
			join(&codes[i], none+1, code)
		}
	}}
}

// bucketCodes returns codes for bucket(start, …) and bucket(start - …, …).
func (m *machine) bucketCodes(x *binary) *coded {
	f, isField := x.a.(*field)
	shift := int64(0)
	if y, ok := x.a.(*binary); ok && y.op == "-" {
		if by, ok := y.b.(*literal); ok && by.value.kind == kindInt {
			f, isField = y.a.(*field)
			shift = by.value.n
		}
	}
	size, isLiteral := x.b.(*literal)
	if x.op != "bucket" || !isField || !isLiteral || f.kind != kindTime || f.parent || size.value.kind != kindDuration {
		return nil
	}
	first, last, timed := m.v.Period()
	width := uint64(size.value.n)
	if !timed || uint64(last-first)/width >= maxCodes {
		return nil
	}
	if rest := (first - shift) % size.value.n; rest < 0 {
		first -= rest + size.value.n
	} else {
		first -= rest // first is now the beginning of its bucket
	}
	n := uint64(last-first)/width + 1
	return &coded{width: n, of: func(_ *env, _ int, b *columns.Block, codes []uint64) {
		// The bucket of the previous row is [from, from+size). Most rows are in chronological order, so few rows need a
		// division.
		from, size, code := int64(0), uint64(0), uint64(noCode)
		for i, at := range b.Start {
			if uint64(at-from) >= size {
				size, code = 0, noCode
				if at >= first {
					code = uint64(at-first) / width
					from, size = first+int64(code*width), width
				}
			}
			codes[i] = codes[i]*n + code
		}
	}}
}

// of returns the selected rows of block k with their groups. The result is valid until the next call.
func (x *grouping) of(k int, b *columns.Block) []member {
	codes, rows := x.codes[:len(b.Flags)], x.rows[k*words64:(k+1)*words64]
	if x.coder != nil && rows.Len() > 0 {
		x.coder.of(&x.e, k, b, codes)
	}
	members := x.members[:0]
	for w, word := range rows {
		for ; word != 0; word &= word - 1 {
			i := w*64 + bits.TrailingZeros64(word)
			n, code := uint32(0), uint64(noCode)
			if x.coder != nil {
				code = codes[i]
				if code < uint64(len(x.numbers)) {
					n = x.numbers[code]
				}
			}
			if n == 0 {
				n = x.find(view.Row(b.First)+view.Row(i)) + 1
				if code < noCode {
					x.setGroup(code, n)
				}
			}
			if x.count {
				if int(n) > len(x.counts) {
					x.counts = append(x.counts, make([]int64, int(n)-len(x.counts))...)
				}
				x.counts[n-1]++
			} else {
				members = append(members, member{int32(i), int32(n - 1)})
			}
		}
	}
	x.members = members
	return members
}

// find returns the number of the group of a row.
func (x *grouping) find(r view.Row) uint32 {
	x.e.row = r
	x.key = x.key[:0]
	for _, f := range x.keys {
		x.key = appendKey(x.key, f(&x.e))
	}
	return uint32(x.groups.of(x.key))
}

// setGroup stores the number n, which is one more than the group of a code.
func (x *grouping) setGroup(code uint64, n uint32) {
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
		case k.fn == "errors":
			for _, r := range members {
				if view.Flags(b.Flags[r.i]).IsError() {
					x.groups.acc(int(r.group), at).n++
				}
			}
		case k.took != nil:
			isMax, isSum := k.fn == "max", k.fn == "sum"
			if !k.same {
				x.took = x.took[:0]
				for _, r := range members {
					x.took = append(x.took, k.took(x.e.m.v, b, int(r.i)))
				}
			}
			for i, r := range members {
				d := x.took[i]
				switch a := x.groups.acc(int(r.group), at); {
				case d == columns.NoDuration:
				case isMax && a.one.kind == kindDuration: // this case and the next two cases are faster forms of add
					a.one.n = max(a.one.n, d)
				case k.twice && a.kept != nil && a.ints.spread != nil:
					a.n++
					a.ints.spread.add(d)
				case isSum && a.kept != nil:
					a.n++
					a.sums.addWhole(uint64(d), d>>63)
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

// manyGroups is the number of groups above which a goroutine merges its groups into the common groups.
const manyGroups = groupChunk

// group computes the accumulators for each group of rows. If there are more than limit groups, it stops, and returns
// at least limit+1 groups.
func (m *machine) group(keep []keeps, by []expr, rows view.Set[view.Row], limit int) (*groups, error) {
	keys, err := m.evals(by)
	if err != nil {
		return nil, err
	}
	coder, err := m.coderOf(by)
	if err != nil {
		return nil, err
	}
	twice := slices.IndexFunc(keep, func(k keeps) bool { return k.duration && k.fn == "quantile" })
	if coder == nil { // without codes, a second pass would take too long
		twice = -1
	}
	if twice >= 0 {
		keep[twice].twice = true
	}
	all := newGroups(len(keep))
	if len(by) == 0 {
		all.of(nil) // without by there is one group, even if there are no rows
	}
	start := func(g *groups) *grouping {
		return &grouping{count: len(keep) == 1 && keep[0].fn == "count", e: env{m: m, read: m.v.NewReader()}, rows: rows, keys: keys, coder: coder, codes: make([]uint64, columns.BlockRows), groups: g, members: make([]member, 0, columns.BlockRows)}
	}
	var mu sync.Mutex
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	merge := func(x *grouping) {
		mu.Lock()
		defer mu.Unlock()
		for n, rows := range x.counts {
			x.groups.acc(n, 0).n = rows
		}
		x.counts = x.counts[:0]
		if !all.merge(keep, x.groups, limit) {
			stop()
		}
		x.groups.clear()
		clear(x.numbers)
	}
	var started []*grouping
	err = m.columns.Each(ctx, func() func(k int) {
		x := start(newGroups(len(keep)))
		mu.Lock()
		defer mu.Unlock()
		started = append(started, x)
		return func(k int) {
			b := m.columns.Block(k)
			x.add(keep, &b, x.of(k, &b))
			if len(x.groups.keys) > manyGroups {
				merge(x)
			}
		}
	})
	for _, x := range started {
		merge(x)
	}
	if len(all.keys) > limit {
		return all, nil
	}
	if err == nil && twice >= 0 {
		err = m.sortOut(&keep[twice], twice, all, start)
	}
	if err != nil {
		return nil, m.ctx.Err()
	}
	return all, nil
}

// sortOut makes a second pass over the rows, and collects the durations from which the exact quantiles of each
// group are computed.
func (m *machine) sortOut(k *keeps, at int, all *groups, start func(g *groups) *grouping) error {
	spreads := make([]*spread, len(all.keys)) // by group; nil if the group has few durations and needs no second pass
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
	return m.columns.Each(m.ctx, func() func(k int) {
		x := start(all) // this goroutine only looks groups up, because all groups exist already
		var list []wanted
		return func(k int) {
			b := m.columns.Block(k)
			list = list[:0]
			for _, r := range x.of(k, &b) {
				if d := b.Duration[r.i]; d != columns.NoDuration && view.Flags(b.Flags[r.i]).Role() == view.RoleSpan {
					list = spreads[r.group].addWanted(list, d)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, x := range list {
				x.s.values = append(x.s.values, x.d)
			}
		}
	})
}
