package hosttest

import (
	"os"
	"os/exec"
	"testing"
)

// NeedStrace skips the test if strace does not work on this machine. In CI, which sets ENTRACE_CI to 1, the test
// fails instead.
func NeedStrace(t testing.TB) {
	t.Helper()
	//nolint:gosec // G204: nothing of it comes from outside
	err := exec.CommandContext(t.Context(), "strace", "-qq", "-o", os.DevNull, "true").Run()
	switch {
	case err == nil:
	case os.Getenv("ENTRACE_CI") == "1":
		t.Fatalf("strace: %v", err)
	default:
		t.Skipf("strace: %v", err)
	}
}
