package query_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// mixed returns log records with an attribute x of all kinds. In some blocks, x is of one kind
// only. It also returns the numbers among the values of x.
func mixed(r *rand.Rand, n int) (entries []*format.TraceEntry, numbers []*big.Rat) {
	entries = []*format.TraceEntry{format.Root()}
	mode := 0
	for i := range n {
		if i%1500 == 0 {
			mode = r.IntN(5)
		}
		var x format.Value
		switch mode {
		case 0:
			x = format.I64Value(r.Int64() - r.Int64())
		case 1:
			x = format.U64Value(1<<63 + r.Uint64N(1<<63))
		case 2:
			x = format.StringValue(fmt.Sprint("text ", i%7))
		case 3:
			x = format.FloatValue(math.NaN())
			if i%2 == 0 {
				x = format.FloatValue((r.Float64() - 0.5) * math.Pow(2, float64(r.IntN(1400)-700)))
			}
		case 4:
			x = format.BoolValue(i%2 == 0)
		}
		hi, lo := x.Words()
		if x.Kind() == format.KindI64 || x.Kind() == format.KindU64 {
			number := new(big.Int).Lsh(big.NewInt(int64(hi)), 64)
			numbers = append(numbers, new(big.Rat).SetInt(number.Add(number, new(big.Int).SetUint64(lo))))
		} else if x.Kind() == format.KindFloat && !math.IsNaN(x.Float()) {
			numbers = append(numbers, new(big.Rat).SetFloat64(x.Float()))
		}
		entries = append(entries, tracetest.Log("m", format.AttrTime, uint64(i), "x", x))
	}
	return entries, numbers
}

