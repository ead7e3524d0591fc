package entrace_test

import (
	"flag"
	"fmt"
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	setupsettings "github.com/entrace-go/entrace/internal/write/setup"
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
				t.Errorf("%s names %s, which is not in variables of variables.go", name, v)
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

var update = flag.Bool("update", false, "write the tables of variables in the documents again")

// A documented is a variable with its row in the documents: the comment of the code that names it.
type documented struct{ name, option, byDefault, meaning string }

var (
	constant = regexp.MustCompile(`(\w+) += (?:(\w+) \+ )?"(\w+)"`)                 // its name, and its value
	row      = regexp.MustCompile(`((?:\t+// .*\n)+)\t+(?:set\()?(?:"(\w+)|(\w+))`) // a comment, and a variable or its constant
	begin    = regexp.MustCompile(`(?m)^\t+//`)
	link     = regexp.MustCompile(`\[[^]]*\]\(([^)]*)\)`)
	line     = regexp.MustCompile(`(.{1,84})( |$)`)
)

// variablesIn returns the variables with a comment "option | default | meaning" in a source file.
func variablesIn(t *testing.T, source string) (list []documented) {
	t.Helper()
	text := string(tracetest.ReadFile(t, source))
	names := make(map[string]string) // by constant
	for _, m := range constant.FindAllStringSubmatch(text, -1) {
		names[m[1]] = names[m[2]] + m[3]
	}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		cells := strings.Split(strings.Join(strings.Fields(begin.ReplaceAllString(m[1], "")), " "), " | ")
		if len(cells) == 3 {
			list = append(list, documented{m[2] + names[m[3]], cells[0], cells[1], strings.TrimSuffix(cells[2], ".")})
		}
	}
	return list
}

// comment returns the row of v in the comment of a package.
func (v documented) comment() string {
	plain := func(s string) string { return strings.ReplaceAll(link.ReplaceAllString(s, "docs/$1"), "`", "") }
	return fmt.Sprintf("//\t%-40s  %-22s  %s\n", v.name, v.option, plain(v.byDefault)) +
		line.ReplaceAllString(plain(v.meaning), "//\t    $1\n")
}

// TestTablesOfVariables: the tables of variables in docs/environment.md and in the comments of this package and of
// exporter have each variable that the code reads, with the text of the comment in the code.
func TestTablesOfVariables(t *testing.T) {
	var page strings.Builder
	var names []string
	for _, of := range []struct {
		doc     string
		sources []string
	}{{"exporter/doc.go", []string{"internal/write/setup/env.go"}}, {"doc.go", []string{"options.go", "sampler.go"}}} {
		var table strings.Builder
		for _, source := range of.sources {
			for _, v := range variablesIn(t, source) {
				fmt.Fprintf(&page, "| `%s` | %s | %s |\n", v.name, v.byDefault, v.meaning)
				table.WriteString(v.comment())
				names = append(names, v.name)
			}
		}
		tracetest.Part(t, of.doc, documented{"variable", "option", "default", ""}.comment(), "//\n", table.String(), *update)
	}
	tracetest.Part(t, "docs/environment.md", "| variable | default | meaning |\n| --- | --- | --- |\n", "\n", page.String(), *update)
	for _, name := range entrace.Variables {
		if !slices.Contains(names, name) {
			t.Errorf("%s has no comment with its default, option and meaning", name)
		}
	}
}

// TestDefaultsInDocuments: a variable about the file that has its documented default has no effect.
func TestDefaultsInDocuments(t *testing.T) {
	variables := variablesIn(t, "internal/write/setup/env.go")
	clean(t)
	told := reports(t)
	unset := setupsettings.Resolve[exporter.Option]()
	for _, v := range variables {
		if strings.HasPrefix(v.byDefault, "`") {
			t.Setenv(v.name, strings.Trim(v.byDefault, "`"))
		}
	}
	given := setupsettings.Resolve[exporter.Option]()
	rec, want := &given.Recording, &unset.Recording
	expect.Equal(t, given.Path, unset.Path, "the path")
	expect.Slice(t, []int64{rec.MaxFileSize, int64(rec.MaxFileAge), int64(rec.KeepFiles), rec.KeepBytes},
		[]int64{want.MaxFileSize, int64(want.MaxFileAge), int64(want.KeepFiles), want.KeepBytes}, "the limits of files")
	if want.MaxFileSize == 0 || want.KeepBytes == 0 || told() != "" {
		t.Errorf("without variables the limits are %+v; a default is reported: %s", want, told())
	}
}
