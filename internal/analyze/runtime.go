package analyze

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/callstack"
	texts "github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A Runtime holds the samples that a flight recorder took of its program's Go runtime.
type Runtime struct {
	Heap        []Sample `json:"heap"` // bytes
	Goroutines  []Sample `json:"goroutines"`
	Collections []Sample `json:"collections"` // nanoseconds of the pause
}

// A Sample is a value at a time, in nanoseconds since 1970.
type Sample struct {
	Time  int64   `json:"time_unix_nano"`
	Value float64 `json:"value"`
	Count int     `json:"count"` // the number of consecutive samples, of which Value is the largest
}

// A Growth reports that a value of the runtime grows steadily.
type Growth struct {
	Of    string  `json:"of"` // "goroutines" or "MiB of the heap"
	First float64 `json:"first"`
	Last  float64 `json:"last"`
	Time  int64   `json:"time_nano"` // the time between First and Last

	older bool // the value grows from the first sample on, so it may have grown before
}

// Goroutines describes goroutines of a dump with the same stack.
type Goroutines struct {
	Row   view.Row  `json:"row"`
	In    string    `json:"in"`
	Stack WholeText `json:"stack"`
	Count int64     `json:"count"`
	Spans int       `json:"spans"` // the number of spans for which the goroutines worked
	Ended int       `json:"ended"` // the number of these spans that have ended

	of   map[view.Row]bool
	open bool // one of the spans has not ended
}

// waitsForLock reports whether the goroutines wait for a lock.
func (g *Goroutines) waitsForLock() bool {
	for _, f := range callstack.Parse(string(g.Stack)) {
		if strings.HasPrefix(f.Function, "sync.(*Mutex)") || strings.HasPrefix(f.Function, "sync.(*RWMutex)") {
			return true
		}
		if callstack.OfProgram(f.Function) {
			break
		}
	}
	return false
}

// locks returns a text that says where goroutines wait for a lock, and where the other goroutines of open spans are.
// One of these others may hold the lock; a dump does not say which. It leaves out other goroutines that have no
// stack, or whose span began after the first span of a waiting goroutine.
func locks(v *view.View, list []*Goroutines) string {
	var waits, others []string
	waiting, since := int64(0), NoTime
	for _, g := range list {
		if g.waitsForLock() {
			if began := g.began(v); began != NoTime && (since == NoTime || began < since) {
				since = began
			}
		}
	}
	for _, g := range list {
		place := callstack.Place(string(g.Stack), "")
		where := fmt.Sprintf("%d in %s", g.Count, cmp.Or(place, g.In))
		began := g.began(v)
		switch {
		case g.waitsForLock():
			waits = append(waits, where)
			waiting += g.Count
		case place == "" || !g.open && g.of != nil:
		case since != NoTime && began != NoTime && began > since:
		default:
			others = append(others, where)
		}
	}
	if len(waits) == 0 {
		return ""
	}
	few := func(list []string) string {
		if n := len(list); n > mostPlaces {
			list = append(list[:mostPlaces:mostPlaces], fmt.Sprintf("and in %d other places", n-mostPlaces))
		}
		return strings.Join(list, ", ")
	}
	if len(others) == 0 && len(waits) > 1 && len(waits) <= mostOfDeadlock {
		return fmt.Sprintf("all %d goroutines of open spans wait for a lock: %s; no goroutine that could hold it is running, so this is perhaps a deadlock", waiting, few(waits))
	}
	text := "waiting for a lock: " + few(waits)
	if len(others) == 0 {
		return text + "; no other goroutine of a span that is as old does anything else"
	}
	return text + "; the trace does not record which goroutine holds it; these do not wait: " + few(others)
}

// mostOfDeadlock is the largest number of places in which waiting goroutines are reported as a possible deadlock.
const mostOfDeadlock = 3

// began returns when the first span of the goroutines began, or NoTime.
func (g *Goroutines) began(v *view.View) Time {
	first := NoTime
	for span := range g.of {
		if start, timed := v.Start(span); timed && (first == NoTime || Time(start) < first) {
			first = Time(start)
		}
	}
	return first
}

