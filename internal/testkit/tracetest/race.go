//go:build race

package tracetest

// Race reports whether the race detector is on. Large tests are smaller with it.
const Race = true
