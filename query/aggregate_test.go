package query_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
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

// TestAggregatesOfOddNumbers uses numbers that floats and int64 cannot represent exactly. They are in testdata/numbers.txt.
func TestAggregatesOfOddNumbers(t *testing.T) {
	tracetest.Golden(t, "testdata/numbers.txt", *update, func(line string) string {
		words, text, _ := strings.Cut(line, " | ")
		var values []format.Value
		for word := range strings.FieldsSeq(words) {
			value := format.StringValue(strings.Trim(word, `"`))
			if n, err := strconv.ParseInt(word, 10, 64); err == nil {
				value = format.I64Value(n)
			} else if n, err := strconv.ParseUint(word, 10, 64); err == nil {
				value = format.U64Value(n)
			} else if f, err := strconv.ParseFloat(word, 64); err == nil {
				value = format.FloatValue(f)
			} else if word == "true" {
				value = format.BoolValue(true)
			}
			values = append(values, value)
		}
		v := viewOf(t, records(values...))
		if strings.HasPrefix(text, "{") {
			return strconv.Itoa(querytest.Result(t, v, text).Rows.Len())
		}
		return tableText(t, v, "| "+text)
	})
}
