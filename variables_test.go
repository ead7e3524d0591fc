package entrace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// TestControlEnvironmentWrong has values that are not understood: each is told, and there is
// a flight recorder all the same.
func TestControlEnvironmentWrong(t *testing.T) {
	tests := []struct {
		env  map[string]string
		name []string // what the error names
	}{
		{map[string]string{"": "maybe"}, []string{envControl + "=", "maybe"}},
		{map[string]string{"_RING_BYTES": "much"}, []string{envControl + "_RING_BYTES", "much"}},
		{map[string]string{"_RING_BYTES": "5"}, []string{envControl + "_RING_BYTES", "4194304"}},
		{map[string]string{"_RING_BYTES": "-1"}, []string{envControl + "_RING_BYTES"}},
		{map[string]string{"_RING_BYTES": "99999999999999999999"}, []string{envControl + "_RING_BYTES"}},
		{map[string]string{"_PROVIDERS": "spans,lgos"}, []string{envControl + "_PROVIDERS", "lgos", "runtime.metrics"}},
		{map[string]string{"_ON_ERROR": "soon"}, []string{envControl + "_ON_ERROR", "soon"}},
		{map[string]string{"_ON_SLOW": "-1s"}, []string{envControl + "_ON_SLOW"}},
		{map[string]string{"_ON_HANG": "5"}, []string{envControl + "_ON_HANG", "5 is milliseconds", "5s?"}},
		{map[string]string{"_ON_HANG": "x", "_ON_SLOW": "y"}, []string{envControl + "_ON_HANG", envControl + "_ON_SLOW"}},
		{map[string]string{"_CONFIG": "nosuch.yaml"}, []string{envControl + "_CONFIG", "nosuch.yaml"}},
		{map[string]string{"_CONFIG": "broken.yaml"}, []string{envControl + "_CONFIG", "broken.yaml"}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.env), func(t *testing.T) {
			dir := clean(t)
			told := reports(t)
			must(t, os.WriteFile("broken.yaml", []byte("traces: 7"), 0o600))
			setenv(t, map[string]string{"": "ring"})
			setenv(t, tt.env)
			p := setup(t)
			for _, text := range tt.name {
				if !strings.Contains(told(), text) {
					t.Errorf("nothing names %s: %s", text, told())
				}
			}
			if p.Control() == nil || p.Recorder().Discards() {
				t.Error("there is no flight recorder")
			}
			oneSpan(t, p)
			must(t, p.Shutdown(t.Context()))
			list, err := os.ReadDir(dir)
			must(t, err)
			if len(list) != 2 { // broken.yaml and the folder
				t.Errorf("there are %v", list)
			}
		})
	}
}

// TestControlCannotBe: without a folder for a flight recorder a file is recorded.
func TestControlCannotBe(t *testing.T) {
	dir := clean(t)
	told := reports(t)
	must(t, os.WriteFile("taken", nil, 0o600))
	setenv(t, map[string]string{"": "ring", "_DIR": "taken", "OTEL_EXPORTER_ENTRACE_PATH": "app.et"})
	p := setup(t)
	oneSpan(t, p)
	must(t, p.Shutdown(t.Context()))
	if _, err := os.Stat(filepath.Join(dir, "app.et")); err != nil || p.Control() != nil || !strings.Contains(told(), "a file is recorded instead") {
		t.Errorf("%v, and it reported %s", err, told())
	}
}

// TestControlImplied: a trigger asks for the flight recorder.
func TestControlImplied(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want bool
		told string
	}{
		{map[string]string{"_ON_HANG": "5s"}, true, ""},
		{map[string]string{"_ON_ERROR": "30000"}, true, ""},
		{map[string]string{"_ON_SLOW": "1s", "_RING_BYTES": "8MiB"}, true, ""},
		{map[string]string{"_ON_ERROR": "off"}, false, ""},
		{map[string]string{"_ON_HANG": "5s", "": "off"}, false, ""},
		{map[string]string{"_ON_HANG": "5"}, true, "_ON_HANG=\"5\" is ignored: 5 is milliseconds, and it must be at least 10ms; 5s?"},
		{map[string]string{"_ON_HANG": "5s", "OTEL_EXPORTER_ENTRACE_PATH": "x.et"}, true, "OTEL_EXPORTER_ENTRACE_PATH=\"x.et\" is ignored"},
	} {
		t.Run(fmt.Sprint(tt.env), func(t *testing.T) {
			clean(t)
			told := reports(t)
			setenv(t, tt.env)
			if p := setup(t); (p.Control() != nil) != tt.want {
				t.Errorf("there is a flight recorder: %t", !tt.want)
			}
			if !strings.Contains(told(), tt.told) || (tt.told == "") != (told() == "") {
				t.Errorf("it reported %q, want %q", told(), tt.told)
			}
		})
	}
}

