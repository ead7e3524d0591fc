//go:build unix

package recorder_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

func TestCreateNotRegular(t *testing.T) {
	for _, name := range []string{"app.iet", "app.et", "app.iet.buffer"} {
		dir := t.TempDir()
		must(t, unix.Mkfifo(filepath.Join(dir, name), 0o600))
		done := make(chan error, 1)
		go func() {
			rec, err := recorder.Create(filepath.Join(dir, "app.et"), nil)
			if err == nil {
				err = rec.Close(context.Background())
			}
			done <- err
		}()
		select {
		case err := <-done:
			expect.Is(t, err, format.ErrNotRegular, "%s is a pipe", name)
		case <-time.After(20 * time.Second):
			t.Fatalf("%s is a pipe: Create hangs", name)
		}
	}
	// If the name of the buffer is a symbolic link, Create does not write to the target of the link.
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	must(t, os.WriteFile(target, []byte("precious"), 0o600))
	must(t, os.Symlink(target, filepath.Join(dir, "app.iet.buffer")))
	rec, err := recorder.Create(filepath.Join(dir, "app.et"), nil)
	if err == nil {
		_ = rec.Close(context.Background()) // Create may ignore the link
	}
	expect.Equal(t, string(readFile(t, target)), "precious", "what the link led to")
}

func TestNoPlaceForTheFile(t *testing.T) {
	expect.Is(t, expect.Err(recorder.Create(hosttest.Path(t, "missing", "app.et"), nil)), fs.ErrNotExist, "in a folder that is not there")
	if s := os.Getenv(limitEnv); s == "files" {
		var l unix.Rlimit
		must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &l))
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: l.Max}))
		_, err := recorder.Create(os.Getenv(pathEnv), nil)
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &l))
		expect.Is(t, err, syscall.EMFILE, "without descriptors")
		return
	}
	dir := t.TempDir()
	if out, err := limited(t, "files", filepath.Join(dir, "app.et")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if names := dirNames(t, dir); len(names) > 0 {
		t.Errorf("the folder has %q", names)
	}
	if os.Geteuid() == 0 {
		return // root can write to every folder
	}
	must(t, os.Chmod(dir, 0o500))
	expect.Is(t, expect.Err(recorder.Create(filepath.Join(dir, "app.et"), nil)), fs.ErrPermission, "in a folder that is read only")
}

// TestPermissions checks that other users cannot read the files.
func TestPermissions(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := t.TempDir()
	private := func(what string) {
		t.Helper()
		for _, name := range dirNames(t, dir) {
			fi, err := os.Lstat(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // the file was finished in the meantime and has another name
			}
			must(t, err)
			if fi.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %s has mode %v", what, name, fi.Mode())
			}
		}
	}
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{MaxFileEntries: 30})
	private("created")
	for range 100 {
		writeNamed(t, rec, "x")
	}
	private("rotated")
	must(t, rec.Close(context.Background()))
	private("closed")
	deadStream(t, filepath.Join(dir, "broken.iet"), 77, 0, 1)
	_, err := recorder.Recover(filepath.Join(dir, "broken.iet"), "")
	must(t, err)
	_, err = recorder.Recover(filepath.Join(dir, "broken.iet"), filepath.Join(dir, "copy.et"))
	must(t, err)
	private("recovered")
}
