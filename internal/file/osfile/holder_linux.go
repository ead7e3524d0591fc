package osfile

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockPID returns the id of the process that holds the exclusive lock of f. It returns 0 if the kernel does not
// show it, for example because the process is in another PID namespace.
func lockPID(f *os.File) int {
	var st unix.Stat_t
	if err := control(f, func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return 0
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	// A line has the fields number, FLOCK, ADVISORY, WRITE, pid, device:inode, from, to. See proc_locks(5).
	dev := uint64(st.Dev) //nolint:unconvert // it has 32 bits on some machines
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), st.Ino)
	for s := bufio.NewScanner(locks); s.Scan(); {
		w := strings.Fields(s.Text())
		if len(w) < 6 || w[1] != "FLOCK" || w[3] != "WRITE" || w[5] != file {
			continue
		}
		if pid, err := strconv.Atoi(w[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
