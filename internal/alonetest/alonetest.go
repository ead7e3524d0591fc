// Package alonetest runs tests in a process of their own, and sets limits there that
// would hurt others: go test writes files, too.
package alonetest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Run runs the test, which must be no subtest, in a process of its own. It reports
// whether this is that process: else the test is over.
func Run(t *testing.T) bool {
	t.Helper()
	const env = "ENTRACE_TEST_ALONE"
	if os.Getenv(env) != "" {
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // G204: it is this very program
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