// tableText runs a query and returns its table as a text.
func tableText(t *testing.T, v *view.View, text string) string {
	t.Helper()
	q, err := query.Parse(text)
	expect.MustIs(t, err, nil, "%v", text)
	r, err := q.Run(t.Context(), v, nil)
	must(t, err)
	var lines []string
	for _, line := range r.Table.Lines {
		var cells []string
		for _, c := range line {
			cells = append(cells, fmt.Sprintf("%d:%s", query.Kind(c), c))
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	return strings.Join(lines, "; ")
}

// TestAggregatesAreOfTheFileAlone compares aggregates of values of all kinds with results computed
// by big.Rat. The results must be the same for every number of goroutines.
func TestAggregatesAreOfTheFileAlone(t *testing.T) {
	for seed := range 3 {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		entries, numbers := mixed(r, 13_000)
		want := make(map[string]string)
		for _, workers := range []int{1, 3, 2} {
			v := viewWith(t, entries, &view.Options{Workers: workers})
			for _, text := range []string{
				"| min(.x) | max(.x)", "| sum(.x) | avg(.x)", "| stddev(.x)", "| p50(.x) | p99(.x)", "| values(.x) | limit(50)",
				"| count() by(.x) | limit(50)", "| stddev(.x) by(.x) | limit(50)", "| min(.x) by(level)", "| histogram(.x)", "| stddev(start) | avg(start)",
			} {
				got := tableText(t, v, text)
				if want[text] == "" {
					want[text] = got
				}
				if got != want[text] {
					t.Fatalf("seed %d: %s of %d workers is %.300s, was %.300s", seed, text, workers, got, want[text])
				}
			}
		}
		if len(numbers) == 0 {
			continue
		}
		slices.SortFunc(numbers, func(a, b *big.Rat) int { return a.Cmp(b) })
		sum := new(big.Rat)
		for _, x := range numbers {
			sum.Add(sum, x)
		}
		f, _ := sum.Float64()
		avg, _ := new(big.Rat).Quo(sum, big.NewRat(int64(len(numbers)), 1)).Float64()
		if got := want["| sum(.x) | avg(.x)"]; !strings.HasSuffix(got, fmt.Sprint(avg)) || !strings.Contains(got, fmt.Sprint(f)) && !strings.Contains(got, sum.RatString()) {
			t.Errorf("seed %d: the sum and mean are %s, want %v and %v", seed, got, f, avg)
		}
		value := func(x *big.Rat) string {
			if x.IsInt() && (x.Num().IsInt64() || x.Num().IsUint64()) {
				return x.RatString()
			}
			f, _ := x.Float64()
			return fmt.Sprint(f)
		}
		low, high := value(numbers[0]), value(numbers[len(numbers)-1])
		if got := want["| min(.x) | max(.x)"]; !strings.Contains(got, ":"+low+" ") || !strings.HasSuffix(got, ":"+high) {
			t.Errorf("seed %d: the least and the largest are %s, want %s and %s", seed, got, low, high)
		}
	}
}

// records returns a log record for each value of an attribute x. Their times are 0, 300, 600 and so
// on after a recent date.
func records(values ...format.Value) []*format.TraceEntry {
	entries := []*format.TraceEntry{format.Root()}
	for i, x := range values {
		entries = append(entries, tracetest.Log("m", format.AttrTime, 1_790_000_000_000_000_001+300*uint64(i), "x", x))
	}
	return entries
}

// TestAggregatesOfOddNumbers uses numbers that floats and int64 cannot represent exactly.
func TestAggregatesOfOddNumbers(t *testing.T) {
	float, whole, text := format.FloatValue, format.I64Value, format.StringValue
	nan, inf := float(math.NaN()), float(math.Inf(1))
	hashes := []format.Value{format.U64Value(1<<63 + 5), format.U64Value(1<<63 + 6), format.U64Value(1<<63 + 1024), format.U64Value(1<<64 - 1)}
	for _, c := range []struct {
		values     []format.Value
		text, want string
	}{
		{[]format.Value{nan, float(1), float(2), float(3)}, "| min(.x) | max(.x)", "4:1 4:3"},
		{[]format.Value{float(1), nan, float(2), float(3)}, "| avg(.x) | sum(.x) | p50(.x)", "4:2 4:6 4:2"},
		{[]format.Value{nan}, "| min(.x) | sum(.x)", "0:nil 0:nil"},
		{[]format.Value{text("b"), whole(2), text("a"), whole(1)}, "| min(.x) | max(.x)", "2:1 2:2"},
		{[]format.Value{text("b"), format.BoolValue(true), text("a")}, "| min(.x) | max(.x)", "7:a 7:b"},
		{[]format.Value{whole(1), whole(1)}, "| stddev(start)", "5:150ns"},
		{[]format.Value{float(1e308), float(1e308), float(-1e308)}, "| sum(.x)", "4:1e+308"},
		{[]format.Value{float(1e100), float(1), float(-1e100)}, "| sum(.x)", "4:1"},
		{[]format.Value{inf, float(1)}, "| sum(.x) | stddev(.x)", "4:+Inf 0:nil"},
		{[]format.Value{inf, float(math.Inf(-1)), whole(1)}, "| sum(.x) | avg(.x)", "0:nil 0:nil"},
		{[]format.Value{whole(math.MinInt64), whole(math.MaxInt64), whole(-3), whole(7)}, "| stddev(.x)", "4:6.521908912666392e+18"},
		{hashes, "| count() by(.x)", "3:9223372036854775813 2:1; 3:9223372036854775814 2:1; 3:9223372036854776832 2:1; 3:18446744073709551615 2:1"},
		{hashes, "| min(.x) | max(.x) | p50(.x)", "3:9223372036854775813 3:18446744073709551615 3:9223372036854775814"},
		{hashes, "| stddev(.x)", "4:3.9938372462356285e+18"},
		{hashes, "| values(.x) | limit(1)", "3:9223372036854775813 2:1"},
		{[]format.Value{format.U64Value(1 << 63), whole(-1 << 62), whole(-1 << 62), whole(12)}, "| sum(.x)", "2:12"},
		{[]format.Value{whole(1), float(1), text("1")}, "| count() by(.x)", "2:1 2:2; 7:1 2:1"},
		{[]format.Value{whole(1), float(1), text("1")}, "| values(.x)", "2:1 2:2; 7:1 2:1"},
	} {
		expect.Equal(t, tableText(t, viewOf(t, records(c.values...)), c.text), c.want, "%s of %v", c.text, c.values)
	}
	v := viewOf(t, records(hashes...))
	for text, want := range map[string]int{
		".x = 9223372036854775814": 1, ".x = 18446744073709551614": 0, ".x != 9223372036854775813": 3, ".x >= 9223372036854776832": 2,
		".x > 9.3e18": 1, ".x < 9223372036854775814": 1, ".x in (9223372036854775813, 18446744073709551615)": 2, ".x > 5": 4, ".x = .x": 4,
		".x - 9223372036854775808 < 1024": 3, "-9223372036854775808 < .x": 4, ".x + 9223372036854775807 > 2.5e19": 1, ".x > -9223372036854775807 - 9": 4,
	} {
		r := querytest.Result(t, v, text)
		expect.Equal(t, r.Rows.Len(), want, "rows that %s selects", text)
	}
}
