// Package metrictest reads the metrics of this module in tests.
package metrictest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/entrace-go/entrace/internal/text/notice"
)

// A Reader reads metrics from the global MeterProvider.
type Reader struct {
	*sdkmetric.ManualReader

	first map[string]int // by type of component: the smallest number of a component
}

// Measured turns the metrics on, and returns a reader of them.
func Measured(t testing.TB) *Reader {
	t.Helper()
	r := sdkmetric.NewManualReader()
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r))
	Provide(t, mp)
	t.Cleanup(func() { _ = mp.Shutdown(context.Background()) })
	return &Reader{r, make(map[string]int)}
}

// Provide turns the metrics on, and makes mp the global MeterProvider.
func Provide(t testing.TB, mp metric.MeterProvider) {
	t.Helper()
	t.Setenv("OTEL_GO_X_OBSERVABILITY", "true")
	otel.SetMeterProvider(mp)
	t.Cleanup(func() { otel.SetMeterProvider(noop.NewMeterProvider()) })
}

// A number is one value of a metric, with its attributes.
type number struct {
	name  string
	attrs attribute.Set
	n     any
}

// component returns the type and the number of the component to which n belongs.
func (n *number) component(t testing.TB) (of string, i int) {
	t.Helper()
	typ, _ := n.attrs.Value("otel.component.type")
	name, _ := n.attrs.Value("otel.component.name")
	of, rest, _ := strings.Cut(name.AsString(), "/")
	i, err := strconv.Atoi(rest)
	if err != nil || of != typ.AsString() {
		t.Errorf("otel.component.name is %s, but otel.component.type is %s", name.AsString(), typ.AsString())
	}
	return of, i
}

// Collect returns the values of this module's metrics, one per line. For a metric of durations, the value is the
// number of durations. The first component of each type that r has seen gets the number 0.
func (r *Reader) Collect(t testing.TB) string {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := r.ManualReader.Collect(context.Background(), &rm); err != nil {
		t.Error(err)
	}
	var numbers []number
	for _, s := range rm.ScopeMetrics {
		if s.Scope.Name != "github.com/entrace-go/entrace/exporter" {
			continue // a metric of the SDK
		}
		for _, m := range s.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					numbers = append(numbers, number{m.Name, p.Attributes, p.Value})
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					numbers = append(numbers, number{m.Name, p.Attributes, p.Count})
				}
			default:
				t.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	slices.SortFunc(numbers, func(a, b number) int {
		_, i := a.component(t)
		_, j := b.component(t)
		return cmp.Compare(i, j)
	})
	lines := make([]string, len(numbers))
	for i := range numbers {
		lines[i] = r.line(t, &numbers[i])
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (r *Reader) line(t testing.TB, n *number) string {
	t.Helper()
	typ, i := n.component(t)
	if _, ok := r.first[typ]; !ok {
		r.first[typ] = i
	}
	var of []string
	for _, kv := range n.attrs.ToSlice() {
		switch kv.Key {
		case "otel.component.type":
		case "otel.component.name":
			of = append(of, fmt.Sprintf("%s/%d", typ, i-r.first[typ]))
		default:
			of = append(of, fmt.Sprintf("%s=%s", kv.Key, kv.Value.AsString()))
		}
	}
	short := strings.NewReplacer("otel.sdk.exporter.", "", "entrace.recorder.", "")
	return short.Replace(fmt.Sprintf("%s{%s} %v", n.name, strings.Join(of, ","), n.n))
}

// Want fails the test unless Collect returns the lines of want. Their order does not matter.
func (r *Reader) Want(t testing.TB, want string) {
	t.Helper()
	lines := strings.Split(strings.ReplaceAll(strings.TrimSpace(want), "\t", ""), "\n")
	slices.Sort(lines)
	want = strings.Join(lines, "\n")
	if got := r.Collect(t); got != want {
		t.Errorf("the numbers are\n%s\nwant\n%s", got, want)
	}
}

// Handled collects the errors that package notice reports from now on, and calls onError for each of them. The
// returned function returns the texts of these errors.
func Handled(t testing.TB, onError func()) func() []string {
	t.Helper()
	var mu sync.Mutex
	var all []string
	notice.SetErrorHandler(func(err error) {
		onError()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, err.Error())
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}
