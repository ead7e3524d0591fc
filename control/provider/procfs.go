package provider

import (
	"bytes"
	"math"
	"path"
)

// Parsers of files in /proc and in a cgroup. They skip what they cannot read: each version of Linux has
// more.

// maybe is a number that may be missing.
type maybe struct {
	n  uint64
	ok bool
}

// The fields of /proc/self/status, of /proc/self/io, which counts bytes from and to the disk, and of
// cpu.stat of a cgroup, which has microseconds.
var (
	statusFields = map[string]statistic{"VmSize": virtual, "VmRSS": resident, "VmHWM": peak, "VmSwap": swap, "Threads": threads}
	ioFields     = map[string]statistic{"read_bytes": bytesRead, "write_bytes": bytesWritten}
	cpuFields    = map[string]statistic{"usage_usec": groupTime, "throttled_usec": throttledTime, "nr_throttled": throttledPeriods}
)

// parse sets the statistics of some fields in lines "name<sep>value".
func (u *usage) parse(b []byte, sep byte, fields map[string]statistic) {
	for line := range bytes.Lines(b) {
		i := bytes.IndexByte(line, sep)
		if i <= 0 {
			continue
		}
		to, ok := fields[string(bytes.TrimSpace(line[:i]))]
		if !ok {
			continue
		}
		value := bytes.TrimSpace(line[i+1:])
		if to >= resident && to <= swap {
			u[to] = kilobytes(value)
		} else {
			u[to] = decimal(value)
		}
	}
}

// parseCgroup returns the folder of the own cgroup of version 2, below where those
// are mounted, from /proc/self/cgroup. It never leads out of there.
func parseCgroup(b []byte) (dir string, ok bool) {
	for line := range bytes.Lines(b) {
		if rest, found := bytes.CutPrefix(line, []byte("0::/")); found {
			return path.Clean("/" + string(bytes.TrimSuffix(rest, []byte("\n")))), true
		}
	}
	return "", false
}

// kilobytes returns the bytes of "123 kB".
func kilobytes(b []byte) maybe {
	number, ok := bytes.CutSuffix(b, []byte(" kB"))
	m := decimal(number)
	if !ok || m.n > math.MaxUint64>>10 {
		return maybe{}
	}
	return maybe{m.n << 10, m.ok}
}

// decimal returns the number that is all of b but space around it.
func decimal(b []byte) maybe {
	b = bytes.TrimSpace(b)
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (math.MaxUint64-d)/10 {
			return maybe{}
		}
		n = n*10 + d
	}
	return maybe{n, len(b) > 0}
}
