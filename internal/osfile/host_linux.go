package osfile

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// BootID returns what tells one boot of the machine from another, "" if that is unknown.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// InFirstPIDNamespace reports whether the process is not in a container of the usual kinds,
// as each has a namespace of its own.
func InFirstPIDNamespace() bool {
	const first = "pid:[4026531836]" // PROC_PID_INIT_INO of Linux
	link, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && link == first
}

// SharedMemory returns the folder that Linux has in memory for all processes.
func SharedMemory() string { return "/dev/shm" }

// FreeBytes returns how many bytes a file system has free for this user, 0 if that is
// unknown.
func FreeBytes(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	return int64(st.Bavail) * int64(st.Bsize) //nolint:unconvert // it has 32 bits on some machines
}

// MemoryLimit returns how many bytes of memory the control group of the process may use, 0
// if there is no limit.
func MemoryLimit() int64 {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(0)
	for line := range strings.Lines(string(b)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue // version 1
		}
		for ; ; group = path.Dir(group) { // the limits of those above hold, too
			text, _ := os.ReadFile(path.Join("/sys/fs/cgroup", group, "memory.max"))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && (least == 0 || n < least) {
				least = n
			}
			if group == "/" || group == "." {
				break
			}
		}
	}
	return least
}

// OwnFolder makes the folder name, or finds it, and reports whether it is a folder of this
// user that nobody else may use.
func OwnFolder(name string) bool {
	if err := os.Mkdir(name, 0o700); err != nil && !os.IsExist(err) {
		return false
	}
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o7777 == 0o700 && int(st.Uid) == os.Geteuid()
}

// IsOwn reports whether the regular file f has one name and belongs to the owner of another
// file.
func IsOwn(f, of *os.File) bool {
	var a, b unix.Stat_t
	if control(f, func(fd int) error { return unix.Fstat(fd, &a) }) != nil || control(of, func(fd int) error { return unix.Fstat(fd, &b) }) != nil {
		return false
	}
	return a.Mode&unix.S_IFMT == unix.S_IFREG && a.Nlink == 1 && a.Uid == b.Uid
}

// Device returns what tells the file system of a folder from others of this boot, "" if
// that is unknown.
func Device(dir string) string {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return ""
	}
	return strconv.FormatUint(uint64(st.Dev), 10) //nolint:unconvert // it has 32 bits on some machines
}
