//go:build unix

package entrace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestHostileServiceName checks that the trace is in its folder for any name of the service, and that
// services with different names have different files.
func TestHostileServiceName(t *testing.T) {
	dir := hosttest.Path(t, "in")
	must(t, os.Mkdir(dir, 0o700))
	seen := make(map[string]string)
	for _, service := range []string{
		"../../x", "a/b", "a%2Fb", "a\x00b", "a\nb", "CON", "nul.txt", strings.Repeat("x", 300), strings.Repeat("x", 299) + "y", " ", "..", ".", ".hidden",
		"ü", "\xff", "a:b", `a\b`, "COM1", "a b", "-rf", "~",
	} {
		p, err := entrace.Setup(t.Context(), exporter.WithPath(filepath.Join(dir, "{service}.et")), entrace.WithoutGlobals(),
			entrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))
		if err != nil {
			t.Errorf("service %q: %v", service, err)
			continue
		}
		path := p.Recorder().Path()
		base := filepath.Base(path)
		if in, _ := filepath.EvalSymlinks(dir); filepath.Dir(path) != in || len(base) > 120 || strings.HasPrefix(base, ".") || strings.Trim(strings.ToLower(base), "abcdefghijklmnopqrstuvwxyz0123456789._-%~") != "" {
			t.Errorf("service %q is recorded to %q", service, path)
		}
		if other, taken := seen[strings.ToLower(base)]; taken {
			t.Errorf("services %q and %q have one file %s", service, other, base)
		}
		seen[strings.ToLower(base)] = service
		must(t, p.Shutdown(context.Background()))
	}
	expect.Len(t, hosttest.Names(t, filepath.Dir(dir)), 1, "beside the folder")
}
