package query

import (
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/view"
)

// A Contrast describes the differences between a set of rows and other rows.
type Contrast struct {
	In     int64 `json:"in"` // rows
	Others int64 `json:"others"`
	// Fields are sorted by the largest difference of any of their values. Fields with the same value in all rows, or
	// with a different value in nearly every row, are left out.
	Fields []FieldShares `json:"fields"`
}

// FieldShares holds the values of a field, sorted by difference, the largest first.
type FieldShares struct {
	Field  string       `json:"field"`  // in the syntax of queries, such as service, .user or resource.host.name
	Points float64      `json:"points"` // set by callers that display the field: the largest difference shown, in percent
	Values []ValueShare `json:"values"`
	More   int          `json:"more"` // set by callers that display the field: the number of values not shown
}

// A ValueShare counts the rows with a value in both sets.
type ValueShare struct {
	Value Value  `json:"-"`
	Text  string `json:"value"` // set by callers that display the value
	Where string `json:"where"` // a filter that selects the rows with the value
	// AtLeast reports that the rows have Value or a larger number. Such a threshold precedes the other values of the
	// field. It exists only if it separates the two sets of rows better than every single value.
	AtLeast bool  `json:"at_least"`
	In      int64 `json:"in"`
	Others  int64 `json:"others"`
	// Difference is the share of the rows with the value, from 0 to 1, minus the same share of the other rows.
	Difference float64 `json:"-"`
	// Chance reports that the difference may be due to chance: if both sets of rows were chosen at random, one of the
	// compared values would differ this much in more than 5 % of the comparisons. Chance is false if each set has at
	// least three rows, and all rows of one set and no row of the other set have the value.
	Chance bool `json:"chance"`
}

const (
	contrastSample = 1000 // the number of rows of each set that are searched for attributes
	contrastFields = 8    // the number of attributes whose values are counted
	fewestApart    = 3    // if both sets have at least this many rows, a value that all rows of one set and no row of the other have is not chance
)

// contrastFixed are the fields that all rows have.
var contrastFixed = []string{"service", "level", "status", "name", "kind"}

// Label returns the text of the value, as callers display it.
func (x *ValueShare) Label() string {
	if x.AtLeast {
		return ">= " + x.Value.String()
	}
	return x.Value.String()
}

// ContrastOf compares a set of rows with other rows, which may belong to another view. It compares their service,
// level, status, name, kind and attributes, and the attributes of log records and events directly below spans. From a
// sample of both sets, it chooses the attributes that differ most, and then counts the values of these attributes in
// all rows.
func ContrastOf(ctx context.Context, in, others Run) (*Contrast, error) {
	c := &Contrast{In: int64(in.Rows.Len()), Others: int64(others.Rows.Len())}
	names, looked, err := contrastNames(ctx, [2]Run{in, others}, c)
	if err != nil {
		return nil, err
	}
	counters := []*counter{{ctx: ctx, v: in.View, sets: [2]view.Set[view.Row]{in.Rows, others.Rows}}}
	if in.View != others.View {
		counters[0].sets[1] = in.View.NewSet()
		counters = append(counters, &counter{ctx: ctx, v: others.View, sets: [2]view.Set[view.Row]{others.View.NewSet(), others.Rows}})
	}
	compared := 0
	for _, n := range looked {
		compared += n
	}
	for _, name := range slices.Concat(contrastFixed, names) {
		counts := new(valueCounts)
		for _, n := range counters {
			if err := n.field(name, counts); err != nil {
				return nil, err
			}
		}
		if f := c.shares(name, counts); len(f.Values) > 0 {
			c.Fields = append(c.Fields, f)
			compared += max(0, len(f.Values)-looked[name])
			if f.Values[0].AtLeast {
				compared += mostThresholds
			}
		}
	}
	for _, f := range c.Fields {
		for i := range f.Values {
			x := &f.Values[i]
			x.Chance = IsChance([2]int64{x.In, x.Others}, [2]int64{c.In, c.Others}, compared)
		}
	}
	slices.SortStableFunc(c.Fields, func(a, b FieldShares) int { return cmp.Compare(b.most(), a.most()) })
	return c, nil
}

