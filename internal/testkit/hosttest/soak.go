package hosttest

import (
	"os"
	"testing"
)

// Soak reports whether the tests run under make soak. If they do, they should use more repetitions, and sizes that
// take minutes.
func Soak() bool { return os.Getenv("ENTRACE_SOAK") != "" }

// InCI returns a number of repetitions for a test whose repetitions find much the same: ci in CI, which sets ENTRACE_CI, and
// under make soak, otherwise usual. With -short, CI repeats as often as others.
func InCI(usual, ci int) int {
	if os.Getenv("ENTRACE_CI") != "" && !testing.Short() || Soak() {
		return ci
	}
	return usual
}

// Times returns a number of repetitions or a size for a test: long under make soak, otherwise short.
func Times(short, long int) int {
	if Soak() {
		return long
	}
	return short
}
