package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestReleaseIsReproducible builds a release twice, the second time in another folder and without the build cache, and
// expects the same bytes. The program has its version and no names of this machine.
func TestReleaseIsReproducible(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || !hosttest.Soak() {
		t.Skip("it compiles everything twice; internal/testkit/crosstest/smoke tries a release")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	build := func(source string, env ...string) string {
		t.Helper()
		out := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "make", "-s", "release", "OUT="+out, "TARGETS=linux/"+runtime.GOARCH)
		cmd.Dir, cmd.Env = source, append(os.Environ(), env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return filepath.Join(out, "entrace_v0.1.0_linux_"+runtime.GOARCH)
	}
	name := build(root)
	b := read(t, name)
	if bytes.Contains(b, []byte(root)) {
		t.Errorf("the program has %s in it", root)
	}
	if out, err := exec.CommandContext(t.Context(), name, "version").CombinedOutput(); string(out) != "entrace v0.1.0\n" {
		t.Errorf("its version is %q, %v", out, err)
	}
	info, err := buildinfo.ReadFile(name)
	must(t, err)
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs") || s.Key == "CGO_ENABLED" && s.Value != "0" || s.Key == "-trimpath" && s.Value != "true" {
			t.Errorf("it is built with %s=%s", s.Key, s.Value)
		}
	}
	other := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(other, os.DirFS(root)))
	if again := build(other, "GOCACHE="+t.TempDir()); !bytes.Equal(read(t, again), b) {
		t.Error("another build has other bytes")
	}
}
