package query

import (
	"context"
	"slices"

	"github.com/entrace-go/entrace/view"
)

// minForRate is the minimum number of spans for which the table shows a rate.
const minForRate = 20

// Summary returns a table of the spans of a set by service and name. Its columns are the number of spans, the number
// of failed spans, the number of spans per second of the trace if there are at least 20 spans, quantiles of the
// durations, the longest duration, and the sums of the durations and of the self times. If o, which may be nil, has a
// period, the rate is per second of the period. More than a million groups are an [*Error].
func Summary(ctx context.Context, v *view.View, rows view.Set[view.Row], o *Options) (*Table, error) {
	q, err := Parse("{} | sum(self) by(service, name)")
	if err != nil {
		return nil, err
	}
	m := q.machine(ctx, v)
	m.roles = 1 << view.RoleSpan
	spans, err := m.refine(allOf(nil), rows)
	if err != nil {
		return nil, err
	}
	self := q.root.stages[0].(*stageAggregate) //nolint:forcetypeassert // it is one
	took := &field{definition: bareNames["duration"], text: "duration"}
	stages := []*stageAggregate{{fn: "count"}, {fn: "errors"}, {fn: "quantile", x: took, args: []float64{.5, .95, .99}}, {fn: "max", x: took}, {fn: "sum", x: took}, self}
	from, err := m.table(stages, self.by, spans)
	if err != nil {
		return nil, err
	}
	seconds := 0.0
	if first, last, ok := v.Period(); ok {
		from, to := o.Period()
		seconds = float64(min(last, to)-max(first, from)) / 1e9
	}
	t := &Table{Columns: []string{"service", "name", "count", "errors", "rate/s", "p50", "p95", "p99", "max", "total", "self"}, groups: 2, spans: true}
	for _, l := range from.Lines {
		if l[0].kind == kindNil {
			l[0] = stringValue("")
		}
		rate := Value{}
		if n := l[2].n; n >= minForRate && seconds > 0 {
			rate = floatValue(float64(n) / seconds)
		}
		t.Lines = append(t.Lines, slices.Concat(l[:4], []Value{rate}, l[4:]))
	}
	return t, nil
}
