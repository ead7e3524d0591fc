package hosttest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// Alone runs the test in a separate process. In that process it returns true. In the first process it returns
// false after the other process has ended, and the test must then return. The test must not be a subtest.
func Alone(t *testing.T) bool {
	t.Helper()
	const env = "ENTRACE_TEST_ALONE"
	if os.Getenv(env) != "" {
		return true
	}
	exe, err := os.Executable()
	expect.Must(t, err)
	//nolint:gosec // G204: the command is this test binary
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), env+"=1")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil && strings.Contains(string(out), "--- SKIP: "):
		t.Skipf("%s", out)
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("%v: %s", err, out)
	}
	return false
}
