package query_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
)

// steps returns a number of spans with a few different names, in traces of ten spans each. Every
// fifth span has a log record.
func steps(spans int) []*format.TraceEntry {
	r := rand.New(rand.NewPCG(1, 2))
	entries := []*format.TraceEntry{format.Root()}
	top := uint32(0)
	for i := range spans {
		id := uint32(len(entries))
		e := &format.TraceEntry{Parent: top, Metadata: format.Metadata{Name: fmt.Sprintf("step %d", i%7), Level: format.LevelInfo}, Attributes: tracetest.Attributes(
			format.AttrSpanID, fmt.Sprintf("%016x", i+1),
			format.AttrTime, uint64(i)*1000,
			format.AttrDuration, uint64(math.Exp(20*r.Float64()))-1,
			"user", fmt.Sprintf("user %d", r.IntN(100)),
		)}
		if i%10 == 0 {
			e.Parent, top = 0, id
			e.Metadata.Name = "GET /cart"
			e.Add(format.AttrTraceID, format.StringValue(fmt.Sprintf("%032x", i+1)))
		}
		entries = append(entries, e)
		if i%5 == 0 {
			entries = append(entries, &format.TraceEntry{
				Parent: id, Message: format.Some("payment failed"), Metadata: format.Metadata{Name: "event", Level: format.LevelError},
				Attributes: tracetest.Attributes(format.AttrTime, uint64(i)*1000+1),
			})
		}
	}
	return entries
}

// TestQuantiles compares quantiles with the quantiles of the sorted durations.
func TestQuantiles(t *testing.T) {
	entries := steps(30_000)
	long := fmt.Sprintf("%09000d", 7) // a name that is too long for the table of names
	for i, e := range entries {
		if i%50 == 0 && i > 0 && !e.Message.Valid {
			e.Metadata.Name = long
		}
	}
	v := viewOf(t, entries)
	took := make(map[string][]int64)
	for _, e := range entries[1:] {
		if d, ok := e.Attribute(format.AttrDuration); ok {
			n, _ := d.I64()
			took[e.Metadata.Name] = append(took[e.Metadata.Name], n)
			took[""] = append(took[""], n)
		}
	}
	for _, text := range []string{"", " by(name)"} {
		r := querytest.Result(t, v, `duration >= 0 | p50(duration) | p95(duration) | quantile(duration, 0, 0.001, 0.99, 1)`+text)
		expect.Equal(t, len(r.Table.Lines), map[string]int{"": 1, " by(name)": len(took) - 1}[text], "groups")
		for _, line := range r.Table.Lines {
			name := ""
			if text != "" {
				name, line = line[0].String(), line[1:]
			}
			all := took[name]
			slices.Sort(all)
			for i, q := range []float64{0.5, 0.95, 0, 0.001, 0.99, 1} {
				want := all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
				expect.Equal(t, query.Number(line[i]), any(want), "%.10s: the quantile %g", name, q)
			}
		}
	}
}

// BenchmarkQuery runs queries on half a million rows.
func BenchmarkQuery(b *testing.B) {
	v := viewOf(b, steps(420_000))
	for _, x := range []struct{ name, text string }{
		{"Duration", `name = "step 3" && duration > 100us`},
		{"Level", `level >= error`},
		{"Message", `message contains "fail"`},
		{"Attribute", `.user = "user 77"`},
		{"Below", `{ name = "GET /cart" } >> { level >= error }`},
		{"Traces", `!{ level >= error }`},
		{"CountOfTraces", `{} | count() > 4`},
		{"CountByName", `{} | count() by(name)`},
		{"Percentiles", `{} | p50(duration) | p95(duration) | p99(duration) by(name)`},
		{"FreeText", `payment`},
	} {
		b.Run(x.name, func(b *testing.B) {
			q, err := query.Parse(x.text)
			must(b, err)
			for b.Loop() {
				_, err := q.Run(b.Context(), v, nil)
				must(b, err)
			}
		})
	}
	r := querytest.Result(b, v, "")
	table, err := query.Summary(b.Context(), v, r.Rows, nil)
	must(b, err)
	b.Run("Summary", func(b *testing.B) {
		for b.Loop() {
			_, err := query.Summary(b.Context(), v, r.Rows, nil)
			must(b, err)
		}
	})
	b.Run("Spread", func(b *testing.B) {
		for b.Loop() {
			_, err := table.Spread(b.Context(), v, r.Rows, 0, 420_000_000/24, 24)
			must(b, err)
		}
	})
	failed := querytest.Result(b, v, "span:failed || level >= error")
	b.Run("Contrast", func(b *testing.B) {
		for b.Loop() {
			_, err := query.ContrastOf(b.Context(), query.Run{View: v, Rows: failed.Rows}, query.Run{View: v, Rows: r.Rows})
			must(b, err)
		}
	})
}
