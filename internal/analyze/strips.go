package analyze

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/view"
)

// Strips are the states of spans' goroutines over time.
type Strips struct {
	v       *view.View
	states  *spanstates.States
	windows [][]*gotrace.Window // for each execution trace, the parts that were read
}

// A StateTime is the time that goroutines spent in a state. State is the state's name in the query language.
type StateTime struct {
	State string `json:"state"`
	Time  int64  `json:"time_nano"`
}

// An extent is a period in which spans were open.
type extent struct{ from, to int64 }

// atOnce is the maximum gap between spans that are read together. It is about the length of a generation of an
// execution trace.
const atOnce = int64(time.Second)

// NewStrips reads the parts of execution traces in which the spans of the given rows were open. The parameter budget
// limits the total length of these parts; the shortest parts are read first. For spans in other parts, [Strips.Of]
// knows only sums. If the files contain no execution traces, the Strips are empty.
func NewStrips(ctx context.Context, v *view.View, rows iter.Seq[view.Row], budget time.Duration) (*Strips, error) {
	states, err := spanstates.Of(ctx, v)
	if err != nil {
		return nil, err
	}
	s := &Strips{v, states, make([][]*gotrace.Window, len(states.Traces()))}
	all := make([][]extent, len(states.Traces()))
	for r := range rows {
		if x, ok := states.Of(r); ok {
			legs := states.Traces()[x.Trace].Legs(x.Span)
			all[x.Trace] = append(all[x.Trace], extent{legs[0].From, legs[len(legs)-1].To})
		}
	}
	for n, list := range all {
		list = merged(list)
		slices.SortStableFunc(list, func(a, b extent) int { return cmp.Compare(a.to-a.from, b.to-b.from) })
		for _, e := range list {
			budget -= time.Duration(e.to - e.from)
			if budget < 0 {
				break
			}
			w, err := states.Traces()[n].Window(ctx, e.from, e.to)
			if err != nil {
				return nil, err
			}
			s.windows[n] = append(s.windows[n], w)
		}
	}
	return s, nil
}

// merged returns the extents in chronological order. It joins extents that are close together.
func merged(list []extent) (out []extent) {
	slices.SortFunc(list, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	for _, e := range list {
		if n := len(out); n > 0 && e.from <= out[n-1].to+atOnce {
			out[n-1].to = max(out[n-1].to, e.to)
		} else {
			out = append(out, e)
		}
	}
	return out
}

// Of divides the time of a span into n equal parts and returns for each part the state in which the goroutine of the
// span spent most of the part, or "" if no state is known. If the span's part of the trace was not read, only the
// sums are known: Of then returns each state as often as its share of the time requires, in a fixed order. It returns
// nil if no execution trace has the span.
func (s *Strips) Of(r view.Row, n int) []string {
	x, ok := s.states.Of(r)
	if !ok {
		return nil
	}
	legs := s.states.Traces()[x.Trace].Legs(x.Span)
	from, to := legs[0].From, legs[len(legs)-1].To
	out := make([]string, n)
	at := slices.IndexFunc(s.windows[x.Trace], func(w *gotrace.Window) bool { return w.From <= from && to <= w.To })
	if at < 0 {
		sum, state := int64(0), gotrace.State(0)
		whole := x.Times.Sum()
		for i := range out {
			for int(state)+1 < gotrace.NumStates && (sum+int64(x.Times[state]))*int64(n) <= whole*int64(i) {
				sum += int64(x.Times[state])
				state++
			}
			if whole > 0 {
				out[i] = state.String()
			}
		}
		return out
	}
	w := s.windows[x.Trace][at]
	took, _ := s.v.Lasted(r)
	if unknown := int64(took) - (to - from); unknown > 0 { // the execution trace does not cover the rest of the span
		if x.End != 0 {
			from -= unknown
		} else {
			to += unknown
		}
	}
	for i := range out {
		a, z := from+(to-from)*int64(i)/int64(n), from+(to-from)*int64(i+1)/int64(n)
		most := int64(0)
		for state, d := range w.Sums(w.Pieces(legs, a, z)) {
			if d > most {
				out[i], most = gotrace.State(state).String(), d
			}
		}
	}
	return out
}

// Longest returns at most n states of a span's goroutine, the longest first. It omits states with less than a
// hundredth of the total. It returns nil if no execution trace has the span.
func (s *Strips) Longest(r view.Row, n int) []StateTime {
	x, ok := s.states.Of(r)
	if !ok {
		return nil
	}
	list := longestOf(x.Times)
	return list[:min(len(list), n)]
}

// longestOf returns the states with at least a hundredth of a span's time.
func longestOf(times gotrace.Times) []StateTime {
	var sums [gotrace.NumStates]int64
	for state, d := range times {
		if int64(d)*100 >= times.Sum() {
			sums[state] = int64(d) * 1000
		}
	}
	return byTime(sums)
}

// byTime returns the states that have a time above 0, the longest first.
func byTime(sums [gotrace.NumStates]int64) []StateTime {
	var list []StateTime
	for state, d := range sums {
		if d > 0 {
			list = append(list, StateTime{gotrace.State(state).String(), d})
		}
	}
	slices.SortStableFunc(list, func(a, b StateTime) int { return cmp.Compare(b.Time, a.Time) })
	return list
}
