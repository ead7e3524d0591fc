package query_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// resultOf runs a query on all rows.
func resultOf(t *testing.T, v *view.View, text string) *query.Result {
	t.Helper()
	q, err := query.Parse(text)
	expect.MustIs(t, err, nil, "%s", text)
	r, err := q.Run(context.Background(), v, nil)
	expect.MustIs(t, err, nil, "%s", text)
	return r
}

// TestWhereSelectsTheRowsOfALine: for each line of a table, the line's count, the rows that its Where selects, and the
// sum of its Spread are the same number.
func TestWhereSelectsTheRowsOfALine(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	first, last, _ := v.Period()
	for _, by := range []string{
		"service", "level", "kind", "status", "name", ".user", ".n", "span:failed", "service, name", "target", "duration", "resource.version",
		"bucket(duration, 10ms)", "bucket(start, 1ms)", "start", "span:childCount", "trace:rootName", `."no such"`, ".n + 1",
	} {
		all := resultOf(t, v, "{} | count() by("+by+")")
		spread, err := all.Table.Spread(t.Context(), v, all.Rows, first, (last-first)/10+1, 10)
		expect.Is(t, err, nil, "%s", by)
		for _, line := range all.Table.Lines {
			where := all.Table.Where(line)
			want := line[len(line)-1].String()
			if strings.Contains(by, "e, n") == strings.Contains(where, "&&") {
				expect.Equal(t, fmt.Sprint(resultOf(t, v, "{ "+where+" }").Rows.Len()), want, "rows that %s selects", where)
			} else {
				t.Errorf("the line of %s is %s", by, where)
			}
			sum := uint32(0)
			for _, n := range spread[where] {
				sum += n
			}
			timed := resultOf(t, v, "{ ("+where+") && start != nil }").Rows.Len()
			expect.Equal(t, int(sum), timed, "of %s rows are spread", where)
		}
	}
}

// TestContrast compares the numbers of a contrast with the results of queries.
func TestContrast(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	in := resultOf(t, v, "{ kind = server }").Rows
	others := resultOf(t, v, "!{ kind = server } || { kind != server }").Rows
	for i := range others {
		others[i] &^= in[i]
	}
	c, err := query.ContrastOf(t.Context(), query.Run{View: v, Rows: in}, query.Run{View: v, Rows: others})
	if err != nil || int(c.In) != in.Len() || int(c.Others) != others.Len() || len(c.Fields) == 0 {
		t.Fatalf("got %+v, %v", c, err)
	}
	count := func(rows view.Set[view.Row], where string) (n int64) {
		for r := range resultOf(t, v, "{ "+where+" }").Rows.All() {
			if rows.Has(r) {
				n++
			}
		}
		return n
	}
	for _, f := range c.Fields {
		for _, x := range f.Values {
			if in, others := count(in, x.Where), count(others, x.Where); in != x.In || others != x.Others {
				t.Errorf("%s: %d and %d, want %d and %d", x.Where, x.In, x.Others, in, others)
			}
			expect.Equal(t, x.Difference, float64(x.In)/float64(c.In)-float64(x.Others)/float64(c.Others), "%s differs by", x.Where)
		}
	}
	twice, err := query.ContrastOf(t.Context(), query.Run{View: v, Rows: in}, query.Run{View: viewOf(t, querytest.Entries()), Rows: others})
	if err != nil || !reflect.DeepEqual(c, twice) {
		t.Errorf("with another view of the same it is %+v, %v, want %+v", twice, err, c)
	}
	kind := slices.IndexFunc(c.Fields, func(f query.FieldShares) bool { return f.Field == "kind" })
	if x := c.Fields[kind].Values[0]; x.Where != "kind = server" || x.Difference != 1 || !x.Chance {
		t.Errorf("the kind, which two rows cannot tell from chance, is %+v", x)
	}
}

// TestContrastThreshold: for an attribute with numbers, the best threshold precedes the single values if it separates
// the rows better than each single value.
func TestContrastThreshold(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	for i := range 120 {
		e := querytest.Span(0, fmt.Sprintf("%016x", i+1), "call", int64(i+1), 1)
		e.Attributes = append(e.Attributes, tracetest.Attributes("retry", uint64(i%12), "steps", uint64(i%3))...)
		format.SortAttributes(e.Attributes)
		all = append(all, e)
	}
	v := viewOf(t, all)
	in, others := resultOf(t, v, "{ .retry >= 5 }").Rows, resultOf(t, v, "{ .retry < 5 }").Rows
	c, err := query.ContrastOf(t.Context(), query.Run{View: v, Rows: in}, query.Run{View: v, Rows: others})
	must(t, err)
	f := c.Fields[0]
	if f.Field != ".retry" || !f.Values[0].AtLeast || f.Values[0].Where != ".retry >= 5" || f.Values[0].Label() != ">= 5" || f.Values[0].In != 70 || f.Values[0].Others != 0 {
		t.Errorf("the first field is %+v", f)
	}
	for _, f := range c.Fields {
		if f.Field == ".steps" && f.Values[0].AtLeast {
			t.Errorf("a threshold of an attribute that tells nothing apart: %+v", f.Values[0])
		}
	}
}

