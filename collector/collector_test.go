package collector_test

import (
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/collector/entraceexporter"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestReadmeNamesEveryOption compares the table of options in the exporter's README with the fields of its Config.
func TestReadmeNamesEveryOption(t *testing.T) {
	b, err := os.ReadFile("entraceexporter/README.md")
	must(t, err)
	var got, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(b), -1) {
		got = append(got, row[1])
	}
	for field := range reflect.TypeFor[entraceexporter.Config]().Fields() {
		want = append(want, field.Tag.Get("mapstructure"))
	}
	expect.Slice(t, got, want, "the README has the options")
}

// unstable matches modules of the Collector that have no stable version, but are imported by its stable
// modules.
var unstable = regexp.MustCompile(`^go\.opentelemetry\.io/collector/internal/`)

// TestExporterImportsStableModules: the exporter imports only modules of version 1 of the Collector. A
// module of version 0 may change its API with each release, and users build our exporter with a
// release of their choice.
func TestExporterImportsStableModules(t *testing.T) {
	var told strings.Builder
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./...")
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, told.String())
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(path, "go.opentelemetry.io/collector/") || unstable.MatchString(path) {
			continue
		}
		n++
		if !strings.HasPrefix(version, "v1.") {
			t.Errorf("the exporter links %s %s", path, version)
		}
	}
	if n == 0 {
		t.Error("the exporter links nothing of the Collector")
	}
}
