package gotrace

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"sort"

	"github.com/entrace-go/entrace/internal/core/execbatch"
)

// A Window has the activities of all goroutines in a part of a trace.
type Window struct {
	From, To int64
	// Damage is the reason why a part of the window is missing.
	Damage  error
	Classes []Class

	tracks map[int64]*track
	mixed  []Times // in nanoseconds
	pieces int
}

// A Piece is a period in which a goroutine was in one state, or in several states for short times.
type Piece struct {
	From, To int64
	State    State // the state that took most of it
	Class    int32 // of a wait, -1 otherwise
	By       int64 // the goroutine that ended the wait, -1 if none
	ByClass  int32 // the position of that goroutine, -1 if unknown
	mixed    int32 // an index of Window.mixed, -1 for a single state
}

// A track has the pieces of a goroutine.
type track struct {
	By      int64 // the goroutine that created it
	Created int64 // when it was created; 0 if before the window
	pieces  []Piece
	wake    wake
}

// A wake is the end of a wait.
type wake struct {
	by    int64
	class int32
}

const (
	shortest = 10_000    // shorter pieces are merged
	maxMixed = 1_000_000 // maximum length of a merged piece
)

// section returns a reader of a trace that begins with the given generation.
func (t *Trace) section(ctx context.Context, generation int) (io.Reader, error) {
	head := make([]byte, execbatch.HeaderSize)
	if _, err := t.source.ReadAt(head, 0); err != nil {
		return nil, err
	}
	at := t.begins[generation].offset
	return io.MultiReader(bytes.NewReader(head), io.NewSectionReader(t.source, at, t.size-at)), ctx.Err()
}

// Window reads the generations that overlap a period. It is safe for concurrent use.
func (t *Trace) Window(ctx context.Context, from, to int64) (*Window, error) {
	w := &Window{From: from, To: to, tracks: make(map[int64]*track)}
	if len(t.begins) == 0 {
		w.Damage = t.Damage
		return w, nil
	}
	n := sort.Search(len(t.begins), func(i int) bool { return t.begins[i].time == 0 || t.begins[i].time > from })
	n = max(n-1, 0)
	r, err := t.section(ctx, n)
	if err != nil {
		return nil, err
	}
	p := newPass(&Trace{begins: slices.Clone(t.begins), coroutines: t.coroutines})
	p.window, p.quiet = w, true
	w.Damage = p.run(ctx, r, n)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.last = min(p.last, to)
	p.finish()
	w.Classes = p.classes.list
	return w, nil
}

func (w *Window) track(id int64) *track {
	k := w.tracks[id]
	if k == nil {
		k = &track{By: -1, wake: wake{-1, -1}}
		w.tracks[id] = k
	}
	return k
}

// add adds a piece for the time of a goroutine since its last change.
func (w *Window) add(g *goroutine, at int64) {
	k, from, state := g.track, g.since, g.state
	d := at - from
	if w.pieces >= maxPieces {
		return
	}
	x := Piece{From: from, To: at, State: state, Class: -1, By: -1, ByClass: -1, mixed: -1}
	if d < shortest {
		if n := len(k.pieces); n > 0 {
			if l := &k.pieces[n-1]; l.mixed >= 0 && l.To == from && from-l.From < maxMixed {
				m := &w.mixed[l.mixed]
				if m[state] += uint32(d); m[state] > m[l.State] {
					l.State = state
				}
				l.To = at
				return
			}
		}
		var m Times
		m[state] = uint32(d)
		x.mixed = int32(len(w.mixed))
		w.mixed = append(w.mixed, m)
	} else if in := g.innermost(); state >= GCWait {
		x.Class = in.class
		if in.raw == Runnable || in.raw == Running { // another goroutine has ended the wait
			x.By, x.ByClass = in.track.wake.by, in.track.wake.class
		}
	}
	k.pieces = append(k.pieces, x)
	w.pieces++
}

