package hosttest

import "os"

// Soak reports whether the tests run under make soak. If they do, they should use more repetitions, and sizes that
// take minutes.
func Soak() bool { return os.Getenv("ENTRACE_SOAK") != "" }

// Times returns a number of repetitions or a size for a test: long under make soak, otherwise short.
func Times(short, long int) int {
	if Soak() {
		return long
	}
	return short
}
