//go:build race

package entrace_test

// raceEnabled is true under the race detector, which makes sync.Pool drop some
// items.
const raceEnabled = true
