//go:build unix

package format

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestOpenNotRegular(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	fifo := path("fifo.iet")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Skipf("no pipes: %v", err)
	}
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	must(os.Mkdir(path("dir.iet"), 0o700))
	must(os.Symlink(fifo, path("to-fifo.iet")))
	must(os.Symlink(path("dir.iet"), path("to-dir.iet")))
	must(os.Symlink("/dev/zero", path("to-zero.iet")))
	must(os.Symlink(path("a.iet"), path("b.iet")))
	must(os.Symlink(path("b.iet"), path("a.iet")))
	must(os.Symlink(path("nothing"), path("dangling.iet")))
	names := []struct {
		name string
		want error // nil: any error
	}{
		{fifo, ErrNotRegular},
		{path("dir.iet"), ErrNotRegular},
		{path("to-fifo.iet"), ErrNotRegular},
		{path("to-dir.iet"), ErrNotRegular},
		{path("to-zero.iet"), ErrNotRegular},
		{"/dev/zero", ErrNotRegular},
		{"/dev/null", ErrNotRegular},
		{"/dev/tty", nil},
		{path("a.iet"), syscall.ELOOP},
		{path("dangling.iet"), fs.ErrNotExist},
		{path("nothing.iet"), fs.ErrNotExist},
		{"", fs.ErrNotExist},
		{"nul\x00.iet", nil},
	}
	if runtime.GOOS == "linux" {
		names = append(names, []struct {
			name string
			want error
		}{{"/proc/self/status", nil}, {"/proc/self/mem", nil}, {"/proc/self/fd", ErrNotRegular}, {"/proc/self/maps", nil}}...)
	}
	if l, err := net.Listen("unix", path("socket.iet")); err == nil {
		defer l.Close()
		names = append(names, struct {
			name string
			want error
		}{path("socket.iet"), nil})
	}
	out := path("out.et")
	tr := fakeFile{Version: V1, Format: IET, Entries: small(3)}.build()
	good := writeFile(t, path("good.iet"), tr.b)
	for _, c := range names {
		for what, f := range map[string]func() error{
			"Open":         func() error { _, err := Open(c.name, nil); return err },
			"lenient Open": func() error { _, err := Open(c.name, &OpenOptions{Lenient: true}); return err },
			"Inspect":      func() error { _, err := Inspect(c.name); return err },
			"Verify":       func() error { _, err := Verify(c.name, func(error) {}); return err },
			"Recover":      func() error { _, err := Recover(c.name, out); return err },
			"Recover here": func() error { _, err := Recover(c.name, ""); return err },
			"Follow":       func() error { _, err := Follow(c.name, nil); return err },
		} {
			err := inASecond(t, what+" of "+c.name, f)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s of %q: %v, want %v", what, c.name, err, c.want)
			}
		}
		if c.want == nil || errors.Is(c.want, fs.ErrNotExist) {
			continue
		}
		// The paths are also refused as outputs.
		if err := inASecond(t, "Recover to "+c.name, func() error { _, err := Recover(good, c.name); return err }); err == nil {
			t.Errorf("Recover to %q: no error", c.name)
		}
	}
	expect.Is(t, expect.Err(os.Stat(out)), fs.ErrNotExist, "what Recover of nothing leaves")
	if left, err := filepath.Glob(path(".*.tmp-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if target, err := os.Readlink(path("a.iet")); err != nil || target != path("b.iet") {
		t.Errorf("a link was changed: %q, %v", target, err)
	}
}

func inASecond(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Second):
		t.Fatalf("%s hangs", what)
		return nil
	}
}
