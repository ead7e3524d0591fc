package filesource

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

func TestConfigErrors(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	f, err := os.Create(large)
	must(t, err)
	if err := errors.Join(f.Truncate(1<<40), f.Close()); err != nil {
		t.Skip(err)
	}
	if _, err := New(large, nil).Config(); err == nil || err.Error() != large+": the file is larger than 262144 bytes" {
		t.Errorf("a large file: %v", err)
	}
	expect.Is(t, expect.Err(New(dir, nil).Config()), osfile.ErrNotRegular, "a folder")
	if _, err := New(filepath.Join(dir, "none"), nil).Config(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v, want %v", err, fs.ErrNotExist)
	}
	loop := filepath.Join(dir, "loop.yaml")
	symlink(t, loop, loop)
	if _, err := New(loop, nil).Config(); err == nil {
		t.Error("a link to itself was read")
	}
}

func TestOptionsDefaults(t *testing.T) {
	file := hosttest.Path(t, "control.yaml")
	write(t, file, "keep: {files: 3}\nring: {bytes: 8MiB}\n")
	d := control.DefaultConfig()
	d.ID, d.Dir, d.Keep.Age, d.Ring.Persist = "not used", "/default", time.Hour, false
	d.Ring.Params = map[string]string{"gc.a": "1"}
	d.Traces = []control.TraceConfig{{Name: "not used"}}
	s := New(file, &Options{Defaults: d})
	d.Dir, d.Ring.Params["gc.a"] = "changed later", "2"
	for range 2 {
		c, err := s.Config()
		must(t, err)
		if c.Dir != "/default" || c.Keep != (control.Keep{Files: 3, Bytes: 2 << 30, Age: time.Hour}) || c.Ring.Bytes != 8<<20 ||
			c.Ring.Persist || c.Ring.Params["gc.a"] != "1" || c.Traces != nil || !strings.HasPrefix(c.ID, "sha256:") {
			t.Errorf("got %+v, want the defaults for what the file does not say", c)
		}
		c.Ring.Params["gc.a"] = "the caller's"
	}
}

// TestOptionsDefaultsWithoutRing checks that a ring that cannot be read is the only problem: snapshots without a ring
// are not also reported.
func TestOptionsDefaultsWithoutRing(t *testing.T) {
	file := hosttest.Path(t, "control.yaml")
	s := New(file, &Options{Defaults: &control.Config{Dir: "/t"}})
	const traces = "traces: [{name: a, providers: [gc]}]\n"
	for text, want := range map[string]string{
		"":                            "1:10: traces[0].mode: a snapshot needs a ring: ring.bytes is 0",
		"ring: {bytes: x}":            `2:15: ring.bytes: "x" is not a size such as 1000, 10KB, 64MiB or 2GiB`,
		"ring: []":                    "2:7: ring: must be a mapping, found a list",
		"ring: {bytes: 8MiB}\nkep: 1": `3:1: unknown key "kep": known keys are id, dir, keep, ring, traces`,
	} {
		write(t, file, traces+text)
		if _, err := s.Config(); err == nil || err.Error() != file+":"+want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// TestRelativePath checks that a change of the working directory after New has no effect.
func TestRelativePath(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "control.yaml"), "kep: 1\ndir: /t\n")
	t.Chdir(dir)
	s := New("control.yaml", nil)
	t.Chdir(t.TempDir())
	if _, err := s.Config(); err == nil || !strings.HasPrefix(err.Error(), "control.yaml:1:1: unknown key") {
		t.Errorf("got %v, want the problem in the file", err)
	}
}
