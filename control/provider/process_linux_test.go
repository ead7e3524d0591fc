package provider

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// files writes files with these contents below root.
func files(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must(t, os.WriteFile(name, []byte(content), 0o600))
	}
}

func TestProcessLinux(t *testing.T) {
	root := t.TempDir()
	files(t, root, map[string]string{
		"proc/self/cgroup":                       "0::/app\n",
		"proc/self/status":                       "VmSize:\t20 kB\nVmHWM:\t9 kB\nVmRSS:\t7 kB\nVmSwap:\t3 kB\nThreads:\t4\n",
		"proc/self/io":                           "read_bytes: 100\nwrite_bytes: 1000\n",
		"sys/fs/cgroup/app/memory.current":       "5000\n",
		"sys/fs/cgroup/app/memory.max":           "9000\n",
		"sys/fs/cgroup/app/cpu.stat":             "usage_usec 1000000\nnr_throttled 1\nthrottled_usec 0\n",
		"sys/fs/cgroup/memory.current":           "1\n",
		"sys/fs/cgroup/app/child/memory.current": "2\n",
	})
	r := &record{}
	tick := newProcessTick(r.session(control.Process, nil), newSystem(root))
	files(t, root, map[string]string{
		"proc/self/io":               "read_bytes: 150\nwrite_bytes: 900\n", // write_bytes decreases
		"sys/fs/cgroup/app/cpu.stat": "usage_usec 3500000\nnr_throttled 3\nthrottled_usec 250000\n",
	})
	tick.run()
	e := r.entries[0]
	for name, want := range map[string]uint64{
		"process.memory.usage:bytes": 7 << 10, "process.memory.virtual:bytes": 20 << 10, "process.memory.peak:bytes": 9 << 10,
		"process.memory.swap:bytes": 3 << 10, "process.thread.count:threads": 4,
		"process.disk.io.read:bytes delta": 50, "process.disk.io.write:bytes delta": 0,
		"container.memory.usage:bytes": 5000, "container.memory.limit:bytes": 9000,
		"container.cpu.throttled.periods:periods delta": 2,
	} {
		expect.Equal(t, e.u64(t, name), want, "%s", name)
	}
	for name, want := range map[string]float64{"container.cpu.time:seconds delta": 2.5, "container.cpu.throttled.time:seconds delta": 0.25} {
		if v, _ := e.Attribute(name); v.Float() != want {
			t.Errorf("%s is %v, want %v", name, v.Float(), want)
		}
	}

	// Statistics whose file is missing or not readable are left out, and so is the limit "max".
	must(t, os.Remove(filepath.Join(root, "proc/self/io")))
	files(t, root, map[string]string{"sys/fs/cgroup/app/memory.max": "max\n", "proc/self/status": string(make([]byte, 1<<20))})
	tick.run()
	e = r.entries[1]
	for _, name := range []string{"process.disk.io.read:bytes delta", "container.memory.limit:bytes", "process.memory.usage:bytes"} {
		if e.has(name) {
			t.Errorf("there is %s", name)
		}
	}
	if !e.has("container.memory.usage:bytes") {
		t.Error("there is no memory of the cgroup any more")
	}
}

func TestProcessNothingThere(t *testing.T) {
	r := &record{}
	tick := newProcessTick(r.session(control.Process, nil), newSystem(t.TempDir()))
	tick.run()
	if e := r.entries[0]; !e.has("go.memory.used:bytes") || e.has("process.memory.usage:bytes") {
		t.Errorf("attributes %+v", e.Attributes)
	}
}
