package hosttest

import "testing"

// Allocations returns the number of allocations of one call of f, as the average over so many
// runs. Goroutines of earlier tests may allocate at the same time, so Allocations counts five
// times and returns the smallest count.
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
