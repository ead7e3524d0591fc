package main

import (
	"bufio"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A figure identifies a number that a benchmark prints, by two texts: the name of the benchmark, without
// "Benchmark" and the number of cores, and the unit.
type figure struct{ name, unit string }

// results has the values of each figure, one per run.
type results map[figure][]float64

// procs matches the suffix with GOMAXPROCS that package testing adds to a name.
var procs = regexp.MustCompile(`-[0-9]+$`)

// read adds the results in the output of go test -bench. It ignores other lines.
func (r results) read(in io.Reader) error {
	s := bufio.NewScanner(in)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 4 || len(f)%2 != 0 {
			continue
		}
		name, ok := strings.CutPrefix(f[0], "Benchmark")
		if !ok {
			continue
		}
		name = procs.ReplaceAllString(name, "")
		for i := 2; i < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				break
			}
			k := figure{name, f[i+1]}
			r[k] = append(r[k], v)
		}
	}
	return s.Err()
}

// median returns the median of a figure, or NaN if no run has the figure.
func (r results) median(name, unit string) float64 {
	return median(slices.Clone(r[figure{name, unit}]))
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// paired returns the median, over all runs, of the ratio of two figures of the same run. The machine is not
// equally fast in all runs, but about equally fast for both figures of a run.
func (r results) paired(name, unit, other string) float64 {
	a, b := r[figure{name, unit}], r[figure{name, other}]
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}

// ratio returns the median of group/name divided by the median of group/other.
func (r results) ratio(group, name, other, unit string) float64 {
	return r.median(group+"/"+name, unit) / r.median(group+"/"+other, unit)
}

// share is like ratio for ns/op, but first subtracts the median of group/floor from both medians.
func (r results) share(group, name, other, floor string) float64 {
	base := r.median(group+"/"+floor, perOp)
	return (r.median(group+"/"+name, perOp) - base) / (r.median(group+"/"+other, perOp) - base)
}

// The units of the testing package.
const (
	perOp      = "ns/op"
	bytesPerOp = "B/op"
)