// most returns the largest difference among the values whose difference is not due to chance.
func (f *FieldShares) most() float64 {
	most := 0.0
	for i := range f.Values {
		if !f.Values[i].Chance {
			most = max(most, math.Abs(f.Values[i].Difference))
		}
	}
	return most
}

// shares returns the shares of a field's values. It returns no values for a field that is constant or an id.
func (c *Contrast) shares(name string, counts *valueCounts) FieldShares {
	f := FieldShares{Field: name}
	if !counts.comparable(c.In + c.Others) {
		return f
	}
	for i, v := range counts.values {
		x := ValueShare{Value: v, Where: where(name, v), In: counts.n[i][0], Others: counts.n[i][1]}
		if c.In > 0 && c.Others > 0 {
			x.Difference = float64(x.In)/float64(c.In) - float64(x.Others)/float64(c.Others)
		}
		f.Values = append(f.Values, x)
	}
	slices.SortFunc(f.Values, func(a, b ValueShare) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference)), cmp.Compare(b.In+b.Others, a.In+a.Others), Compare(a.Value, b.Value))
	})
	if t, better := c.threshold(name, counts); better && (len(f.Values) == 0 || t.Difference >= math.Abs(f.Values[0].Difference)+leastBetter) {
		f.Values = slices.Insert(f.Values, 0, t)
	}
	return f
}

const (
	mostThresholds = 32  // numbers that are tried as a threshold
	leastBetter    = .10 // how much better a threshold is than the best single value
	mostlyNumbers  = .9  // the least share of the rows of a field that have numbers
)

// threshold returns the number for which the share of the rows in the set with this number or a larger number, minus
// the same share of the other rows, is largest. It returns false if the field does not have mostly numbers, or has
// fewer than three different numbers.
func (c *Contrast) threshold(name string, counts *valueCounts) (best ValueShare, ok bool) {
	type numbered struct {
		value      Value
		number     float64
		in, others int64
	}
	var list []numbered
	numbers := int64(0)
	for i, v := range counts.values {
		n := counts.n[i]
		if x, is := v.number(); is && v.kind != kindDuration && where(name, v) != "" {
			numbers += n[0] + n[1]
			list = append(list, numbered{v, x, n[0], n[1]})
		}
	}
	if counts.sum[0] > c.In || counts.sum[1] > c.Others {
		return best, false // rows have several values
	}
	if len(list) < 3 || float64(numbers) < mostlyNumbers*float64(counts.sum[0]+counts.sum[1]) || c.In == 0 || c.Others == 0 {
		return best, false
	}
	slices.SortFunc(list, func(a, b numbered) int { return cmp.Compare(b.number, a.number) })
	in, others, step := int64(0), int64(0), numbers/mostThresholds
	tried := int64(0)
	for i, x := range list[:len(list)-1] { // without the smallest number, because all rows have at least this number
		in, others = in+x.in, others+x.others
		if in+others < tried+step && i < len(list)-2 {
			continue
		}
		tried = in + others
		if d := float64(in)/float64(c.In) - float64(others)/float64(c.Others); d > best.Difference {
			best = ValueShare{Value: x.value, Where: name + " >= " + x.value.Literal(), AtLeast: true, In: in, Others: others, Difference: d}
		}
	}
	return best, best.Difference > 0
}

