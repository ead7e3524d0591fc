package query

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// The test between runs. A run is one recording of a program; what the machine does besides shifts
// all durations of a run together, so that runs are compared and not spans.
//
// Each path has figures for each run: the logarithms of its 95th percentile, of its errors and of
// its spans for each root span. A figure's statistic is how much larger its mean is in the runs
// after, in units of the scatter between runs. If nothing has changed, the runs before and after
// can be exchanged: every way to choose which runs are called "after" is as probable as the true
// one. The probability of a figure is therefore the share of all such ways in which the largest
// statistic of all figures of all paths is at least as large as its own (Westfall and Young,
// 1993, maxT). It holds over all paths together, however many there are, for any distribution, and
// also if the paths of a run are slow together.

const (
	// maxLabelings is how many ways to choose the runs after are tried. If there are more, so many
	// are drawn.
	maxLabelings = 2000
	// leastScatter is the standard deviation of a logarithm that is added to that of the runs,
	// since a few equal figures do not say that the next one is equal.
	leastScatter = 0.01
	// scatterSample is of how many figures the usual scatter is found.
	scatterSample = 1000
)

// A figure is one number of a path for each run, those before first.
type figure struct {
	path   int
	values []float64
	p      float64 // of so large a growth by chance, over all figures together
}

// A family is the figures of one kind. They share what the scatter of a figure usually is, as a few
// runs tell little of one figure's own.
type family struct {
	figures []figure
	growth  []float64
	scatter []float64 // variances
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

// addRates adds the logarithm of how many there are of so many. None is as half of one in a run of
// mean size, however large the run is.
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

// labelings returns the ways to choose after of before+after runs, the true one first.
func labelings(before, after int) [][]bool {
	n := before + after
	truth := make([]bool, n)
	for i := before; i < n; i++ {
		truth[i] = true
	}
	all := [][]bool{truth}
	if ways := math.Exp(logChoose(n, after)); ways <= maxLabelings+0.5 {
		for next := slices.Clone(truth); previous(next); next = slices.Clone(next) {
			all = append(all, next)
		}
		return all
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a comparison gives the same answer each time
	for len(all) < maxLabelings {
		next := slices.Clone(truth)
		random.Shuffle(n, func(i, j int) { next[i], next[j] = next[j], next[i] })
		all = append(all, next)
	}
	return all
}

// previous makes of a choice the one before it in lexical order, and returns false if it is the
// first.
func previous(b []bool) bool {
	for i := len(b) - 1; i > 0; i-- {
		if b[i] && !b[i-1] {
			b[i-1], b[i] = true, false
			ones := 0
			for _, one := range b[i+1:] {
				if one {
					ones++
				}
			}
			for k := i + 1; k < len(b); k++ { // what is behind it is as late as possible
				b[k] = k >= len(b)-ones
			}
			return true
		}
	}
	return false
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

// measure computes the statistics of all figures for one choice of runs.
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
