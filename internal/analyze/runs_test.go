package analyze_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/view"
)

// A machine simulates runs of one program. Durations vary by up to a tenth from run to run: half of
// this variation is common to all paths of a run, and half is different for each path.
type machine struct{ *rand.Rand }

const (
	pathsOfRun = 24
	callsOfRun = 6
)

// scatter returns a random factor between 1-share and 1+share.
func (m machine) scatter(share float64) float64 { return 1 + share*(2*m.Float64()-1) }

// run returns a run in which the durations of one path are multiplied by factor. The parameter
// often is the number of its spans per request.
func (m machine) run(t *testing.T, factor float64, often int) *view.View {
	t.Helper()
	all := []*format.TraceEntry{format.Root()}
	together := m.scatter(0.05)
	var took [pathsOfRun]float64
	for i := range took {
		took[i] = float64(10_000*(i+1)) * together * m.scatter(0.05)
	}
	took[7] *= factor
	for call := range callsOfRun {
		root := uint32(len(all))
		e := span(0, fmt.Sprintf("%x", root), "GET", int64(call)*1e9, int64(took[0]*m.scatter(0.02)))
		e.Attributes[1].Value = format.StringValue(fmt.Sprintf("%032x", call+1))
		all = append(all, e)
		for i := 1; i < pathsOfRun; i++ {
			times := 1
			if i == 7 {
				times = often
			}
			for range times {
				all = append(all, span(root, fmt.Sprintf("%x", len(all)), fmt.Sprint("step ", i), int64(call)*1e9, int64(took[i]*m.scatter(0.02))))
			}
		}
	}
	return viewOf(t, all)
}

// compare compares five runs with five runs of a changed program.
func (m machine) compare(t *testing.T, factor float64, often int) *analyze.Diff {
	t.Helper()
	var before, after []*view.View
	for range 5 {
		before, after = append(before, m.run(t, 1, 2)), append(after, m.run(t, factor, often))
	}
	d, err := analyze.Compare(t.Context(), runs(t, before...), runs(t, after...))
	must(t, err)
	return d
}

// TestRunsWithoutChangeAreAlike compares a program with itself a hundred times. At most five
// comparisons may find a path that takes longer, fails more often or occurs more often.
func TestRunsWithoutChangeAreAlike(t *testing.T) {
	long(t)
	found := 0
	for seed := range uint64(100) {
		d := machine{rand.New(rand.NewPCG(seed, 3))}.compare(t, 1, 2)
		for i := range d.Paths {
			p := &d.Paths[i]
			if p.P <= d.Level || p.ErrorsP <= d.Level || p.CountP <= d.Level {
				found++
				break
			}
		}
	}
	if found > 5 {
		t.Errorf("%d of 100 comparisons of a program with itself find a change", found)
	}
}

// TestRunsFindSlowPath checks that if one of many paths takes 30 % longer, only that path is found.
func TestRunsFindSlowPath(t *testing.T) {
	for seed := range seeds(5, 20) {
		d := machine{rand.New(rand.NewPCG(seed, 4))}.compare(t, 1.3, 2)
		if d.Runs != [2]int{5, 5} || d.LeastP > d.Level {
			t.Fatalf("%v runs, least P %v", d.Runs, d.LeastP)
		}
		for i := range d.Paths {
			p := &d.Paths[i]
			share, sure := p.Change()
			slow := p.Path[len(p.Path)-1].Name == "step 7"
			if slow && (!sure || share < 0.1 || share > 0.5) || !slow && sure && share > 0.1 {
				t.Errorf("seed %d: %v has changed by %v, P = %v", seed, p.Path, share, p.P)
			}
		}
	}
}

// TestRunsFindMoreSpans checks that Compare finds that each request makes three queries instead of
// two.
func TestRunsFindMoreSpans(t *testing.T) {
	d := machine{rand.New(rand.NewPCG(1, 5))}.compare(t, 1, 3)
	for i := range d.Paths {
		p := &d.Paths[i]
		share, sure := p.MoreSpans()
		if more := p.Path[len(p.Path)-1].Name == "step 7"; more && (!sure || share != 0.5) || !more && (sure || share != 0) {
			t.Errorf("of %v there are more by %v, P = %v", p.Path, share, p.CountP)
		}
	}
}

// TestFewRunsTellNothing checks that nothing is found with two runs on each side, because they
// cannot distinguish a change from chance.
func TestFewRunsTellNothing(t *testing.T) {
	m := machine{rand.New(rand.NewPCG(1, 6))}
	d, err := analyze.Compare(t.Context(), runs(t, m.run(t, 1, 2), m.run(t, 1, 2)), runs(t, m.run(t, 9, 2), m.run(t, 9, 2)))
	must(t, err)
	if d.LeastP != 1.0/6 || d.LeastP <= d.Level {
		t.Errorf("the least P of two runs and two is %v", d.LeastP)
	}
	for i := range d.Paths {
		if _, sure := d.Paths[i].Change(); sure {
			t.Errorf("%v is a change", d.Paths[i].Path)
		}
	}
}
