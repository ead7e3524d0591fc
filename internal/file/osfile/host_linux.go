package osfile

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// BootID returns an id of the current boot of the machine, or "" if it is unknown.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// SharedMemory returns the folder in memory that all processes of the machine share. It returns "" if this process
// does not see that folder: a container, or a process with its own mounts, may have another folder with the same
// name, which disappears with the container or process.
func SharedMemory() string {
	if inFirstPIDNamespace() && OnTmpfs(sharedMemory) && isOfMachine("/proc", sharedMemory) {
		return sharedMemory
	}
	return ""
}

const sharedMemory = "/dev/shm"

// inFirstPIDNamespace reports whether this process is in the PID namespace of the machine, and not in that of a
// container. Process 1 is then the first process of the machine.
func inFirstPIDNamespace() bool {
	const first = "pid:[4026531836]" // PROC_PID_INIT_INO of Linux
	link, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && link == first
}

// isOfMachine reports whether this process and process 1 have the same file system mounted at folder. It returns
// false if this process cannot read the mounts of process 1. Usually every user can read them.
func isOfMachine(proc, folder string) bool {
	own := mountOn(path.Join(proc, "self/mountinfo"), folder)
	return own != "" && own == mountOn(path.Join(proc, "1/mountinfo"), folder)
}

// mountOn looks folder up in a mountinfo file. It returns the mounted device and the folder on that device, or "" if
// folder is not a mount point.
func mountOn(mountinfo, folder string) (mounted string) {
	b, err := os.ReadFile(mountinfo)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		// A line has the fields id, parent id, device, folder on the device, mount point. See
		// proc_pid_mountinfo(5). If several file systems are mounted at a folder, the last one is visible.
		if w := strings.Fields(line); len(w) > 4 && w[4] == folder {
			mounted = w[2] + " " + w[3]
		}
	}
	return mounted
}

// FreeBytes returns the number of bytes that this user may still allocate on the file system of a folder, or 0 if
// it is unknown.
func FreeBytes(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	return int64(st.Bavail) * int64(st.Bsize) //nolint:unconvert // it has 32 bits on some machines
}

// MemoryLimit returns how many bytes of memory the control group of the process may use, or 0 if there is no limit.
func MemoryLimit() int64 { return memoryLimit("/") }

// memoryLimit is like MemoryLimit, with the folder root instead of "/".
func memoryLimit(root string) int64 {
	b, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	least := int64(0)
	for line := range strings.Lines(string(b)) {
		// A line is number:controllers:group. A version 2 group has the number 0 and no controllers.
		w := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(w) < 3 {
			continue
		}
		var at, file string
		switch {
		case w[0] == "0":
			at, file = "sys/fs/cgroup", "memory.max"
		case slices.Contains(strings.Split(w[1], ","), "memory"):
			at, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// The limits of parent groups also apply. In a container, the group of the container looks like the topmost
		// group.
		for group := path.Join("/", w[2]); ; group = path.Dir(group) {
			text, _ := os.ReadFile(path.Join(root, at, group, file))
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && n < noLimit && (least == 0 || n < least) {
				least = n
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// noLimit is larger than every real limit. If a group has no limit, version 1 shows the largest multiple of the
// page size.
const noLimit = 1 << 60

// OwnFolder makes the folder called name if it does not exist. It reports whether the folder belongs to this user and is
// closed to other users.
func OwnFolder(name string) bool {
	if err := os.Mkdir(name, 0o700); err != nil && !os.IsExist(err) {
		return false
	}
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o7777 == 0o700 && int(st.Uid) == os.Geteuid()
}

// IsOwn reports whether f is a regular file with only one name, and has the same owner as the second file.
func IsOwn(f, of *os.File) bool {
	var a, b unix.Stat_t
	if control(f, func(fd int) error { return unix.Fstat(fd, &a) }) != nil || control(of, func(fd int) error { return unix.Fstat(fd, &b) }) != nil {
		return false
	}
	return a.Mode&unix.S_IFMT == unix.S_IFREG && a.Nlink == 1 && a.Uid == b.Uid
}

// Device returns an id of the file system of a folder, or "" if it is unknown. The id is valid until the next boot.
func Device(dir string) string {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return ""
	}
	return strconv.FormatUint(uint64(st.Dev), 10) //nolint:unconvert // it has 32 bits on some machines
}
