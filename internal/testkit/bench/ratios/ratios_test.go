package main

import (
	"math"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

const printed = `goos: linux
pkg: github.com/entrace-go/entrace/internal/testkit/bench
BenchmarkSlogFile/attrs=10/entrace-2  	 1000	  300 ns/op	 406.0 B/record	 208 B/op	 1 allocs/op
BenchmarkSlogFile/attrs=10/entrace-2  	 1000	  500 ns/op	 406.0 B/record	 208 B/op	 1 allocs/op
BenchmarkSlogFile/attrs=10/entrace-2  	 1000	  900 ns/op	 406.0 B/record	 208 B/op	 1 allocs/op
BenchmarkSlogFile/attrs=10/phuslu     	 1000	 1000 ns/op	 453.0 B/record
BenchmarkSlogFile/attrs=10/phuslu     	 1000	 3000 ns/op	 453.0 B/record
BenchmarkSlogHandler/attrs=2/nothing-8	 1000	  200 ns/op
BenchmarkSlogHandler/attrs=2/entrace-8	 1000	  275 ns/op
BenchmarkSlogHandler/attrs=2/phuslu-8 	 1000	  500 ns/op
BenchmarkOpen/entries=1000000.et-2    	  100	 9300000 ns/op	 24000000 B/op	 12 allocs/op
BenchmarkService/spans=4/records=6-2  	 1000	 1 ns/op	 150 entrace-cpu-ns/req	 300 json+otlp-cpu-ns/req	 100 nothing-cpu-ns/req
BenchmarkFlightRecorder/spans=10-2   	 4000	 1 ns/op	 101 flight-recorder-cpu-ns/req	 100 nothing-cpu-ns/req
BenchmarkFlightRecorder/spans=10-2   	 4000	 1 ns/op	 206 flight-recorder-cpu-ns/req	 200 nothing-cpu-ns/req
BenchmarkFlightRecorder/spans=10-2   	 4000	 1 ns/op	 420 flight-recorder-cpu-ns/req	 400 nothing-cpu-ns/req
BenchmarkBroken-2 --- FAIL
PASS
`

func TestTable(t *testing.T) {
	var out strings.Builder
	expect.Must(t, run(nil, strings.NewReader(printed), &out))
	for _, want := range []string{
		"| a slog call to a file, 10 attributes | phuslu/log, one write a record | ≤ 0.33 | 0.25 |",
		"| a slog call to a file, 2 attributes | phuslu/log, one write a record |  | – |",
		"| the handler's own share of it, 2 attributes | phuslu/log's own | ≤ 0.40 | 0.25 |",
		"| opening an ET of a million entries |  | ≤ 10 ms | 9.3 ms |",
		"| memory that takes, an entry |  | ≤ 24 B | 24 B |",
		"| a scan, an entry and core |  | ≤ 60 ns | – |",
		"| slog.JSONHandler to a file and OTLP over gRPC | ≤ 0.50 | 0.25 |",
		"| spans to a processor that does nothing | ≤ 1.03 | 1.03 |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table is\n%swant in it\n%s", out.String(), want)
		}
	}
}

func TestMedian(t *testing.T) {
	tests := []struct {
		values []float64
		want   float64
	}{
		{nil, math.NaN()},
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 4}, 4},
	}
	for _, test := range tests {
		r := results{{"X", perOp}: test.values}
		if got := r.median("X", perOp); got != test.want && !(math.IsNaN(got) && math.IsNaN(test.want)) {
			t.Errorf("the median of %v is %v, want %v", test.values, got, test.want)
		}
	}
}
