package provider

import (
	"bytes"
	"math"
	"path"
	"strconv"
)

// The parsers of files in /proc and in a cgroup skip unknown lines, because newer versions of Linux add lines.

// maybe is a number that may be missing.
type maybe struct {
	n  uint64
	ok bool
}

// The names of fields in three files: /proc/self/status; /proc/self/io, with the bytes read from and
// written to disk; and cpu.stat of a cgroup, with times in microseconds.
var (
	statusFields = map[string]statistic{"VmSize": virtual, "VmRSS": resident, "VmHWM": peak, "VmSwap": swap, "Threads": threads}
	ioFields     = map[string]statistic{"read_bytes": bytesRead, "write_bytes": bytesWritten}
	cpuFields    = map[string]statistic{"usage_usec": groupTime, "throttled_usec": throttledTime, "nr_throttled": throttledPeriods}
)

// parse reads lines "name<sep>value", and sets the statistics for the names in fields.
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

// parseCgroup returns the folder of the process's cgroup of version 2, from the text of /proc/self/cgroup.
// The folder is relative to the mount point of cgroups and never outside of it.
func parseCgroup(b []byte) (dir string, ok bool) {
	for line := range bytes.Lines(b) {
		if rest, found := bytes.CutPrefix(line, []byte("0::/")); found {
			return path.Clean("/" + string(bytes.TrimSuffix(rest, []byte("\n")))), true
		}
	}
	return "", false
}

// kilobytes parses a text like "123 kB" and returns the number of bytes.
func kilobytes(b []byte) maybe {
	number, ok := bytes.CutSuffix(b, []byte(" kB"))
	m := decimal(number)
	if !ok || m.n > math.MaxUint64>>10 {
		return maybe{}
	}
	return maybe{m.n << 10, m.ok}
}

// decimal parses a decimal number. White space around it is allowed.
func decimal(b []byte) maybe {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return maybe{}
	}
	return maybe{n, true}
}
