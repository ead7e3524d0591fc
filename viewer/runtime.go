package viewer

import (
	"cmp"
	"context"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

// A sample is a value at a time, in nanoseconds since 1970.
type sample struct {
	Time  int64   `json:"time_unix_nano"`
	Value float64 `json:"value"`
	Count int     `json:"count"` // of the samples that it stands for; it is the largest of them
}

// The attributes of package control/provider that the page draws.
const (
	metricHeap       = "/memory/classes/heap/objects:bytes"
	metricGoroutines = "/sched/goroutines:goroutines"
)

const maxSamples = 4000 // of each kind in an answer: each is the largest of as many

// sampleMetas returns which metadata are those of samples that package control/provider takes, which
// no program has recorded.
func (s *state) sampleMetas() map[uint16]bool {
	out := make(map[uint16]bool)
	for i, m := range s.v.Columns().Metas() {
		switch m.Target {
		case "runtime/metrics", "runtime/debug", "runtime/pprof", "runtime/trace", "github.com/entrace-go/entrace/control/provider":
			out[uint16(i)] = true
		}
	}
	return out
}

// withoutSamples returns the rows of a set that are no such samples.
func (s *state) withoutSamples(rows view.Set[view.Row]) view.Set[view.Row] {
	metas := s.sampleMetas()
	if len(metas) == 0 {
		return rows
	}
	c := s.v.Columns()
	out := s.v.NewSet()
	for r := range rows.All() {
		if !metas[c.Block(int(r) / columns.BlockRows).Meta[r%columns.BlockRows]] {
			out.Add(r)
		}
	}
	return out
}

// A group of goroutines has the same stack.
type goroutines struct {
	Row   view.Row  `json:"row"`
	In    string    `json:"in"`
	Stack wholeText `json:"stack"`
	Count int64     `json:"count"`
	Spans int       `json:"spans"` // for how many of the spans they worked

	of map[view.Row]bool
}

const (
	maxGroups = 20
	maxDumped = 2000 // entries of a dump: control/provider writes no more
)

// goroutines returns the goroutines of the last dump that package control/provider wrote, the most first, by
// their stacks. It returns when that was, and how many of them are left out.
func (s *state) goroutines(ctx context.Context) (list []*goroutines, at analyze.Time, more int64, err error) {
	if !slices.ContainsFunc(s.v.Columns().Metas(), isDump) {
		return nil, analyze.NoTime, 0, nil
	}
	f, err := s.found(ctx, `{ name = "goroutines" && target = "runtime/pprof" }`)
	if err != nil {
		return nil, analyze.NoTime, 0, err
	}
	last := int64(math.MinInt64)
	var rows []view.Row
	for r := range f.rows.All() {
		start, timed := s.v.Start(r)
		if !timed || start < last {
			continue
		}
		if start > last {
			last, rows = start, rows[:0]
		}
		if len(rows) < maxDumped {
			rows = append(rows, r)
		}
	}
	byStack := make(map[string]*goroutines)
	for _, r := range rows {
		e, err := s.v.Entry(r)
		if err != nil {
			return nil, analyze.NoTime, 0, err
		}
		text, _ := e.Attribute("stack")
		count, _ := e.Attribute("count")
		n, _ := strconv.ParseInt(count.String(), 10, 64)
		stack := text.Text()
		g := byStack[stack]
		if g == nil {
			g = &goroutines{Row: r, In: preview(e.Message.Value), Stack: wholeText(strings.ToValidUTF8(stack[:min(len(stack), cutSize)], "")), of: make(map[view.Row]bool)}
			byStack[stack] = g
			list = append(list, g)
		}
		g.Count = sum(g.Count, n)
		if up := s.v.Parent(r); s.v.Role(up) == view.RoleSpan && !g.of[up] {
			g.of[up] = true
			g.Spans++
		}
	}
	slices.SortStableFunc(list, func(a, b *goroutines) int { return cmp.Compare(b.Count, a.Count) })
	for _, g := range list[min(len(list), maxGroups):] {
		more = sum(more, g.Count)
	}
	return list[:min(len(list), maxGroups)], analyze.Time(last), more, nil
}

// isDump reports whether entries with this metadata are goroutines that package control/provider found.
func isDump(m format.Metadata) bool { return m.Name == "goroutines" && m.Target == "runtime/pprof" }

// runtimeRows returns the rows with samples of the runtime, and those with its collections.
func (s *state) runtimeRows(ctx context.Context) (metrics, collections []view.Row, err error) {
	c := s.v.Columns()
	kind := make(map[uint16]int)
	for i, m := range c.Metas() {
		switch {
		case m.Name == "runtime.metrics" && m.Target == "runtime/metrics":
			kind[uint16(i)] = 1
		case m.Name == "gc" && m.Target == "runtime/debug":
			kind[uint16(i)] = 2
		}
	}
	if len(kind) == 0 {
		return nil, nil, nil
	}
	blocks := make([][2][]view.Row, c.Blocks())
	err = c.Each(ctx, func() func(k int) {
		return func(k int) {
			b := c.Block(k)
			for i, m := range b.Meta {
				if n := kind[m]; n > 0 && b.Start[i] != columns.NoTime {
					blocks[k][n-1] = append(blocks[k][n-1], view.Row(b.First)+view.Row(i))
				}
			}
		}
	})
	for _, b := range blocks {
		metrics, collections = append(metrics, b[0]...), append(collections, b[1]...)
	}
	return metrics, collections, err
}

// some returns at most maxSamples of samples in order of time, each for some that follow each other.
func some(list []sample) []sample {
	slices.SortStableFunc(list, func(a, b sample) int { return cmp.Compare(a.Time, b.Time) })
	step := max(1, (len(list)+maxSamples-1)/maxSamples)
	out := []sample{}
	for part := range slices.Chunk(list, step) {
		most := slices.MaxFunc(part, func(a, b sample) int { return cmp.Compare(a.Value, b.Value) })
		most.Count = len(part)
		out = append(out, most)
	}
	return out
}

// runtime answers with what a flight recorder knows of the Go runtime: the size of the heap, the number
// of goroutines, and the collections with the length of their pauses.
func (h *Handler) runtime(ctx context.Context, s *state, _ url.Values) (answer, error) {
	metrics, collections, err := s.runtimeRows(ctx)
	if err != nil {
		return answer{}, err
	}
	out := struct {
		Heap        []sample `json:"heap"` // bytes
		Goroutines  []sample `json:"goroutines"`
		Collections []sample `json:"collections"` // nanoseconds of the pause
	}{[]sample{}, []sample{}, []sample{}}
	read := s.v.NewReader()
	add := func(list *[]sample, at int64, e *format.TraceEntry, name string) {
		if v, ok := e.Attribute(name); ok {
			f, err := strconv.ParseFloat(v.String(), 64)
			if err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) { // which JSON cannot have
				*list = append(*list, sample{at, f, 1})
			}
		}
	}
	for _, r := range append(metrics, collections...) {
		if ctx.Err() != nil {
			return answer{}, ctx.Err()
		}
		e, err := read.Entry(r)
		if err != nil {
			return answer{}, err
		}
		at, _ := s.v.Start(r)
		add(&out.Heap, at, e, metricHeap)
		add(&out.Goroutines, at, e, metricGoroutines)
		if e.Metadata.Name == "gc" {
			add(&out.Collections, at, e, format.AttrDuration)
		}
	}
	for _, list := range []*[]sample{&out.Heap, &out.Goroutines, &out.Collections} {
		*list = some(*list)
	}
	return answer{json: out}, nil
}
