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

// A Window has the states of all goroutines in a part of an execution trace.
type Window struct {
	From, To int64
	// Damage says why a part of the window is missing.
	Damage  error
	Classes []Class

	tracks map[int64]*track
	mixed  []Times // by state, in nanoseconds
	pieces int
}

// A Piece is a period in which a goroutine was in one state, or was in several states for a short time each.
type Piece struct {
	From, To int64
	State    State // the state with the most time
	Class    int32 // the class of the wait; -1 if the piece is not a wait
	By       int64 // the goroutine that ended the wait; -1 if there is none
	ByClass  int32 // the place in the code of that goroutine, as a class; -1 if unknown
	mixed    int32 // an index of Window.mixed; -1 for a piece with a single state
}

// A track has the pieces of one goroutine.
type track struct {
	By      int64 // the goroutine that created it
	Created int64 // when it was created; 0 if that was before the window
	pieces  []Piece
	wake    wake
}

// A wake says which goroutine ended a wait.
type wake struct {
	by    int64
	class int32
}

const (
	shortest = 10_000    // in nanoseconds; shorter pieces are merged
	maxMixed = 1_000_000 // the maximum length of a merged piece in nanoseconds
)

// section returns a reader of a part of the trace, from the given generation to the end.
func (t *Trace) section(ctx context.Context, generation int) (io.Reader, error) {
	head := make([]byte, execbatch.HeaderSize)
	if _, err := t.source.ReadAt(head, 0); err != nil {
		return nil, err
	}
	at := t.begins[generation].offset
	return io.MultiReader(bytes.NewReader(head), io.NewSectionReader(t.source, at, t.size-at)), ctx.Err()
}

// Window reads the generations that overlap the period between from and to. It is safe for concurrent use.
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

// add adds a piece for the time of a goroutine since its last change of state.
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
				m[state] += uint32(d)
				if m[state] > m[l.State] {
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
	} else {
		in := g.innermost()
		if state >= GCWait {
			x.Class = in.class
			if in.raw == Runnable || in.raw == Running { // another goroutine has ended the wait
				x.By, x.ByClass = in.track.wake.by, in.track.wake.class
			}
		}
	}
	k.pieces = append(k.pieces, x)
	w.pieces++
}

// between returns the pieces of a goroutine that overlap a period. The first piece may begin before the period, and
// the last piece may end after it.
func (k *track) between(from, to int64) []Piece {
	a := sort.Search(len(k.pieces), func(i int) bool { return k.pieces[i].To > from })
	z := a + sort.Search(len(k.pieces)-a, func(i int) bool { return k.pieces[a+i].From >= to })
	return k.pieces[a:z]
}

// Pieces returns the pieces of the legs' goroutines during the legs, cut to the period between from and to.
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

// Sums returns the total time in each state, in nanoseconds, of pieces that [Window.Pieces] or [Window.Path]
// returned.
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

// A Step is a part of the path of a span: the state of the span's goroutine, or of a goroutine for which it waited.
type Step struct {
	Piece

	Goroutine int64
	Depth     int // the number of waits between the span's goroutine and this one
	// Followed says that the step is a wait, and that the next steps with a larger depth explain it.
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

// maxFollowed is the maximum length of a chain of waits that is followed.
const maxFollowed = 64

// maxSteps is the maximum number of steps of a path. Later steps are omitted.
const maxSteps = 200_000

// Path returns what the goroutine of each leg did at each moment, in chronological order. If the goroutine waited for
// another goroutine, the path also has the steps of that goroutine during the wait, and so on. The time before a
// goroutine was created counts as time of its creator. Waits for the garbage collector, for a time and for the network
// are not followed. A time is missing in the path only if the execution trace does not cover it.
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
			*steps = (*steps)[:before] // remove the steps of the other goroutine, because too little is known about it
		}
		*steps = append(*steps, Step{x, goroutine, depth, false})
	}
}
