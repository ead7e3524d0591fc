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
// period, the rate is per second of the period. If there are more than a million groups, Summary returns an
// [*Error].
func Summary(ctx context.Context, v *view.View, rows view.Set[view.Row], o *Options) (*Table, error) {
	from, err := tableOf(ctx, v, rows, true, "{} | count() | max(duration) | sum(duration) | sum(self) by(service, name)", .5, .95, .99)
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

// Models returns a table of the calls of generative models in a set, by model and operation, as OpenTelemetry's
// conventions record them. An agent's span repeats the tokens of the calls below it, as another operation.
func Models(ctx context.Context, v *view.View, rows view.Set[view.Row]) (*Table, error) {
	t, err := tableOf(ctx, v, rows, true, "{ .gen_ai.request.model != nil } | count() | sum(.gen_ai.usage.input_tokens) | sum(.gen_ai.usage.output_tokens) by(.gen_ai.request.model, .gen_ai.operation.name)", .5, .95)
	if err == nil {
		t.Columns = []string{"model", "operation", "calls", "errors", "p50", "p95", "input", "output"}
	}
	return t, err
}

// tableOf returns the table of a query for the rows of a set, or for their spans only. The query has a filter, count(),
// and perhaps other aggregates. If there are quantiles, the number of errors and these quantiles of the durations of
// spans follow the count.
func tableOf(ctx context.Context, v *view.View, rows view.Set[view.Row], spans bool, text string, quantiles ...float64) (*Table, error) {
	q, err := Parse(text)
	if err != nil {
		return nil, err
	}
	m := q.machine(ctx, v)
	m.roles = ^uint64(0)
	if spans {
		m.roles = 1 << view.RoleSpan
	}
	some, err := m.where(q.root.set.(*filter).x, rows) //nolint:forcetypeassert // it is one
	if err != nil {
		return nil, err
	}
	var stages []*stageAggregate
	for _, s := range q.root.stages {
		stages = append(stages, s.(*stageAggregate)) //nolint:forcetypeassert // it is one
	}
	by := stages[len(stages)-1].by
	if len(quantiles) > 0 {
		took := &field{definition: bareNames["duration"], text: "duration"}
		stages = slices.Insert(stages, 1, &stageAggregate{fn: "errors", text: "errors"}, &stageAggregate{fn: "quantile", x: took, args: quantiles})
	}
	return m.table(stages, by, some)
}
