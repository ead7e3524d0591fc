package analyze

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/entrace-go/entrace/internal/read/stat"
)

// This file has the test between runs. A run is one recording of a program. Other work of the machine affects all
// durations of a run together, so the test compares runs and not spans.
//
// Each path has three figures for each run: the logarithms of its 95th percentile, of its error
// rate and of its number of spans for each root span. The statistic of a figure is the difference
// of its means in the runs after and before, in units of the scatter between runs. If nothing has changed, the
// runs before and after can be exchanged: every choice of the "after" runs is as probable as the true one. The
// probability of a figure is therefore a share of all choices: the choices for which the largest statistic of all
// figures of all paths is at least as large as the true statistic of the figure (Westfall and Young, 1993, maxT).
// The probability is corrected for the number of paths. It is valid for any distribution, and also if all paths of
// a run are slow together.

const (
	// maxLabelings is the maximum number of choices of "after" runs that are tried. If there are more choices,
	// this many are drawn at random.
	maxLabelings = 2000
	// leastScatter is the standard deviation of a logarithm that is added to the measured scatter. Without it, a
	// few figures that happen to be equal would make any later difference significant.
	leastScatter = 0.01
	// scatterSample is the maximum number of figures from which the usual scatter is computed.
	scatterSample = 1000
)

// A figure is one number of a path for each run. The runs before are first.
type figure struct {
	path   int
	values []float64
	p      float64 // the probability that chance gives this much growth, corrected for the number of figures
}

// A family holds the figures of one kind. They share an estimate of the usual scatter, because a few runs are too
// few to estimate the scatter of a single figure.
type family struct {
	figures []figure
	growth  []float64
	scatter []float64 // the variances between runs
	sample  []float64
}

// add adds a figure of a path.
func (f *family) add(path int, runs []PathStats, value func(s *PathStats) float64) {
	values := make([]float64, len(runs))
	for i := range runs {
		values[i] = value(&runs[i])
	}
	f.figures = append(f.figures, figure{path: path, values: values})
}

// addRates adds the logarithm of the rate n/of for each run. To avoid the logarithm of 0, it adds the rate of 0.5
// in a run of mean size to each rate.
func (f *family) addRates(path int, runs []PathStats, counts func(s *PathStats) (n, of int)) {
	all := 0
	for i := range runs {
		_, of := counts(&runs[i])
		all += of
	}
	none := 0.5 * float64(len(runs)) / float64(max(1, all))
	f.add(path, runs, func(s *PathStats) float64 {
		n, of := counts(s)
		return math.Log(float64(n)/float64(max(1, of)) + none)
	})
}

// labelings returns the ways to choose the "after" runs from all before+after runs. The true choice is first.
func labelings(before, after int) [][]bool {
	n := before + after
	truth := make([]bool, n)
	for i := before; i < n; i++ {
		truth[i] = true
	}
	all := [][]bool{truth}
	if ways := math.Exp(stat.LogChoose(n, after)); ways <= maxLabelings+0.5 {
		next := make([]bool, n)
		var choose func(from, more int) // chooses more runs from index from on
		choose = func(from, more int) {
			if more == 0 && !slices.Equal(next, truth) {
				all = append(all, slices.Clone(next))
			}
			for i := from; more > 0 && i <= n-more; i++ {
				next[i] = true
				choose(i+1, more-1)
				next[i] = false
			}
		}
		choose(0, after)
		return all
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a fixed seed, so that a comparison gives the same answer each time
	for len(all) < maxLabelings {
		next := slices.Clone(truth)
		random.Shuffle(n, func(i, j int) { next[i], next[j] = next[j], next[i] })
		all = append(all, next)
	}
	return all
}

// test sets the probabilities of all figures.
func test(ctx context.Context, families []family, before, after int) error {
	const rounding = 1e-9
	ways := labelings(before, after)
	own := make([][]float64, len(families))
	larger := make([][]int, len(families))
	for w, isAfter := range ways {
		if err := ctx.Err(); err != nil {
			return err
		}
		largest := math.Inf(-1)
		for i := range families {
			f := &families[i]
			f.measure(isAfter, before, after)
			if w == 0 {
				own[i], larger[i] = slices.Clone(f.growth), make([]int, len(f.figures))
			}
			for _, g := range f.growth {
				largest = max(largest, g)
			}
		}
		for i := range families {
			for k, g := range own[i] {
				if largest >= g-rounding {
					larger[i][k]++
				}
			}
		}
	}
	for i := range families {
		for k := range families[i].figures {
			families[i].figures[k].p = float64(larger[i][k]) / float64(len(ways))
		}
	}
	return nil
}

// measure computes the statistics of all figures for one choice of the runs after.
func (f *family) measure(isAfter []bool, before, after int) {
	f.growth, f.scatter = f.growth[:0], f.scatter[:0]
	for i := range f.figures {
		var sum, squares [2]float64
		for run, x := range f.figures[i].values {
			side := 0
			if isAfter[run] {
				side = 1
			}
			sum[side] += x
			squares[side] += x * x
		}
		n, m := float64(before), float64(after)
		within := max(0, squares[0]-sum[0]*sum[0]/n+squares[1]-sum[1]*sum[1]/m)
		f.growth = append(f.growth, sum[1]/m-sum[0]/n)
		f.scatter = append(f.scatter, within/max(1, n+m-2))
	}
	f.sample = f.sample[:0]
	for i := 0; i < len(f.scatter); i += 1 + len(f.scatter)/scatterSample {
		f.sample = append(f.sample, f.scatter[i])
	}
	usual := 0.0
	if len(f.sample) > 0 {
		slices.Sort(f.sample)
		usual = f.sample[len(f.sample)/2]
	}
	for i, s := range f.scatter {
		f.growth[i] /= math.Sqrt(((s+usual)/2 + leastScatter*leastScatter) * (1/float64(before) + 1/float64(after)))
	}
}
