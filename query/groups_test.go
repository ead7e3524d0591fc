package query_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
)

// users returns the spans of n traces. Each trace has two spans of one user, and one span of
// another user.
func users(n int) []*format.TraceEntry {
	list := []*format.TraceEntry{format.Root()}
	for i := range 3 * n {
		list = append(list, tracetest.Entry(fmt.Sprintf("call %d", i),
			format.AttrSpanID, fmt.Sprintf("%016x", i+1),
			format.AttrTraceID, fmt.Sprintf("%032x", i/3+1),
			format.AttrTime, uint64(1000+i),
			format.AttrDuration, uint64(i%3+1),
			"user", fmt.Sprintf("user %d", i/3*2+i%3/2),
		))
	}
	return list
}

// TestManyGroupsAreFewObjects counts the heap objects that a query with many groups allocates.
func TestManyGroupsAreFewObjects(t *testing.T) {
	const n = 20_000
	v := viewOf(t, users(n))
	for _, text := range []string{"{} | count() by(.user)", "{} | min(.user) by(.user)", "{} | p95(duration) by(.user)", "{} | values(.user)", "{} | by(.user) | max(start) > 1"} {
		must(t, expect.Err(runOn(t, v, text))) // this first run makes the column
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := runOn(t, v, text)
		must(t, err)
		runtime.ReadMemStats(&after)
		if got := after.Mallocs - before.Mallocs; got > 5*n {
			t.Errorf("%s makes %d objects for %d groups", text, got, 2*n)
		}
	}
}

// TestBoundOfGroups checks that values() and by() allow the same number of groups, and that a
// condition on traces allows any number.
func TestBoundOfGroups(t *testing.T) {
	v := viewOf(t, users(100))
	having := map[string]int{
		"{} | by(.user) | count() = 2": 200, "{} | by(.user) | min(duration) > 2ns": 100, "{} | sum(duration) = 6ns": 300,
		"{} | by(name) | count() = 1": 300, "{} | avg(duration) > 2ns": 0,
	}
	defer func(n int) { *query.MaxGroups = n }(*query.MaxGroups)
	for _, *query.MaxGroups = range []int{1 << 20, 7, 1} {
		for text, want := range having {
			if r, err := runOn(t, v, text); err != nil || r.Rows.Len() != want {
				t.Errorf("%s with %d groups: %v, want %d rows", text, *query.MaxGroups, err, want)
			}
		}
	}
	*query.MaxGroups = 7
	expect.Says(t, expect.Err(runOn(t, v, "{} | values(.user)")), "more than 7 groups", "of many values")
	expect.Says(t, expect.Err(runOn(t, v, "{} | histogram(duration) | count()")), "cannot be combined", "of a histogram beside another aggregate")
}

// TestKeysOfGroups checks that each group has the value of its rows, for all kinds of values.
func TestKeysOfGroups(t *testing.T) {
	values := []format.Value{
		format.StringValue(""), format.StringValue("a\x00b"), format.StringValue("\x00"), format.StringValue("\x00\x01\x00"), format.StringValue("é"),
		format.I64Value(-1 << 63), format.I64Value(-1<<53 - 1), format.I64Value(-1), format.I64Value(0), format.I64Value(1<<53 + 1), format.U64Value(1<<63 - 1),
		format.U64Value(1 << 63), format.U64Value(1<<64 - 1), format.FloatValue(0.5), format.FloatValue(-1e300), format.FloatValue(1 << 64), format.BoolValue(true), format.BoolValue(false),
	}
	list := []*format.TraceEntry{format.Root()}
	var want []string
	for _, x := range values {
		list = append(list, &format.TraceEntry{Attributes: tracetest.Attributes("x", x)})
	}
	v := viewOf(t, list)
	r, err := runOn(t, v, "{} | select(.x)")
	must(t, err)
	rows, err := r.SelectedTable(t.Context())
	must(t, err)
	for _, line := range rows.Lines {
		want = append(want, fmt.Sprintf("%#v", line[0].Any()))
	}
	r, err = runOn(t, v, "{} | count() by(.x, depth, .x)")
	must(t, err)
	var got []string
	for _, line := range r.Table.Lines {
		got = append(got, fmt.Sprintf("%#v", line[0].Any()))
		if line[0] != line[2] || line[1].String() != "1" {
			t.Errorf("the group of %v has %v", line[0], line)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	expect.Slice(t, got, want, "the groups")
}