// IsChance reports whether the difference between two samples may be due to chance. The samples have rows[0] and
// rows[1] rows, of which with[0] and with[1] have a certain value. IsChance returns true if, in more than 5 % of
// cases, at least one of as many values as the parameter compared would differ this much between random samples. It
// uses Fisher's exact test with Bonferroni's correction.
func IsChance(with, rows [2]int64, compared int) bool {
	if rows[0] == 0 || rows[1] == 0 {
		return true
	}
	if min(rows[0], rows[1]) >= fewestApart && (with == [2]int64{rows[0], 0} || with == [2]int64{0, rows[1]}) {
		return false
	}
	in, others := float64(rows[0]), float64(rows[1])
	both := float64(with[0]+with[1]) / (in + others)
	apart := float64(with[0])/in - float64(with[1])/others
	if math.Abs(apart) < 1.5*math.Sqrt(both*(1-both)*(1/in+1/others)) {
		return true // no exact test is needed
	}
	if apart < 0 {
		with[0], with[1], rows[0], rows[1] = with[1], with[0], rows[1], rows[0]
	}
	return 2*math.Pow(10, -stat.MoreOften(int(with[0]), int(rows[0]), int(with[1]), int(rows[1])))*float64(max(1, compared)) > .05
}

// A sampleCounts holds, for each value of an attribute, how many sampled rows of each set have the value.
type sampleCounts struct {
	field  string
	n      int
	values map[uint64][2]int // by the hash of a value: the number of rows of each set with the value
}

const (
	eventScope = "event." // the beginning of the names of attributes of log records and events directly below a span
	mostBelow  = 32       // the maximum number of log records and events of a span whose attributes are compared
)

// contrastNames returns the attributes that differ most in a sample. The map looked has the number of values of
// each attribute in the sample.
func contrastNames(ctx context.Context, sides [2]Run, c *Contrast) (names []string, looked map[string]int, err error) {
	seed := maphash.MakeSeed()
	known := make(map[string]*sampleCounts)
	var all []*sampleCounts
	look := func(side int, scope string, list []format.Attribute) {
		for i := range list {
			key := scope + list[i].Name
			s := known[key]
			if s == nil {
				s = &sampleCounts{field: scope + attributeName(list[i].Name), values: make(map[uint64][2]int)}
				known[key] = s
				all = append(all, s)
			}
			s.n++
			hash := maphash.String(seed, list[i].Value.String())
			n := s.values[hash]
			n[side]++
			s.values[hash] = n
		}
	}
	sizes := [2]float64{}
	for side, run := range sides {
		v, rows := run.View, run.Rows
		read := v.NewReader()
		resources := make(map[view.Row][]format.Attribute)
		for r := range rows.Sample(contrastSample) {
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			sizes[side]++
			e, err := read.Entry(r)
			if err != nil {
				return nil, nil, err
			}
			look(side, ".", e.UserAttributes())
			events := eventsBelow(v, r)
			for _, event := range events[:min(len(events), mostBelow)] {
				e, err := read.Entry(event)
				if err != nil {
					return nil, nil, err
				}
				look(side, eventScope, e.UserAttributes())
			}
			res := v.Resource(r)
			list, ok := resources[res]
			if !ok && res != 0 {
				e, err := v.Entry(res)
				if err != nil {
					return nil, nil, err
				}
				list = e.UserAttributes()
				resources[res] = list
			}
			look(side, "resource.", list)
		}
	}
	score := func(s *sampleCounts) float64 {
		most := 0.0
		for _, n := range s.values {
			d := math.Abs(float64(n[0])/max(1, sizes[0]) - float64(n[1])/max(1, sizes[1]))
			if c.In == 0 || c.Others == 0 { // if one set is empty, prefer attributes with a frequent value
				d = float64(n[0]+n[1]) / float64(s.n)
			}
			most = max(most, d)
		}
		return most
	}
	all = slices.DeleteFunc(all, func(s *sampleCounts) bool {
		return isIDs(len(s.values), int64(s.n)) || s.field == "resource.service.name"
	})
	slices.SortFunc(all, func(a, b *sampleCounts) int {
		return cmp.Or(cmp.Compare(score(b), score(a)), cmp.Compare(a.field, b.field))
	})
	looked = make(map[string]int, len(all))
	for i, s := range all {
		if i < contrastFields {
			names = append(names, s.field)
		}
		looked[s.field] = len(s.values)
	}
	return names, looked, nil
}
