package provider

import (
	"io"
	"os"
	"path/filepath"
)

// A system reads statistics of the process from /proc and its cgroup.
type system struct {
	proc   string // the folder of the process
	cgroup string // the folder of the process's cgroup of version 2; "" if there is none
	buf    [16 << 10]byte
}

// newSystem returns a system that reads files below root. Only tests use a root other than "/".
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
	// Since Linux 6.2 the size of this folder is the number of open files. In earlier versions it is 0.
	if fi, err := os.Stat(s.proc + "/fd"); err == nil && fi.Size() > 0 {
		u[openFiles] = maybe{uint64(fi.Size()), true}
	}
	if s.cgroup == "" {
		return u
	}
	u[groupMemory] = decimal(s.read(s.cgroup + "/memory.current"))
	u[groupLimit] = decimal(s.read(s.cgroup + "/memory.max")) // missing if the file has the word max
	u.parse(s.read(s.cgroup+"/cpu.stat"), ' ', cpuFields)
	return u
}

// read returns the content of a file, up to the size of the buffer. The result is valid until the next
// call. If the file cannot be read, for example because the kernel does not have it, the result is empty.
func (s *system) read(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	n, _ := io.ReadFull(f, s.buf[:])
	return s.buf[:n]
}
