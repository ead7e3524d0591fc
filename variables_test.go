package entrace_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// TestControlEnvironmentWrong sets values that are not valid: each is reported, and the flight
// recorder works nevertheless.
func TestControlEnvironmentWrong(t *testing.T) {
	tests := []struct {
		env  map[string]string
		name []string // texts that the error has
	}{
		{map[string]string{"": "maybe"}, []string{envControl + "=", "maybe"}},
		{map[string]string{"_RING_BYTES": "much"}, []string{envControl + "_RING_BYTES", "much"}},
		{map[string]string{"_RING_BYTES": "5"}, []string{envControl + "_RING_BYTES", "4194304"}},
		{map[string]string{"_RING_BYTES": "-1"}, []string{envControl + "_RING_BYTES"}},
		{map[string]string{"_RING_BYTES": "99999999999999999999"}, []string{envControl + "_RING_BYTES"}},
		{map[string]string{"_PROVIDERS": "spans,lgos"}, []string{envControl + "_PROVIDERS", "lgos", "runtime.metrics"}},
		{map[string]string{"_ON_ERROR": "soon"}, []string{envControl + "_ON_ERROR", "soon"}},
		{map[string]string{"_ON_SLOW": "-1s"}, []string{envControl + "_ON_SLOW"}},
		{map[string]string{"_ON_HANG": "5"}, []string{envControl + "_ON_HANG", "a number without a unit means milliseconds", "5s?"}},
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

// TestControlCannotBe: if the folder of the flight recorder cannot be made, Setup records to an ordinary file
// instead.
func TestControlCannotBe(t *testing.T) {
	dir := clean(t)
	told := reports(t)
	must(t, os.WriteFile("taken", nil, 0o600))
	setenv(t, map[string]string{"": "ring", "_DIR": "taken", "OTEL_EXPORTER_ENTRACE_PATH": "app.et"})
	p := setup(t)
	oneSpan(t, p)
	must(t, p.Shutdown(t.Context()))
	if _, err := os.Stat(filepath.Join(dir, "app.et")); err != nil || p.Control() != nil || !strings.Contains(told(), "recording to a file instead") {
		t.Errorf("%v, and it reported %s", err, told())
	}
}

// TestCrashLabels: with a flight recorder the runtime writes the labels of goroutines into the text of a crash,
// unless GODEBUG or OTEL_EXPORTER_ENTRACE_CRASH_LABELS says otherwise.
func TestCrashLabels(t *testing.T) {
	if version.Compare(runtime.Version(), "go1.27") >= 0 {
		t.Skip("it may be the default")
	}
	for _, tt := range []struct {
		env  map[string]string
		want string
		told string
	}{
		{map[string]string{"_ON_HANG": "5s"}, "tracebacklabels=1", ""},
		{map[string]string{"_ON_HANG": "5s", "GODEBUG": "gctrace=0"}, "gctrace=0,tracebacklabels=1", ""},
		{map[string]string{"_ON_HANG": "5s", "GODEBUG": "tracebacklabels=0"}, "tracebacklabels=0", ""},
		{map[string]string{"_ON_HANG": "5s", "OTEL_EXPORTER_ENTRACE_CRASH_LABELS": "off"}, "", ""},
		{map[string]string{"_ON_HANG": "5s", "OTEL_EXPORTER_ENTRACE_CRASH_LABELS": "no"}, "", "must be on or off"},
		{map[string]string{}, "", ""},
	} {
		t.Run(fmt.Sprint(tt.env), func(t *testing.T) {
			clean(t)
			told := reports(t)
			t.Setenv("GODEBUG", "")
			setenv(t, tt.env)
			setup(t)
			expect.Equal(t, os.Getenv("GODEBUG"), tt.want, "GODEBUG")
			if !strings.Contains(told(), tt.told) || (tt.told == "") != (told() == "") {
				t.Errorf("it reported %q, want %q", told(), tt.told)
			}
		})
	}
}

// TestControlImplied: a variable for a trigger switches on the flight recorder.
func TestControlImplied(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want bool
		told string
	}{
		{map[string]string{"_ON_HANG": "5s"}, true, ""},
		{map[string]string{"_ON_ERROR": "30000"}, true, ""},
		{map[string]string{"_ON_SLOW": "1s", "_RING_BYTES": "8MiB"}, true, ""},
		{map[string]string{"_EXEC_TRACE": "1"}, true, ""},
		{map[string]string{"_EXEC_TRACE": "0"}, false, ""},
		{map[string]string{"_EXEC_TRACE": "yes"}, true, "_EXEC_TRACE=\"yes\" is ignored: must be 1 or 0"},
		{map[string]string{"_ON_ERROR": "off"}, false, ""},
		{map[string]string{"_ON_HANG": "5s", "": "off"}, false, ""},
		{map[string]string{"_ON_HANG": "5"}, true, "_ON_HANG=\"5\" is ignored: a number without a unit means milliseconds: must be at least 10ms; did you mean 5s?"},
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

// TestUnknownVariables: a variable that has no effect is reported, with the most similar known
// name.
func TestUnknownVariables(t *testing.T) {
	for name, want := range map[string]string{
		"OTEL_EXPORTER_ENTRACE_PTH":              "did you mean OTEL_EXPORTER_ENTRACE_PATH?",
		"OTEL_EXPORTER_ENTRACE_CONTROL_ON_HANGS": "did you mean OTEL_EXPORTER_ENTRACE_CONTROL_ON_HANG?",
		"OTEL_EXPORTER_ENTRACE_PICTURE":          "unknown variable OTEL_EXPORTER_ENTRACE_PICTURE",
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

// TestVariablesAreKnown checks that every variable in the documents is known.
func TestVariablesAreKnown(t *testing.T) {
	known := make(map[string]bool)
	for _, name := range entrace.Variables {
		known[name] = true
	}
	found := 0
	for _, name := range []string{"doc.go", "exporter/doc.go", "README.md"} {
		b := tracetest.ReadFile(t, name)
		for _, v := range regexp.MustCompile(`OTEL_EXPORTER_ENTRACE_[A-Z_]+`).FindAllString(string(b), -1) {
			found++
			if !known[v] {
				t.Errorf("%s names %s", name, v)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d variables are named", found)
	}
}

// TestUnknownExporter: if OTEL_TRACES_EXPORTER lists only exporters that the program has not registered, spans are
// recorded, unless the list has none.
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
		v := tracetest.View(t, f)
		spans := 0
		for id := range v.Rows() {
			if v.Role(id) == view.RoleSpan {
				spans++
			}
		}
		must(t, f.Close())
		if spans != want || strings.Contains(exporters, "otlp") != strings.Contains(told(), `unknown exporter "otlp"`) {
			t.Errorf("%s: %d spans, want %d; it told %s", exporters, spans, want, told())
		}
	}
}

// TestOddPaths: a path with an unknown placeholder or a misleading extension is reported.
func TestOddPaths(t *testing.T) {
	for path, want := range map[string]string{
		"{name}-{time}.et": "unknown placeholder {name}", "app.json": "will be an ET", "app.et": "", "app": "", "{service}.{pid}": "", "none": "",
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

var update = flag.Bool("update", false, "write the table of docs/environment.md again")

// TestEnvironmentPageIsOfTheCode: the table of docs/environment.md is made from the comments of the constants
// that name the variables. It has each variable that the code reads.
func TestEnvironmentPageIsOfTheCode(t *testing.T) {
	const name, head = "docs/environment.md", "| variable | default | meaning |\n| --- | --- | --- |\n"
	var table strings.Builder
	var got []string
	for _, source := range []string{"internal/write/setup/env.go", "options.go", "sampler.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
		must(t, err)
		values := make(map[string]string)
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.ValueSpec)
			if !ok || len(c.Values) != 1 {
				return true
			}
			var value strings.Builder
			for s := range strings.SplitSeq(types.ExprString(c.Values[0]), " + ") {
				if text, err := strconv.Unquote(s); err == nil {
					s = text
				} else {
					s = values[s]
				}
				value.WriteString(s)
			}
			values[c.Names[0].Name] = value.String()
			if row := strings.TrimSuffix(strings.Join(strings.Fields(c.Doc.Text()), " "), "."); strings.Contains(row, " | ") && strings.HasPrefix(value.String(), "OTEL_") {
				fmt.Fprintf(&table, "| `%s` | %s |\n", value.String(), row)
				got = append(got, value.String())
			}
			return true
		})
	}
	for _, name := range entrace.Variables {
		if !slices.Contains(got, name) {
			t.Errorf("%s has no comment with its default and meaning", name)
		}
	}
	options := string(tracetest.ReadFile(t, "exporter/doc.go"))
	for _, name := range got {
		if strings.HasPrefix(name, "OTEL_EXPORTER_ENTRACE_") && !slices.Contains(entrace.Variables, name) {
			t.Errorf("%s is neither in Variables of internal/write/setup nor in variables of variables.go, so Setup calls it unknown", name)
		}
		if slices.Contains(entrace.FileVariables, name) && !strings.Contains(options, name) {
			t.Errorf("the table of exporter/doc.go lacks %s", name)
		}
	}
	b := tracetest.ReadFile(t, name)
	page := string(b)
	before, rest, ok := strings.Cut(page, head)
	_, after, end := strings.Cut(rest, "\n\n")
	if !ok || !end {
		t.Fatalf("%s has no table", name)
	}
	want := before + head + table.String() + "\n" + after
	if *update {
		must(t, os.WriteFile(name, []byte(want), 0o600))
	} else if page != want {
		t.Errorf("the table of %s is another one than that of the code: run this test with -update", name)
	}
}