// TestContrastOfChance compares ten random rows with the others of 1,000 rows, a hundred times. Only seldom is the
// difference of one of 200 users or 30 hosts not attributed to chance. If six of the ten rows have the same user, this
// difference is never attributed to chance.
func TestContrastOfChance(t *testing.T) {
	const rows, few = 1000, 10
	trials := hosttest.InCI(30, 100)
	r := rand.New(rand.NewPCG(1, 2))
	wrong, found := 0, 0
	for range trials {
		entries := []*format.TraceEntry{format.Root()}
		for i := range rows {
			user := fmt.Sprint("u", r.IntN(200))
			if i < few && i%5 < 3 {
				user = "mallory"
			}
			entries = append(entries, tracetest.Entry("x", "user", user, "host", fmt.Sprint("h", r.IntN(30))))
		}
		v := viewOf(t, entries)
		all := resultOf(t, v, "{ .user != nil }").Rows
		look := func(in view.Set[view.Row]) (user, other bool) {
			others := v.NewSet()
			for i := range others {
				others[i] = all[i] &^ in[i]
			}
			c, err := query.ContrastOf(t.Context(), query.Run{View: v, Rows: in}, query.Run{View: v, Rows: others})
			if err != nil || len(c.Fields) < 2 {
				t.Fatalf("got %+v, %v", c, err)
			}
			for _, f := range c.Fields {
				for _, x := range f.Values {
					if x.Where == `.user = "mallory"` {
						user = user || !x.Chance
					} else {
						other = other || !x.Chance
					}
				}
			}
			return user, other
		}
		chosen, random := v.NewSet(), v.NewSet()
		list := slices.Collect(all.All())
		for _, row := range list[:few] {
			chosen.Add(row)
		}
		for _, i := range r.Perm(rows - few)[:few] {
			random.Add(list[few+i])
		}
		user, _ := look(chosen)
		_, other := look(random)
		if user {
			found++
		}
		if other {
			wrong++
		}
	}
	if found != trials || wrong > trials/10 {
		t.Errorf("what makes the difference is found %d times, something else %d times", found, wrong)
	}
}

// TestWhereOfNumbers: Where writes numbers in the syntax of queries.
func TestWhereOfNumbers(t *testing.T) {
	entries := []*format.TraceEntry{format.Root()}
	for _, n := range []float64{5e-5, 1e21, -2.5, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.NaN()} {
		entries = append(entries, tracetest.Entry("x", "n", n))
	}
	v := viewOf(t, entries)
	named := 0
	table := resultOf(t, v, "{} | count() by(.n)").Table
	for _, line := range table.Lines {
		where := table.Where(line)
		if where == "" {
			continue
		}
		named++
		expect.Equal(t, resultOf(t, v, "{ "+where+" }").Rows.Len(), 1, "rows that %s selects", where)
	}
	expect.Equal(t, named, 5, "numbers have a filter")
}

// TestContrastOfRequestsThatAreAlike checks that the sample finds all attributes of a trace, even if all requests have
// the same number of rows, so that regular steps through the rows would miss some.
func TestContrastOfRequestsThatAreAlike(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	for i := range 25_000 {
		e := span(0, fmt.Sprintf("%x", i+1), "call", int64(i), 1)
		e.Add(fmt.Sprint("of", i%5), format.StringValue(fmt.Sprint(i%3)))
		all = append(all, e)
	}
	v := viewOf(t, all)
	c, err := query.ContrastOf(t.Context(), query.Run{View: v, Rows: everything(t, v)}, query.Run{View: v, Rows: v.NewSet()})
	must(t, err)
	found := []string{}
	for _, f := range c.Fields {
		found = append(found, f.Field)
	}
	slices.Sort(found)
	expect.Equal(t, fmt.Sprint(found), "[.of0 .of1 .of2 .of3 .of4]", "found are")
}

// TestIsChance: if all rows of one set and no row of the other set have a value, this can be chance with two rows,
// but not with three rows.
func TestIsChance(t *testing.T) {
	for few, chance := range map[int64]bool{2: true, 3: false} { // by number of rows with the value
		expect.Equal(t, query.IsChance([2]int64{few, 0}, [2]int64{few, 9}, 1000), chance, "%d rows that a value tells apart: chance", few)
	}
}
