//go:build !unix

package bench

import "time"

// syncDisks leaves the disks nothing to write.
func syncDisks() {}

// cpuTime returns what this process has used of the CPU, if that can be known.
func cpuTime() (time.Duration, bool) { return 0, false }
