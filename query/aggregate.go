package query

import (
	"cmp"
	"context"
	endian "encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// A group is the rows of which aggregates are computed together.
type group struct {
	keys []Value
	rows int64
	accs []accumulator
}

// table computes aggregates of rows, for each group of by.
func (m *machine) table(calls []*stageAggregate, by []expr, rows Set) (*Table, error) {
	if len(calls) == 1 && calls[0].fn == "compare" {
		return m.compareSets(calls[0], rows)
	}
	var keep []keeps
	at := make([]int, len(calls)) // which of them each call uses
	known := make(map[string]int)
	for i, c := range calls {
		if c.fn == "compare" {
			return nil, &Error{Pos: c.pos, Text: "compare() stands alone"}
		}
		k := keeps{fn: c.fn, args: c.args}
		if len(c.args) > 0 {
			k.fn = "quantile" // all of them need the same
		}
		id := k.fn
		if c.x != nil {
			id += " " + c.x.String()
			var err error
			if k.value, err = m.value(c.x); err != nil {
				return nil, err
			}
			f, ok := c.x.(*field)
			k.duration = ok && f.kind == fieldDuration && !f.parent
		}
		n, ok := known[id]
		if !ok {
			n = len(keep)
			known[id] = n
			keep = append(keep, k)
		} else {
			keep[n].args = slices.Concat(keep[n].args, k.args)
		}
		at[i] = n
	}
	groups, err := m.group(keep, by, rows)
	if err != nil {
		return nil, err
	}
	if len(groups) == 1 && rows.Len() > 0 {
		for i, x := range by {
			if groups[0].keys[i].kind == KindNil {
				m.more = append(m.more, Hint{Text: "none of the rows has " + x.String()})
			}
		}
	}
	t := &Table{groups: len(by)}
	for _, x := range by {
		t.Columns = append(t.Columns, x.String())
	}
	if len(calls) == 1 && (calls[0].fn == "histogram" || calls[0].fn == "values") {
		return t.listed(calls[0].fn, groups), nil
	}
	for _, c := range calls {
		if c.fn == "quantile" {
			for _, q := range c.args {
				t.Columns = append(t.Columns, "quantile("+c.x.String()+", "+floatValue(q).String()+")")
			}
			continue
		}
		t.Columns = append(t.Columns, c.text)
	}
	t.Lines = make([][]Value, len(groups))
	var next atomic.Int64
	work := func() {
		for n := next.Add(1) - 1; n < int64(len(groups)); n = next.Add(1) - 1 {
			g := groups[n]
			line := slices.Clone(g.keys)
			for i, c := range calls {
				k := keep[at[i]]
				k.args = c.args
				line = append(line, g.accs[at[i]].results(&k)...)
			}
			t.Lines[n] = line
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(groups)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return t, nil
}

// listed makes a line of each bucket or value.
func (t *Table) listed(fn string, groups []*group) *Table {
	if fn == "values" {
		t.Columns = append(t.Columns, "value", "count")
	} else {
		t.Columns = append(t.Columns, "from", "to", "count")
	}
	for _, g := range groups {
		a := &g.accs[0]
		if a.kept == nil {
			continue
		}
		if fn == "values" {
			values := slices.SortedFunc(maps.Values(a.values), func(x, y *counted) int {
				return cmp.Or(cmp.Compare(y.n, x.n), orderAll(x.value, y.value))
			})
			for _, c := range values {
				t.Lines = append(t.Lines, append(slices.Clone(g.keys), c.value, intValue(c.n)))
			}
			continue
		}
		for _, b := range a.histogram() {
			from, to := bucketEnds(b)
			t.Lines = append(t.Lines, append(slices.Clone(g.keys), a.of(from), a.of(to), intValue(a.buckets[b])))
		}
	}
	return t
}

// maxGroups is how many groups a table can have: each takes some hundred bytes.
var maxGroups = 1 << 20

// tooManyGroups is what a query gets that makes more.
func tooManyGroups(by []expr) error {
	return &Error{Text: fmt.Sprintf("by(%s) makes more than %d groups", list(by), maxGroups), Hint: "select rows before it, or group by less"}
}

// group accumulates rows by their keys.
func (m *machine) group(keep []keeps, by []expr, rows Set) ([]*group, error) {
	if c := m.coded(by); c != nil {
		return m.groupCoded(keep, by, c, rows)
	}
	keys := make([]eval, len(by))
	for i, x := range by {
		var err error
		if keys[i], err = m.value(x); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex
	all := make(map[string]*group)
	tooMany := false
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	err := m.v.EachBlock(ctx, func() func(k int) {
		e := &env{m: m, read: m.v.NewReader()}
		var key []byte
		values := make([]Value, len(keys))
		return func(k int) {
			own := make(map[string]*group)
			for w, word := range rows[k*words64 : (k+1)*words64] {
				for ; word != 0; word &= word - 1 {
					e.row = view.Row(k*view.BlockRows + w*64 + bits.TrailingZeros64(word))
					key = key[:0]
					for i, f := range keys {
						values[i] = canonical(f(e))
						key = appendKey(key, values[i])
					}
					g := own[string(key)]
					if g == nil {
						g = &group{keys: slices.Clone(values), accs: make([]accumulator, len(keep))}
						own[string(key)] = g
					}
					g.rows++
					for i := range keep {
						v := Value{}
						if keep[i].value != nil {
							v = keep[i].value(e)
						}
						g.accs[i].add(&keep[i], v)
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for s, g := range own {
				if old := all[s]; old == nil {
					if len(all) == maxGroups {
						tooMany = true
						stop()
						return
					}
					all[s] = g
				} else {
					old.rows += g.rows
					for i := range keep {
						old.accs[i].merge(&keep[i], &g.accs[i])
					}
				}
			}
		}
	})
	if tooMany {
		return nil, tooManyGroups(by)
	}
	if err != nil {
		return nil, m.ctx.Err()
	}
	groups := make([]*group, 0, len(all))
	for _, s := range slices.Sorted(maps.Keys(all)) {
		groups = append(groups, all[s])
	}
	if len(groups) == 0 && len(by) == 0 {
		groups = append(groups, &group{accs: make([]accumulator, len(keep))})
	}
	return groups, nil
}

// codes are the groups of rows by a field that has a code in each block.
type codes struct {
	of     func(b *view.Block) []uint16
	group  []int // by code, -1: ask key
	keys   []Value
	key    eval // of a code that is not known
	number map[string]int
}

// coded returns the codes of what rows are grouped by, nil if that has none.
func (m *machine) coded(by []expr) *codes {
	if len(by) == 0 {
		return &codes{of: func(b *view.Block) []uint16 { return b.Flags }, group: make([]int, 1<<16), keys: []Value{{}}}
	}
	f, ok := by[0].(*field)
	if len(by) > 1 || !ok || f.parent {
		return nil
	}
	c := &codes{number: make(map[string]int)}
	add := func(v Value) {
		key := string(appendKey(nil, v))
		n, ok := c.number[key]
		if !ok {
			n = len(c.keys)
			c.number[key] = n
			c.keys = append(c.keys, v)
		}
		c.group = append(c.group, n)
	}
	switch f.kind {
	case fieldName, fieldTarget:
		metas := m.v.Metas()
		for i := range metas {
			add(metaValue(f.kind, &metas[i]))
		}
		c.of = func(b *view.Block) []uint16 { return b.Meta }
	case fieldService:
		for _, r := range m.v.Resources() {
			if s := m.v.Service(r); r != 0 && s != "" {
				add(stringValue(s))
			} else {
				add(Value{})
			}
		}
		c.of = func(b *view.Block) []uint16 { return b.Resource }
	case fieldLevel, fieldStatus, fieldKindOfSpan:
		for i := range 1 << 16 {
			add(flagsValue(f.kind, view.Flags(i)))
		}
		c.of = func(b *view.Block) []uint16 { return b.Flags }
	default:
		return nil
	}
	if key, err := m.fieldOf(f); err == nil {
		c.key = key
	}
	return c
}

// groupCoded is group for rows that have codes.
func (m *machine) groupCoded(keep []keeps, by []expr, c *codes, rows Set) ([]*group, error) {
	var mu sync.Mutex
	var workers []*[]*group
	spreads := len(c.keys) <= maxSpreads
	extra := make(map[string]*group) // of codes that are not known
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	err := m.v.EachBlock(ctx, func() func(k int) {
		e := &env{m: m, read: m.v.NewReader()}
		own := make([]*group, len(c.keys))
		mu.Lock()
		workers = append(workers, &own)
		mu.Unlock()
		return func(k int) {
			b := m.v.Block(k)
			codes := c.of(&b)
			for w, word := range rows[k*words64 : (k+1)*words64] {
				for ; word != 0; word &= word - 1 {
					i := w*64 + bits.TrailingZeros64(word)
					e.row = b.First + view.Row(i)
					code := int(codes[i])
					if code >= len(c.group) {
						mu.Lock()
						m.addExtra(extra, keep, c.key(e), e)
						if len(extra) > maxGroups {
							stop()
						}
						mu.Unlock()
						continue
					}
					n := c.group[code]
					g := own[n]
					if g == nil {
						g = &group{keys: []Value{c.keys[n]}, accs: make([]accumulator, len(keep))}
						own[n] = g
					}
					g.rows++
					for x := range keep {
						switch kp := &keep[x]; {
						case kp.fn == "count":
							g.accs[x].n++
						case kp.duration:
							d := b.Duration[i]
							switch {
							case d == view.NoDuration || view.Flags(b.Flags[i]).Role() != view.RoleSpan:
							case kp.fn == "quantile":
								g.accs[x].addQuantile(d, spreads)
							default:
								g.accs[x].add(kp, durationValue(d))
							}
						default:
							g.accs[x].add(kp, kp.value(e))
						}
					}
				}
			}
		}
	})
	if len(extra) > maxGroups {
		return nil, tooManyGroups(by)
	}
	if err != nil {
		return nil, m.ctx.Err()
	}
	all := make(map[string]*group)
	merge := func(g *group) {
		key := string(appendKey(nil, g.keys[0]))
		old := all[key]
		if old == nil {
			all[key] = g
			return
		}
		old.rows += g.rows
		for i := range keep {
			old.accs[i].merge(&keep[i], &g.accs[i])
		}
	}
	for _, own := range workers {
		for _, g := range *own {
			if g != nil {
				merge(g)
			}
		}
	}
	for _, g := range extra {
		merge(g)
	}
	if spreads {
		if err := m.sortOut(keep, c, rows, all); err != nil {
			return nil, err
		}
	}
	groups := make([]*group, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		groups = append(groups, all[key])
	}
	if c.key == nil { // all rows are one group
		if len(groups) == 0 {
			groups = append(groups, &group{accs: make([]accumulator, len(keep))})
		}
		groups[0].keys = nil
	}
	return groups, nil
}

// addExtra adds a row to the group of a key.
func (m *machine) addExtra(extra map[string]*group, keep []keeps, key Value, e *env) {
	s := string(appendKey(nil, key))
	g := extra[s]
	if g == nil {
		g = &group{keys: []Value{canonical(key)}, accs: make([]accumulator, len(keep))}
		extra[s] = g
	}
	g.rows++
	for i := range keep {
		v := Value{}
		if keep[i].value != nil {
			v = keep[i].value(e)
		}
		g.accs[i].add(&keep[i], v)
	}
}

func (m *machine) appendTrace(b []byte, r view.Row) []byte {
	n := m.v.Trace(r)
	if n == 0 { // a trace of its own
		return endian.BigEndian.AppendUint32(append(b, 1), uint32(r))
	}
	return endian.BigEndian.AppendUint32(append(b, 0), n)
}

// canonical returns the one value that stands for all that are equal to a number.
func canonical(v Value) Value {
	switch {
	case v.kind != KindFloat:
		return v
	case math.IsNaN(v.f):
		return floatValue(math.NaN())
	case v.f != math.Trunc(v.f) || v.f < -1<<63 || v.f >= 1<<64:
		return v
	case v.f >= 1<<63:
		return uintValue(uint64(v.f))
	}
	return intValue(int64(v.f))
}

// appendKey appends bytes that tell values apart, and sort as they do. Numbers that are equal have
// the same.
func appendKey(b []byte, v Value) []byte {
	v = canonical(v)
	kind := v.kind
	if kind == KindInt || kind == KindUint {
		kind = KindFloat // numbers are equal whatever their kind
	}
	b = append(b, byte(kind))
	switch v.kind {
	case KindString:
		return append(append(b, strings.ReplaceAll(v.s, "\x00", "\x00\x01")...), 0, 0)
	case KindInt, KindUint, KindFloat:
		f, _ := v.number()
		bits := math.Float64bits(f)
		if bits>>63 != 0 {
			bits = ^bits
		} else {
			bits |= 1 << 63
		}
		b = endian.BigEndian.AppendUint64(b, bits)
		if v.kind == KindInt && magnitude(v.n) < 1<<53 {
			return b // which tells it
		}
	}
	return endian.BigEndian.AppendUint64(b, uint64(v.n)^1<<63)
}

// having keeps the rows of the traces, or of the groups of each trace, whose aggregate is as the
// comparison wants it.
func (m *machine) having(a *stageAggregate, by []expr, rows Set) (Set, error) {
	if a.fn == "count" && len(by) == 0 {
		return m.havingCount(a, rows), nil
	}
	k := keeps{fn: a.fn, args: a.args}
	if a.x != nil {
		var err error
		if k.value, err = m.value(a.x); err != nil {
			return nil, err
		}
	}
	keys := make([]eval, len(by))
	for i, x := range by {
		var err error
		if keys[i], err = m.value(x); err != nil {
			return nil, err
		}
	}
	e := &env{m: m, read: m.v.NewReader()}
	groups := make(map[string]*accumulator)
	var key []byte
	keyOf := func(r view.Row) string {
		e.row = r
		key = m.appendTrace(key[:0], r)
		for _, f := range keys {
			key = appendKey(key, f(e))
		}
		return string(key)
	}
	n := 0
	rows.Each(func(r view.Row) bool {
		s := keyOf(r)
		g := groups[s]
		if g == nil {
			g = new(accumulator)
			groups[s] = g
		}
		v := Value{}
		if k.value != nil {
			v = k.value(e)
		}
		g.add(&k, v)
		n++
		return n%4096 != 0 || m.ctx.Err() == nil
	})
	if err := m.ctx.Err(); err != nil {
		return nil, err
	}
	keep := make(map[string]bool, len(groups))
	for s, g := range groups {
		keep[s] = a.cond.holds(g.results(&k)[0])
	}
	out := make(Set, len(rows))
	rows.Each(func(r view.Row) bool {
		if keep[keyOf(r)] {
			out.Add(r)
		}
		return true
	})
	return out, nil
}

// havingCount is having for count().
func (m *machine) havingCount(a *stageAggregate, rows Set) Set {
	counts := make([]uint32, m.v.Traces())
	rows.Each(func(r view.Row) bool {
		counts[m.v.Trace(r)]++
		return true
	})
	keep := make([]bool, len(counts))
	for i, n := range counts {
		keep[i] = a.cond.holds(intValue(int64(n)))
	}
	keep[0] = a.cond.holds(intValue(1)) // a row without a trace is one of its own
	out := make(Set, len(rows))
	rows.Each(func(r view.Row) bool {
		if keep[m.v.Trace(r)] {
			out.Add(r)
		}
		return true
	})
	return out
}

const (
	// compareTop is how many values of an attribute compare() shows.
	compareTop = 10
	// maxCompared is how many values of an attribute compare() counts: more are ids.
	maxCompared = 10_000
)

// A shareOf counts a value in the selection and in the baseline.
type shareOf struct {
	name    string
	value   Value
	in, out int64
}

// compareSets compares how often attributes have their values in the rows that a filter selects
// and in the others: in percent of the rows, what differs most first. Attributes that have one
// value everywhere, or another one in nearly every row, tell nothing and are left out.
func (m *machine) compareSets(a *stageAggregate, rows Set) (*Table, error) {
	chosen, err := m.set(a.set)
	if err != nil {
		return nil, err
	}
	t := &Table{Columns: []string{"attribute", "value", "selection %", "baseline %", "difference", "selection", "baseline"}}
	in, out := int64(0), int64(0)
	rows.Each(func(r view.Row) bool {
		if chosen.Has(r) {
			in++
		} else {
			out++
		}
		return true
	})
	share := func(n, of int64) float64 { return math.Round(1000*float64(n)/float64(max(of, 1))) / 10 }
	var all []shareOf
	for _, key := range m.v.Keys() {
		name, own := format.UserName(key.Name)
		if !own {
			continue
		}
		list, err := m.shares(name, rows, chosen)
		if err != nil {
			return nil, err
		}
		total := int64(0)
		for _, s := range list {
			total += s.in + s.out
		}
		isConstant := len(list) == 1 && total == in+out
		isID := total > 20 && int64(len(list)) > total/2 // a value is in less than two rows
		if isConstant || isID || len(list) > maxCompared {
			continue
		}
		all = append(all, list...)
	}
	difference := func(s *shareOf) float64 { return share(s.in, in) - share(s.out, out) }
	slices.SortFunc(all, func(x, y shareOf) int {
		return cmp.Or(cmp.Compare(math.Abs(difference(&y)), math.Abs(difference(&x))), cmp.Compare(difference(&y), difference(&x)),
			cmp.Compare(x.name, y.name), orderAll(x.value, y.value))
	})
	shown := make(map[string]int)
	for i := range all {
		s := &all[i]
		d := math.Round(10*difference(s)) / 10
		if shown[s.name]++; shown[s.name] > compareTop || d == 0 {
			continue
		}
		t.Lines = append(t.Lines, []Value{
			stringValue(s.name), s.value, floatValue(share(s.in, in)), floatValue(share(s.out, out)), floatValue(d), intValue(s.in), intValue(s.out),
		})
	}
	return t, nil
}

// shares counts the values of an attribute, until there are too many.
func (m *machine) shares(name string, rows, chosen Set) ([]shareOf, error) {
	at, err := m.attribute(name)
	if err != nil {
		return nil, err
	}
	var list []shareOf
	known := make(map[string]int)
	var key []byte
	n := 0
	rows.Each(func(r view.Row) bool {
		v := at.own(r)
		if v.kind == KindNil {
			return true
		}
		key = appendKey(key[:0], v)
		i, ok := known[string(key)]
		if !ok {
			i = len(list)
			known[string(key)] = i
			list = append(list, shareOf{name: name, value: canonical(v)})
		}
		if chosen.Has(r) {
			list[i].in++
		} else {
			list[i].out++
		}
		n++
		return len(list) <= maxCompared && (n%4096 != 0 || m.ctx.Err() == nil)
	})
	return list, m.ctx.Err()
}