// between returns the pieces of a goroutine that overlap a period. The first may begin before the period, and
// the last may end after it.
func (k *track) between(from, to int64) []Piece {
	a := sort.Search(len(k.pieces), func(i int) bool { return k.pieces[i].To > from })
	z := a + sort.Search(len(k.pieces)-a, func(i int) bool { return k.pieces[a+i].From >= to })
	return k.pieces[a:z]
}

// Pieces returns the pieces of goroutines during the legs, cut to the period between two times.
func (w *Window) Pieces(legs []Leg, from, to int64) (list []Piece) {
	for _, l := range legs {
		k, from, to := w.tracks[l.Goroutine], max(from, l.From), min(to, l.To)
		if k == nil || to <= from {
			continue
		}
		for _, x := range k.between(from, to) {
			x.From, x.To = max(x.From, from), min(x.To, to)
			list = append(list, x)
		}
	}
	return list
}

// Sums returns the total nanoseconds in each state of pieces that [Window.Pieces] or [Window.Path] returned.
func (w *Window) Sums(pieces []Piece) (sums [NumStates]int64) {
	for i := range pieces {
		x := &pieces[i]
		if x.mixed < 0 {
			sums[x.State] += x.To - x.From
			continue
		}
		m := &w.mixed[x.mixed]
		whole := m.Sum()
		for s, d := range m {
			sums[s] += int64(float64(d) * float64(x.To-x.From) / float64(max(1, whole)))
		}
	}
	return sums
}

// A Step is a part of the path of a span: an activity of its goroutine, or of one that it waited for.
type Step struct {
	Piece

	Goroutine int64
	Depth     int // number of waits that lead to it
	// Followed says that the step is a wait that the next steps, with a larger depth, explain.
	Followed bool
}

// Known returns the total time of the steps of a path that are not Followed.
func Known(steps []Step) (sum int64) {
	for i := range steps {
		if s := &steps[i]; !s.Followed {
			sum += s.To - s.From
		}
	}
	return sum
}

// maxFollowed is the maximum depth of waits that are followed.
const maxFollowed = 64

// maxSteps is the maximum number of steps of a path; later steps are missing.
const maxSteps = 200_000

// Path returns what the goroutine of each leg did at each moment. If it waited for another goroutine, the path
// also has what that goroutine did, and so on. The time before a goroutine was created belongs to its creator.
// Waits for the collector, for a time and for the network are not followed. The steps are in the order of time.
// Only times that the trace does not cover are missing.
func (w *Window) Path(legs []Leg) []Step {
	var steps []Step
	for _, l := range legs {
		w.explain(&steps, l.Goroutine, l.From, l.To, 0)
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.From, b.From) })
	return steps
}

func (w *Window) explain(steps *[]Step, goroutine, from, to int64, depth int) {
	k := w.tracks[goroutine]
	if k == nil || to <= from || len(*steps) >= maxSteps {
		return
	}
	if k.Created > from && k.By >= 0 && k.By != goroutine && depth < maxFollowed {
		before := min(k.Created, to)
		w.explain(steps, k.By, from, before, depth+1)
		from = before
	}
	for _, x := range k.between(from, to) {
		if len(*steps) >= maxSteps {
			return
		}
		x.From, x.To = max(x.From, from), min(x.To, to)
		if x.To <= x.From {
			continue
		}
		if x.State.Blocked() && x.By >= 0 && x.By != goroutine && w.tracks[x.By] != nil && depth < maxFollowed {
			before := len(*steps)
			*steps = append(*steps, Step{x, goroutine, depth, true})
			w.explain(steps, x.By, x.From, x.To, depth+1)
			if Known((*steps)[before:])*2 >= x.To-x.From {
				continue
			}
			*steps = (*steps)[:before] // too little is known about the other goroutine
		}
		*steps = append(*steps, Step{x, goroutine, depth, false})
	}
}
