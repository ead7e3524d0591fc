//go:build unix

package filesource

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestConfigPipe checks that a pipe without a writer does not block Config and Watch.
func TestConfigPipe(t *testing.T) {
	file := hosttest.Path(t, "control.yaml")
	if err := unix.Mkfifo(file, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := New(file, nil).Config(); !errors.Is(err, osfile.ErrNotRegular) {
		t.Errorf("got %v, want %v", err, osfile.ErrNotRegular)
	}
	must(t, os.Remove(file))
	write(t, file, config("a"))
	r := watch(t, file)
	must(t, os.Remove(file))
	r.want("read configuration")
	must(t, unix.Mkfifo(file, 0o600))
	r.want("not a regular file")
	replace(t, file, config("b"))
	r.want("b")
}
