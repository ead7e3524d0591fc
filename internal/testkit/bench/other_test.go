//go:build !unix

package bench

import "time"

// syncDisks does nothing on this system.
func syncDisks() {}

// cpuTime returns false: the CPU time of this process is not known on this system.
func cpuTime() (time.Duration, bool) { return 0, false }
