package query

import (
	"maps"
	"slices"
)

// A function is a word that can follow a | in a query.
type function struct {
	takes    argument // the argument of an aggregate, which computes a value from many rows
	quantile float64  // the only quantile that an aggregate computes, or 0
	table    bool     // the aggregate computes a table, not a value
	// instead is set for functions of TraceQL metrics, which compute time series and are refused. It is an equivalent
	// query in this language.
	instead string
}

// An argument says which argument an aggregate takes.
type argument uint8

const (
	noAggregate argument = iota
	rowsAlone
	aFilter
	aNumber  // an expression whose values are numbers
	anything // any expression
)

// functions are all known functions.
var functions = map[string]function{
	"count": {takes: rowsAlone}, "compare": {takes: aFilter, table: true},
	"sum": {takes: aNumber}, "avg": {takes: aNumber}, "stddev": {takes: aNumber},
	"min": {takes: anything}, "max": {takes: anything},
	"p50": {takes: aNumber, quantile: 0.5}, "p90": {takes: aNumber, quantile: 0.9},
	"p95": {takes: aNumber, quantile: 0.95}, "p99": {takes: aNumber, quantile: 0.99},
	"quantile":  {takes: aNumber},
	"histogram": {takes: aNumber, table: true},
	"values":    {takes: anything, table: true},

	"by": {}, "bottomk": {}, "coalesce": {}, "limit": {}, "select": {}, "sort": {}, "topk": {},

	"rate":                {instead: "count() by(bucket(start, 1s))"},
	"count_over_time":     {instead: "count() by(bucket(start, 1s))"},
	"min_over_time":       {instead: "min(…) by(bucket(start, 1s))"},
	"max_over_time":       {instead: "max(…) by(bucket(start, 1s))"},
	"avg_over_time":       {instead: "avg(…) by(bucket(start, 1s))"},
	"sum_over_time":       {instead: "sum(…) by(bucket(start, 1s))"},
	"quantile_over_time":  {instead: "quantile(…, 0.95) by(bucket(start, 1s))"},
	"histogram_over_time": {instead: "histogram(…) by(bucket(start, 1s))"},
	"with":                {instead: "nothing: all rows are looked at"},
}

// functionNames returns the names of the functions of the language, the aggregates first.
func functionNames() []string {
	var aggregates, others []string
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		switch f := functions[name]; {
		case f.takes != noAggregate:
			aggregates = append(aggregates, name)
		case f.instead == "":
			others = append(others, name)
		}
	}
	return append(aggregates, others...)
}

// isFunction reports whether a function of the language has the given name.
func isFunction(name string) bool {
	f, known := functions[name]
	return known && f.instead == ""
}
