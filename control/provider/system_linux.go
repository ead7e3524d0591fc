package provider

import (
	"os"
	"path/filepath"
)

// A system reads statistics of the process from /proc and the cgroup.
type system struct {
	proc   string // the folder of the process
	cgroup string // that of its cgroup of version 2; empty: it has none
	buf    [16 << 10]byte
}

// newSystem returns a system that reads below root, which is "/" but in tests.
func newSystem(root string) *system {
	s := &system{proc: filepath.Join(root, "proc", "self")}
	if dir, ok := parseCgroup(s.read(filepath.Join(s.proc, "cgroup"))); ok {
		s.cgroup = filepath.Join(root, "sys", "fs", "cgroup", dir)
	}
	return s
}

func (s *system) usage() usage {
	var u usage
	u.addRusage()
	u.parse(s.read(s.proc+"/status"), ':', statusFields)
	u.parse(s.read(s.proc+"/io"), ':', ioFields)
	// Its size is their number since Linux 6.2, and 0 before.
	if fi, err := os.Stat(s.proc + "/fd"); err == nil && fi.Size() > 0 {
		u[openFiles] = maybe{uint64(fi.Size()), true}
	}
	if s.cgroup == "" {
		return u
	}
	u[groupMemory] = decimal(s.read(s.cgroup + "/memory.current"))
	u[groupLimit] = decimal(s.read(s.cgroup + "/memory.max")) // or the word max
	u.parse(s.read(s.cgroup+"/cpu.stat"), ' ', cpuFields)
	return u
}

// read returns what is in a file, as much as there is room for, until the next
// call. A file that cannot be read is empty: what the kernel does not tell, or not
// to us, is left out.
func (s *system) read(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	n := 0
	for n < len(s.buf) {
		m, err := f.Read(s.buf[n:])
		n += m
		if err != nil {
			break
		}
	}
	return s.buf[:n]
}
