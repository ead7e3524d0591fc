package exporter_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/recorder"
)

// TestVariablesOfSetup: variables that only entrace.Setup supports are reported once.
func TestVariablesOfSetup(t *testing.T) {
	for _, test := range []struct {
		name, value string
		batch, live bool // whether New (batch) and NewSpanProcessor (live) report the variable
	}{
		{"OTEL_EXPORTER_ENTRACE_MODE", "live", true, false},
		{"OTEL_EXPORTER_ENTRACE_MODE", "batch", false, true},
		{"OTEL_EXPORTER_ENTRACE_ENDPOINT", "tcp://localhost:1", true, true},
		{"OTEL_EXPORTER_ENTRACE_CONTROL", "ring", true, true},
		{"OTEL_EXPORTER_ENTRACE_CONTROL", "off", false, false},
		{"OTEL_EXPORTER_ENTRACE_CONTROL_CONFIG", "x.yaml", true, true},
	} {
		var reported []string
		notice.SetErrorHandler(func(err error) { reported = append(reported, err.Error()) })
		t.Setenv(test.name, test.value)
		check := func(who string, want bool) {
			t.Helper()
			if (len(reported) == 1) != want || want && (!strings.Contains(reported[0], test.name) || !strings.Contains(reported[0], "entrace.Setup")) {
				t.Errorf("%s=%s: %s reports %q", test.name, test.value, who, reported)
			}
			reported = nil
		}
		path := exporter.WithPath(hosttest.Path(t, "app.et"))
		e, err := exporter.New(path)
		must(t, err)
		check("New", test.batch)
		must(t, e.Shutdown(t.Context()))
		p, err := exporter.NewSpanProcessor(path)
		must(t, err)
		check("NewSpanProcessor", test.live)
		must(t, p.Shutdown(t.Context()))
		rec := create(t, nil)
		_, err = exporter.New(exporter.WithRecorder(rec))
		must(t, err)
		check("New with a recorder", false)
		t.Setenv(test.name, "")
	}
	notice.SetErrorHandler(func(error) {})
}

// TestPathOfFolder: if the path is a folder or ends in a slash, the file has the default name in
// this folder. If the folder cannot be made, the error names the variable.
func TestPathOfFolder(t *testing.T) {
	const variable = "OTEL_EXPORTER_ENTRACE_PATH"
	for _, path := range []string{"there", "new/", "new/deeper/"} {
		t.Chdir(t.TempDir())
		must(t, os.Mkdir("there", 0o700))
		t.Setenv(variable, path)
		e, err := exporter.New()
		must(t, err)
		must(t, e.Shutdown(t.Context()))
		list, err := filepath.Glob(filepath.Join(path, "*-"+strconv.Itoa(os.Getpid())+".et"))
		must(t, err)
		expect.Len(t, list, 1, "%s=%s", variable, path)
	}
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("taken", nil, 0o600))
	t.Setenv(variable, "taken/")
	said := variable + "=" + strings.TrimSuffix(strconv.Quote(filepath.FromSlash("taken/")), `"`)
	expect.Says(t, expect.Err(exporter.New()), said, "of a folder that cannot be the error")
}

// TestOldDurability: the former durability "buffered" is taken as process, and a message says so.
func TestOldDurability(t *testing.T) {
	told := said(t)
	t.Setenv("OTEL_EXPORTER_ENTRACE_DURABILITY", "buffered")
	e, err := exporter.New(exporter.WithPath(hosttest.Path(t, "app.et")))
	must(t, err)
	if d, err := e.Recorder().Durability(); d != recorder.DurabilityProcess || err != nil {
		t.Errorf("the durability is %v, %v", d, err)
	}
	expect.Has(t, told(), "DURABILITY=\\\"buffered\\\" is ignored", "it told")
	must(t, e.Shutdown(t.Context()))
}
