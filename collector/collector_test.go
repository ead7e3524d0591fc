package collector_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/collector/entraceexporter"
	"github.com/entrace-go/entrace/collector/entracefilereceiver"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestReadmesNameEveryOption compares the tables of options in the READMEs with the fields of the Config
// types.
func TestReadmesNameEveryOption(t *testing.T) {
	for folder, cfg := range map[string]any{"entraceexporter": entraceexporter.Config{}, "entracefilereceiver": entracefilereceiver.Config{}} {
		b, err := os.ReadFile(filepath.Join(folder, "README.md"))
		must(t, err)
		var got, want []string
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(b), -1) {
			got = append(got, row[1])
		}
		for field := range reflect.TypeOf(cfg).Fields() {
			want = append(want, field.Tag.Get("mapstructure"))
		}
		expect.Slice(t, got, want, "the README of %s has the options", folder)
	}
}

// unstable matches modules of the Collector that have no stable version, but are imported by its stable
// modules.
var unstable = regexp.MustCompile(`^go\.opentelemetry\.io/collector/internal/`)

// TestComponentsImportStableModules: the components import only modules of version 1 of the Collector. A
// module of version 0 may change its API with each release, and users build our components with a
// release of their choice.
func TestComponentsImportStableModules(t *testing.T) {
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
			t.Errorf("the components link %s %s", path, version)
		}
	}
	if n == 0 {
		t.Error("the components link nothing of the Collector")
	}
}
