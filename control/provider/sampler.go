package provider

import (
	"fmt"
	"runtime/metrics"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
)

// Metrics that the code uses by name.
const (
	metricCycles     = "/gc/cycles/total:gc-cycles"
	metricLive       = "/gc/heap/live:bytes"
	metricLatency    = "/sched/latencies:seconds"
	metricMutex      = "/sync/mutex/wait/total:seconds"
	metricGoroutines = "/sched/goroutines" // prefix of the metrics that count goroutines
)

// defaultMetrics are the default metrics of the entry runtime.metrics. Metrics that this version of Go does
// not have are left out.
var defaultMetrics = []string{
	metricLive,
	"/gc/heap/goal:bytes",
	"/gc/heap/objects:objects",
	"/gc/heap/allocs:bytes",
	"/gc/heap/allocs:objects",
	"/gc/heap/frees:bytes",
	metricCycles,
	"/memory/classes/heap/objects:bytes",
	"/memory/classes/heap/stacks:bytes",
	"/memory/classes/heap/released:bytes",
	"/memory/classes/total:bytes",
	"/cpu/classes/gc/total:cpu-seconds",
	"/cpu/classes/user:cpu-seconds",
	"/cpu/classes/total:cpu-seconds",
	"/sched/goroutines:goroutines",
	"/sched/threads/total:threads",
	"/sched/gomaxprocs:threads",
	metricLatency,
	"/sched/pauses/total/gc:seconds",
	metricMutex,
}

// A sampler reads metrics of the runtime, all at once, and converts them to attributes. After the second
// read, it allocates no memory.
type sampler struct {
	samples []metrics.Sample
	metrics []metric // metrics[i] belongs to samples[i]
}

// A metric is the state of a metric of package runtime/metrics: its attributes and its last value.
type metric struct {
	in         control.Set // providers whose entries have the metric
	cumulative bool
	names      [4]string // names of the attributes
	attrs      []format.Attribute

	seen      uint64
	seenFloat float64
	histogram histogram
}

// newSampler returns a sampler for the entries of the providers in on. The parameter list has the names
// of the metrics for the entry runtime.metrics, separated by commas. If it is empty, defaultMetrics are
// used.
func newSampler(on control.Set, list string) (*sampler, error) {
	known := make(map[string]metrics.Description)
	all := metrics.All()
	for _, d := range all {
		known[d.Name] = d
	}
	s := &sampler{}
	if on&control.RuntimeMetrics != 0 {
		names := defaultMetrics
		if list != "" {
			names = strings.Split(list, ",")
		}
		for _, name := range names {
			name = strings.TrimSpace(name)
			d, ok := known[name]
			if ok {
				s.add(d, control.RuntimeMetrics)
			} else if list != "" {
				return nil, fmt.Errorf("runtime.metrics.samples: unknown metric %q", name)
			}
		}
	}
	if on&control.Sched != 0 {
		for _, d := range all {
			if strings.HasPrefix(d.Name, metricGoroutines) || d.Name == metricLatency || d.Name == metricMutex {
				s.add(d, control.Sched)
			}
		}
	}
	if on&control.GC != 0 {
		s.add(known[metricCycles], 0)
		s.add(known[metricLive], 0)
	}
	return s, nil
}

// add adds the metric d to the sampler, for the entries of the providers in the set in. If this set is
// empty, no entry has the metric.
func (s *sampler) add(d metrics.Description, in control.Set) {
	if i := s.index(d.Name); i >= 0 {
		s.metrics[i].in |= in
		return
	}
	m := metric{in: in, cumulative: d.Cumulative}
	switch {
	case d.Kind == metrics.KindFloat64Histogram:
		m.names = [4]string{d.Name + " count delta", d.Name + " p50", d.Name + " p99", d.Name + " max"}
	case d.Cumulative:
		m.names[0] = d.Name + " delta"
	default:
		m.names[0] = d.Name
	}
	m.attrs = make([]format.Attribute, 0, len(m.names))
	s.samples = append(s.samples, metrics.Sample{Name: d.Name})
	s.metrics = append(s.metrics, m)
}

func (s *sampler) index(name string) int {
	return slices.IndexFunc(s.samples, func(m metrics.Sample) bool { return m.Name == name })
}

// read reads all metrics. Deltas are then relative to the previous read.
func (s *sampler) read() {
	if len(s.samples) == 0 {
		return
	}
	metrics.Read(s.samples)
	for i := range s.metrics {
		s.metrics[i].update(s.samples[i].Value)
	}
}

// append appends to a the attributes of the metrics for the entry of the provider in.
func (s *sampler) append(a []format.Attribute, in control.Set) []format.Attribute {
	for i := range s.metrics {
		if m := &s.metrics[i]; m.in&in != 0 {
			a = append(a, m.attrs...)
		}
	}
	return a
}

// count returns the value of a uint64 metric, or 0 if it is not available.
func (s *sampler) count(name string) uint64 {
	if i := s.index(name); i >= 0 && s.samples[i].Value.Kind() == metrics.KindUint64 {
		return s.samples[i].Value.Uint64()
	}
	return 0
}

func (m *metric) update(v metrics.Value) {
	m.attrs = m.attrs[:0]
	switch v.Kind() {
	case metrics.KindUint64:
		n := v.Uint64()
		d := n
		if m.cumulative {
			// The runtime adds several counters, which it reads one after the other. So the sum may
			// decrease.
			d -= min(n, m.seen)
		}
		m.seen = n
		m.attrs = append(m.attrs, u64(m.names[0], d))
	case metrics.KindFloat64:
		f := v.Float64()
		d := f
		if m.cumulative {
			d = max(f-m.seenFloat, 0)
		}
		m.seenFloat = f
		m.attrs = append(m.attrs, float(m.names[0], d))
	case metrics.KindFloat64Histogram:
		h := &m.histogram
		h.update(v.Float64Histogram())
		m.attrs = append(m.attrs, u64(m.names[0], h.count))
		if h.count > 0 {
			m.attrs = append(m.attrs, float(m.names[1], h.p50), float(m.names[2], h.p99), float(m.names[3], h.max))
		}
	}
}
