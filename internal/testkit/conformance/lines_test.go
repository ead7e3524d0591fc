//go:build conformance

package conformance_test

import (
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/view"
)

// TestLinesOfPrograms reads lines that programs write themselves. Each record must have the given shape, none may be
// without a shape, and there must be an error.
func TestLinesOfPrograms(t *testing.T) {
	for name, x := range map[string]struct {
		shape string
		write func(t *testing.T, f *os.File)
	}{
		"slog JSON": {"json", func(_ *testing.T, f *os.File) { slog.New(slog.NewJSONHandler(f, nil)).Error("no card", "order", 7) }},
		"slog text": {"logfmt", func(_ *testing.T, f *os.File) { slog.New(slog.NewTextHandler(f, nil)).Error("no card", "order", 7) }},
		"log":       {"go", func(_ *testing.T, f *os.File) { log.New(f, "", log.LstdFlags|log.Lshortfile).Print("ERROR no card") }},
		"Python's logging": {"python", pythonLogs(`logging.basicConfig(format='%(asctime)s - %(name)s - %(levelname)s - %(message)s')
logging.getLogger('shop').error('no card')`)},
		"Python's traceback": {"level", pythonLogs(`logging.basicConfig()
try: 1/0
except Exception: logging.getLogger('shop').exception('no card')`)},
		"redis": {"redis", func(t *testing.T, f *os.File) {
			runToFile(t, f, "redis-server", "--port", "0", "--unixsocket", filepath.Join(t.TempDir(), "no", "socket"), "--logfile", f.Name())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "x.log"))
			must(t, err)
			x.write(t, f)
			must(t, f.Close())
			c, err := convert.Open(t.Context(), []string{f.Name()}, nil)
			must(t, err)
			defer c.Close()
			errs := 0
			for r := range c.View().Rows() {
				if c.View().Flags(r).IsError() {
					errs++
				}
				if c.View().Role(r) != view.RoleRecorder || c.View().Name(r) != mapping.NameLines {
					continue
				}
				e, err := c.View().Entry(r)
				must(t, err)
				if len(e.Attributes) != 1 || e.Attributes[0].Name != x.shape {
					t.Errorf("the shapes are %v, want %s", e.Attributes, x.shape)
				}
			}
			if errs == 0 && name != "redis" {
				t.Error("there is no error")
			}
		})
	}
}

func pythonLogs(code string) func(t *testing.T, f *os.File) {
	return func(t *testing.T, f *os.File) { runToFile(t, f, "python3", "-c", fmt.Sprint("import logging\n", code)) }
}

// runToFile runs a program that may fail, and writes its errors to f.
func runToFile(t *testing.T, f *os.File, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stderr = f
	_ = cmd.Run()
}
