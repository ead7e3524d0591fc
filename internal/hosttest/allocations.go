package hosttest

import "testing"

// Allocations returns how often f allocates memory, on average of so many runs. Goroutines
// of earlier tests may allocate meanwhile: the least of five counts is what f does itself.
func Allocations(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for range 4 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}
