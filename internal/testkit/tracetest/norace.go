//go:build !race

package tracetest

// Race says whether the race detector is on. If it is, large tests should be smaller.
const Race = false
