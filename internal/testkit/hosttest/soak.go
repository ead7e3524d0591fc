package hosttest

import "os"

// Soak reports whether the tests run under make soak. Then they use more repetitions, and sizes that
// take minutes.
func Soak() bool { return os.Getenv("ENTRACE_SOAK") != "" }

// Times returns the number of repetitions, or a size, for a test: long under make soak, and short
// otherwise.
func Times(short, long int) int {
	if Soak() {
		return long
	}
	return short
}
