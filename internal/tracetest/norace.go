//go:build !race

package tracetest

// Race says that the race detector is on, under which large tests are smaller.
const Race = false