// TestUnknownVariables: a variable that has no effect is told, with what may be meant.
func TestUnknownVariables(t *testing.T) {
	for name, want := range map[string]string{
		"OTEL_EXPORTER_ENTRACE_PTH":              "is OTEL_EXPORTER_ENTRACE_PATH meant?",
		"OTEL_EXPORTER_ENTRACE_CONTROL_ON_HANGS": "is OTEL_EXPORTER_ENTRACE_CONTROL_ON_HANG meant?",
		"OTEL_EXPORTER_ENTRACE_PICTURE":          "there is no variable OTEL_EXPORTER_ENTRACE_PICTURE",
	} {
		clean(t)
		told := reports(t)
		t.Setenv(name, "x")
		setup(t)
		if !strings.Contains(told(), want) || strings.Count(told(), "\n") > 0 {
			t.Errorf("%s: it reported %q, want %q", name, told(), want)
		}
	}
}

// TestVariablesAreKnown has every variable that the documents name.
func TestVariablesAreKnown(t *testing.T) {
	known := make(map[string]bool)
	for _, name := range entrace.Variables {
		known[name] = true
	}
	found := 0
	for _, name := range []string{"doc.go", "exporter/doc.go", "README.md"} {
		b, err := os.ReadFile(name)
		must(t, err)
		for _, v := range regexp.MustCompile(`OTEL_EXPORTER_ENTRACE_[A-Z_]+`).FindAllString(string(b), -1) {
			if found++; !known[v] {
				t.Errorf("%s names %s", name, v)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d variables are named", found)
	}
}

// TestUnknownExporter: where nothing of OTEL_TRACES_EXPORTER is known, spans are recorded.
func TestUnknownExporter(t *testing.T) {
	for exporters, want := range map[string]int{"otlp": 1, "otlp,console": 1, "none": 0, "otlp,none": 0} {
		clean(t)
		told := reports(t)
		t.Setenv("OTEL_TRACES_EXPORTER", exporters)
		p := setup(t, exporter.WithPath("app.et"))
		oneSpan(t, p)
		must(t, p.Shutdown(t.Context()))
		f, err := format.Open("app.et", nil)
		must(t, err)
		v, err := view.New(t.Context(), []*format.File{f}, nil)
		must(t, err)
		spans := 0
		for id := range v.Rows() {
			if v.Role(id) == view.RoleSpan {
				spans++
			}
		}
		must(t, f.Close())
		if spans != want || strings.Contains(exporters, "otlp") != strings.Contains(told(), `there is no exporter "otlp"`) {
			t.Errorf("%s: %d spans, want %d; it told %s", exporters, spans, want, told())
		}
	}
}

// TestOddPaths: a path that does not mean what it seems to is told.
func TestOddPaths(t *testing.T) {
	for path, want := range map[string]string{
		"{name}-{time}.et": "{name} is no placeholder", "app.json": "will be an ET", "app.et": "", "app": "", "{service}.{pid}": "", "none": "",
	} {
		clean(t)
		told := reports(t)
		t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", path)
		must(t, setup(t).Shutdown(t.Context()))
		if got := told(); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: it told %q, want %q", path, got, want)
		}
	}
}

// TestEnvironmentPageHasAllVariables: docs/environment.md has a row for each variable that the code
// reads, and for no other one.
func TestEnvironmentPageHasAllVariables(t *testing.T) {
	page, err := os.ReadFile("docs/environment.md")
	must(t, err)
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(OTEL_EXPORTER_ENTRACE_[A-Z0-9_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		got = append(got, m[1])
	}
	want := slices.Clone(entrace.Variables)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("docs/environment.md has\n%s, the code reads\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
