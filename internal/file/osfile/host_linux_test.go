package osfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

func TestMemoryLimit(t *testing.T) {
	const (
		none  = "9223372036854771712\n" // no limit, as version 1 shows it
		group = "proc/self/cgroup"
		v1    = "sys/fs/cgroup/memory/"
	)
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing", nil, 0},
		{"version 2", map[string]string{
			group: "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1000\n",
		}, 1000},
		{"version 1", map[string]string{
			group: "5:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n", v1 + "a/b/memory.limit_in_bytes": "2000\n", v1 + "memory.limit_in_bytes": none,
		}, 2000},
		{"version 1, the group above", map[string]string{
			group: "4:memory:/a/b\n", v1 + "a/b/memory.limit_in_bytes": none, v1 + "a/memory.limit_in_bytes": "3000\n",
		}, 3000},
		{"version 1 without a limit", map[string]string{
			group: "4:memory:/a\n", v1 + "a/memory.limit_in_bytes": none, v1 + "memory.limit_in_bytes": none,
		}, 0},
		{"version 1 in a container", map[string]string{
			group: "4:memory:/docker/4711\n", v1 + "memory.limit_in_bytes": "4000\n",
		}, 4000},
		{"version 1, several controllers", map[string]string{
			group: "4:cpu,memory:/a\n", v1 + "a/memory.limit_in_bytes": "5000\n",
		}, 5000},
		{"another controller", map[string]string{
			group: "4:cpu:/a\n", v1 + "a/memory.limit_in_bytes": "6000\n",
		}, 0},
		{"both versions", map[string]string{
			group: "4:memory:/a\n0::/b\n", v1 + "a/memory.limit_in_bytes": "8000\n", "sys/fs/cgroup/b/memory.max": "7000\n",
		}, 7000},
		{"garbage", map[string]string{
			group: "4:memory\n\nx\n4:memory:/a\n", v1 + "a/memory.limit_in_bytes": "much\n",
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, test.files)
			expect.Equal(t, memoryLimit(root), test.want, "memoryLimit")
		})
	}
}

func TestIsOfMachine(t *testing.T) {
	const (
		root    = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
		machine = "25 24 0:23 / /dev/shm rw,relatime shared:5 - tmpfs tmpfs rw\n"
		other   = "30 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=65536k\n"
		part    = "31 25 0:23 /part /dev/shm rw,relatime - tmpfs tmpfs rw\n"
	)
	for _, test := range []struct {
		name, own, first string
		want             bool
	}{
		{"the same", root + machine, root + machine, true},
		{"a copy of the namespace", root + "63 62 0:23 / /dev/shm rw,relatime master:5 - tmpfs tmpfs rw\n", root + machine, true},
		{"one of its own", root + other, root + machine, false},
		{"one above that of the machine", root + machine + other, root + machine, false},
		{"the machine has two", root + other, root + machine + other, true},
		{"a part of it", root + part, root + machine, false},
		{"none", root, root, false},
		{"process 1 is hidden", root + machine, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			proc := t.TempDir()
			write(t, proc, map[string]string{"self/mountinfo": test.own, "1/mountinfo": test.first})
			expect.Equal(t, isOfMachine(proc, "/dev/shm"), test.want, "isOfMachine")
		})
	}
}

// TestOwnerMayReadFilesUnderAnyUmask makes files while the umask removes all rights.
func TestOwnerMayReadFilesUnderAnyUmask(t *testing.T) {
	dir := t.TempDir()
	defer syscall.Umask(syscall.Umask(0o777))
	for name, create := range map[string]func(string) (*os.File, error){"append": CreateAppend, "new": CreateNew} {
		f, err := create(filepath.Join(dir, name))
		must(t, err)
		defer f.Close()
		fi, err := f.Stat()
		must(t, err)
		expect.Equal(t, fi.Mode().Perm(), 0o600, "%s: the mode", name)
	}
}
