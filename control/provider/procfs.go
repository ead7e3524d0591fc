package provider

import (
	"bytes"
	"math"
	"path"
)

// Parsers of files in /proc and in a cgroup. They skip what they cannot read: each version of Linux has
// more.

// A procStatus is /proc/self/status, in bytes.
type procStatus struct {
	virtual, resident, peak, swap, threads maybe
}

// maybe is a number that may be missing.
type maybe struct {
	n  uint64
	ok bool
}

func parseStatus(b []byte) (s procStatus) {
	eachField(b, ':', func(name, value []byte) {
		switch string(name) {
		case "VmSize":
			s.virtual = kilobytes(value)
		case "VmRSS":
			s.resident = kilobytes(value)
		case "VmHWM":
			s.peak = kilobytes(value)
		case "VmSwap":
			s.swap = kilobytes(value)
		case "Threads":
			s.threads = decimal(value)
		}
	})
	return s
}

// A procIO is /proc/self/io: bytes that came from and went to the disk.
type procIO struct{ read, written maybe }

func parseIO(b []byte) (s procIO) {
	eachField(b, ':', func(name, value []byte) {
		switch string(name) {
		case "read_bytes":
			s.read = decimal(value)
		case "write_bytes":
			s.written = decimal(value)
		}
	})
	return s
}

// A cgroupCPU is cpu.stat of a cgroup.
type cgroupCPU struct{ micros, throttledMicros, throttled maybe }

func parseCPUStat(b []byte) (s cgroupCPU) {
	eachField(b, ' ', func(name, value []byte) {
		switch string(name) {
		case "usage_usec":
			s.micros = decimal(value)
		case "throttled_usec":
			s.throttledMicros = decimal(value)
		case "nr_throttled":
			s.throttled = decimal(value)
		}
	})
	return s
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

// eachField calls f for each line "name<sep>value", without the space around the
// two.
func eachField(b []byte, sep byte, f func(name, value []byte)) {
	for line := range bytes.Lines(b) {
		if i := bytes.IndexByte(line, sep); i > 0 {
			f(bytes.TrimSpace(line[:i]), bytes.TrimSpace(line[i+1:]))
		}
	}
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
