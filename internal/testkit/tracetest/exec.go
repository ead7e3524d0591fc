package tracetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// ParsedExecTrace returns the events of an execution trace of Go's runtime as go tool trace prints them.
func ParsedExecTrace(t testing.TB, data []byte) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trace.out")
	expect.Must(t, os.WriteFile(name, data, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "tool", "trace", "-d=parsed", name).CombinedOutput() //nolint:gosec // the name is that of a temporary file
	if err != nil {
		t.Fatalf("go tool trace: %v\n%s", err, out[:min(len(out), 2000)])
	}
	return out
}