// A WholeText is a text that a [Form] does not shorten.
type WholeText string

const (
	maxSamples = 4000     // the maximum number of samples of each kind
	maxGroups  = 20       // the maximum number of groups of goroutines
	maxDumped  = 2000     // the maximum number of entries of a dump that are read; package control/provider writes no more
	maxStack   = 16 << 10 // bytes
	mostPlaces = 4        // the maximum number of places in a sentence

	metricHeap       = "/memory/classes/heap/objects:bytes"
	metricGoroutines = "/sched/goroutines:goroutines"
)

// find runs a query.
func find(ctx context.Context, v *view.View, text string) (*query.Result, error) {
	q, err := query.Parse(text)
	if err != nil {
		return nil, err
	}
	return q.Run(ctx, v, nil)
}

// RuntimeOf returns the samples of the Go runtime that package control/provider recorded.
func RuntimeOf(ctx context.Context, v *view.View) (*Runtime, error) {
	found, err := find(ctx, v, `{ (name = "runtime.metrics" && target = "runtime/metrics") || (name = "gc" && target = "runtime/debug") }`)
	if err != nil {
		return nil, err
	}
	x, read := new(Runtime), v.NewReader()
	for r := range found.Rows.All() {
		at, timed := v.Start(r)
		e, err := read.Entry(r)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		add := func(list *[]Sample, name string) {
			value, _ := e.Attribute(name)
			f, err := strconv.ParseFloat(value.String(), 64)
			if err == nil && timed && !math.IsNaN(f) && !math.IsInf(f, 0) { // JSON cannot represent NaN and infinity
				*list = append(*list, Sample{at, f, 1})
			}
		}
		add(&x.Heap, metricHeap)
		add(&x.Goroutines, metricGoroutines)
		if e.Metadata.Name == "gc" {
			add(&x.Collections, format.AttrDuration)
		}
	}
	for _, list := range []*[]Sample{&x.Heap, &x.Goroutines, &x.Collections} {
		*list = some(*list)
	}
	return x, nil
}

// some returns at most maxSamples samples in chronological order. Each is the largest of several
// consecutive samples.
func some(list []Sample) []Sample {
	slices.SortStableFunc(list, func(a, b Sample) int { return cmp.Compare(a.Time, b.Time) })
	step := max(1, (len(list)+maxSamples-1)/maxSamples)
	out := []Sample{}
	for part := range slices.Chunk(list, step) {
		most := slices.MaxFunc(part, byValue)
		most.Count = len(part)
		out = append(out, most)
	}
	return out
}

func byValue(a, b Sample) int { return cmp.Compare(a.Value, b.Value) }

// grows returns the values that grow. A value grows if, in its last third, it is never below one and a half times its
// maximum in the first third. So a heap that grows until the next collection, or a pool that fills at the start, does
// not count.
func (x *Runtime) grows() (list []Growth) {
	add := func(of string, all []Sample, unit, least float64) {
		n := len(all)
		if n < 6 {
			return
		}
		first, last, early := all[0], all[n-1], slices.MaxFunc(all[:n/3], byValue).Value
		if rise := last.Value - first.Value; slices.MinFunc(all[n-n/3:], byValue).Value >= 1.5*early && rise >= least*unit {
			older := early-first.Value >= rise/earlyPart
			list = append(list, Growth{of, math.Round(10*first.Value/unit) / 10, math.Round(10*last.Value/unit) / 10, last.Time - first.Time, older})
		}
	}
	add("goroutines", x.Goroutines, 1, 10)
	add("MiB of the heap", x.Heap, 1<<20, 8)
	return list
}

// addRuntime adds the runtime values that grow, and the last goroutine dump of package control/provider, grouped by
// stack.
func (o *Overview) addRuntime(ctx context.Context, v *view.View) error {
	x, err := RuntimeOf(ctx, v)
	if err != nil {
		return err
	}
	o.Growth = x.grows()
	dumped, err := find(ctx, v, `{ name = "goroutines" && target = "runtime/pprof" }`)
	if err != nil {
		return err
	}
	var rows []view.Row
	for r := range dumped.Rows.All() {
		start, timed := v.Start(r)
		if !timed || Time(start) < o.GoroutinesAt {
			continue
		}
		if Time(start) > o.GoroutinesAt {
			o.GoroutinesAt, rows = Time(start), rows[:0]
		}
		if len(rows) < maxDumped {
			rows = append(rows, r)
		}
	}
	groups := make(map[string]*Goroutines)
	for _, r := range rows {
		e, err := v.Entry(r)
		if err != nil {
			return err
		}
		text, _ := e.Attribute("stack")
		count, _ := e.Attribute("count")
		n, _ := strconv.ParseInt(count.String(), 10, 64)
		stack := text.Text()
		g := groups[stack]
		if g == nil {
			g = &Goroutines{Row: r, In: e.Message.Value, Stack: WholeText(strings.ToValidUTF8(stack[:min(len(stack), maxStack)], "")), of: make(map[view.Row]bool)}
			groups[stack], o.Goroutines = g, append(o.Goroutines, g)
		}
		g.Count += min(max(n, 0), math.MaxInt64/maxDumped)
		if up := v.Parent(r); v.Role(up) == view.RoleSpan && !g.of[up] {
			g.of[up] = true
			g.Spans++
			if !v.Flags(up).Open() {
				g.Ended++
			} else {
				g.open = true
			}
		}
	}
	if len(rows) == 0 {
		if err := o.addCrash(ctx, v); err != nil {
			return err
		}
	}
	slices.SortStableFunc(o.Goroutines, func(a, b *Goroutines) int { return cmp.Compare(b.Count, a.Count) })
	if o.Open > 0 {
		o.Locks = locks(v, o.Goroutines)
	}
	for _, g := range o.Goroutines[min(len(o.Goroutines), maxGroups):] {
		o.MoreGoroutines += g.Count
	}
	o.Goroutines = o.Goroutines[:min(len(o.Goroutines), maxGroups)]
	return nil
}

// addCrash adds the goroutines in the text of the last crash. The text does not say for which spans they work.
func (o *Overview) addCrash(ctx context.Context, v *view.View) error {
	crashes, err := find(ctx, v, "{ name = "+strconv.Quote(mapping.NameCrash)+" }")
	if err != nil {
		return err
	}
	for r := range crashes.Rows.All() {
		e, err := v.Entry(r)
		if err != nil {
			return err
		}
		if start, timed := v.Start(r); timed {
			o.GoroutinesAt = Time(start)
		}
		o.Goroutines = nil
		groups := make(map[string]*Goroutines)
		for block := range strings.SplitSeq(e.Message.Value, "\n\n") {
			head, rest, _ := strings.Cut(block, "\n")
			if !strings.HasPrefix(head, "goroutine ") || len(groups) >= maxDumped {
				continue
			}
			var stack strings.Builder
			outermost := ""
			for _, f := range callstack.Parse(rest) {
				if strings.HasPrefix(f.Function, "created by ") {
					break
				}
				fmt.Fprintf(&stack, "%s %s:%d\n", f.Function, f.File, f.Line)
				if pkg := texts.PackageOf(f.Function); pkg == "main" || strings.Contains(pkg, ".") {
					outermost = pkg
				}
			}
			if outermost == "" || strings.HasPrefix(outermost+"/", "github.com/entrace-go/entrace/") {
				continue // the stack has only functions of the standard library or of this module
			}
			g := groups[stack.String()]
			if g == nil {
				g = &Goroutines{Row: r, In: callstack.Place(stack.String(), ""), Stack: WholeText(stack.String())}
				groups[stack.String()], o.Goroutines = g, append(o.Goroutines, g)
			}
			g.Count++
		}
	}
	return nil
}
