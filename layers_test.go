package entrace_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root   = "github.com/entrace-go/entrace"
	module = root + "/"
)

// layers says which packages each may import besides the standard library: a
// name ending in a slash stands for all that begins with it. What is not listed
// must not exist. Do not widen a line to fix a build: imports point down only,
// and what a service links stays light.
var layers = map[string][]string{
	root: {
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/", module + "internal/", module + "format", module + "exporter",
		module + "slogadapter", module + "remote", module + "control", module + "control/filesource", module + "control/provider",
	},
	"internal/env":           {module + "internal/quantity", module + "internal/notice"},
	"internal/notice":        {},
	"internal/otel":          {module + "internal/jsontext", module + "internal/source", module + "internal/placer", module + "internal/wire", module + "format"},
	"internal/metrictest":    {"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/", module + "internal/notice"},
	"internal/selfmetrics":   {"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/", module + "format", module + "internal/env", module + "internal/notice"},
	"internal/alonetest":     {"golang.org/x/sys/"},
	"internal/quantity":      {},
	"internal/jsontest":      {},
	"internal/jsontext":      {},
	"internal/scratch":       {},
	"internal/sizes":         {},
	"internal/ports":         {module + "format"}, // a program
	"internal/inside":        {module + "internal/journal", module + "internal/record", module + "internal/placer"},
	"internal/source":        {},
	"internal/osfile":        {"golang.org/x/sys/"},
	"internal/retain":        {},
	"internal/crashtext":     {module + "internal/osfile"},
	"internal/mapfile":       {"github.com/edsrzf/mmap-go", module + "internal/"},
	"internal/wire":          {},
	"internal/journal":       {"github.com/edsrzf/mmap-go", "golang.org/x/sys/", module + "internal/mapfile", module + "internal/osfile"},
	"internal/record":        {module + "internal/journal", module + "internal/wire"},
	"internal/placer":        {module + "internal/journal", module + "internal/record", module + "internal/wire", module + "internal/spanmap", module + "internal/jsontext"},
	"internal/ring":          {module + "format", module + "internal/inside", module + "internal/journal", module + "internal/placer", module + "internal/record", module + "internal/spanmap", module + "internal/osfile"},
	"internal/spanmap":       {},
	"internal/conformance":   {},
	"internal/querytest":     {module + "format"},
	"internal/telemetry":     {module + "internal/", module + "format", module + "view"},
	"view":                   {module + "internal/", module + "format"},
	"query":                  {module + "internal/", module + "format", module + "view"},
	"viewer/web/test/traces": {"go.opentelemetry.io/otel", root, module + "internal/", module + "format", module + "control", module + "control/provider"}, // a program
	"viewer":                 {module + "internal/", module + "format", module + "view", module + "query"},
	"query/lua":              {"github.com/yuin/gopher-lua", "github.com/yuin/gopher-lua/", module + "internal/", module + "format"},
	"format":                 {"golang.org/x/sys/", "github.com/edsrzf/mmap-go", module + "internal/"},
	"control":                {"golang.org/x/sys/", module + "internal/", module + "format"},
	"control/filesource":     {"go.yaml.in/yaml/v4", "go.yaml.in/yaml/v4/", "github.com/fsnotify/fsnotify", module + "internal/", module + "control"},
	"control/provider":       {"github.com/google/pprof/profile", module + "internal/", module + "format", module + "control"},
	"exporter":               {"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/", module + "internal/", module + "format"},
	"slogadapter":            {"go.opentelemetry.io/otel/trace", module + "internal/", module + "format"},
	"convert":                {module + "internal/", module + "format", module + "view", module + "convert/", "github.com/klauspost/compress/zstd"},
	"convert/chrome":         {module + "internal/", module + "format", module + "view"},
	"convert/folded":         {module + "internal/", module + "format", module + "view"},
	"convert/heph":           {module + "internal/", module + "format", module + "view"},
	"convert/measureme":      {module + "internal/", module + "format", module + "view"},
	"convert/otlp":           {module + "internal/", module + "format", module + "view", "google.golang.org/protobuf/encoding/protowire"},
	"convert/parquet":        {module + "internal/", module + "format", module + "view", "github.com/parquet-go/parquet-go", "github.com/parquet-go/parquet-go/"},
	"convert/perfetto":       {module + "internal/", module + "format", module + "view"},
	"remote":                 {module + "internal/", module + "format"},
	"cmd/entrace": {
		module + "internal/", module + "format", module + "view", module + "query", module + "query/", module + "convert", module + "convert/", module + "remote", module + "control", module + "viewer",
		"github.com/spf13/cobra", "github.com/schollz/progressbar/v3", "golang.org/x/term",
	},
}

// goCommand runs the go command and returns its output. A machine that is given the built
// tests alone, such as wine, has none.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	var told strings.Builder
	cmd := exec.Command("go", args...)
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, told.String())
	}
	return string(out)
}

func TestLayers(t *testing.T) {
	out := goCommand(t, "list", "-json=ImportPath,Imports", "./...")
	seen := make(map[string]bool)
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, known := layers[name]
		if !known && len(p.Imports) > 0 {
			t.Errorf("package %s has no layer", name)
			continue
		}
		seen[name] = true
		for _, imported := range p.Imports {
			if !may(allowed, imported) {
				t.Errorf("%s must not import %s", name, imported)
			}
		}
	}
	for name := range layers {
		if !seen[name] {
			t.Errorf("there is no package %s", name)
		}
	}
}

// TestReadmeSaysWhatIsLinked compares the README's table of linked modules with the
// transitive imports of the packages.
func TestReadmeSaysWhatIsLinked(t *testing.T) {
	readme, err := os.ReadFile("docs/links.md")
	if err != nil {
		t.Fatal(err)
	}
	said := make(map[string]bool) // each row has those above it
	name := regexp.MustCompile("`([^`]+)`")
	for _, p := range []string{"format", "slogadapter", "exporter", "entrace"} {
		_, row, _ := strings.Cut(string(readme), "\n| `"+p+"` | ")
		row, _, _ = strings.Cut(row, "\n")
		for _, m := range name.FindAllStringSubmatch(row, -1) {
			said[m[1]] = true
		}
		path := "./" + p
		if p == "entrace" {
			path = "."
		}
		linked := linkedBy(t, path)
		for m := range linked {
			if !said[m] {
				t.Errorf("docs/links.md does not say that %s links %s", p, m)
			}
		}
		for m := range said {
			if !linked[m] {
				t.Errorf("README says that %s links %s", p, m)
			}
		}
	}
}

// linkedBy returns the modules of others that a package links.
func linkedBy(t *testing.T, path string) map[string]bool {
	t.Helper()
	linked := make(map[string]bool)
	for m := range strings.FieldsSeq(goCommand(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", path)) {
		if m != root {
			linked[m] = true
		}
	}
	return linked
}

// commandLinks are the modules that the command links.
var commandLinks = []string{
	"github.com/andybalholm/brotli",
	"github.com/edsrzf/mmap-go",
	"github.com/google/uuid",
	"github.com/klauspost/compress",
	"github.com/mitchellh/colorstring",
	"github.com/parquet-go/bitpack",
	"github.com/parquet-go/jsonlite",
	"github.com/parquet-go/parquet-go",
	"github.com/pierrec/lz4/v4",
	"github.com/rivo/uniseg",
	"github.com/schollz/progressbar/v3",
	"github.com/spf13/cobra",
	"github.com/spf13/pflag",
	"github.com/twpayne/go-geom",
	"github.com/yuin/gopher-lua",
	"golang.org/x/sys",
	"golang.org/x/term",
	"google.golang.org/protobuf",
}

func TestCommandLinks(t *testing.T) {
	got := slices.Sorted(maps.Keys(linkedBy(t, "./cmd/entrace")))
	if !slices.Equal(got, commandLinks) {
		t.Errorf("the command links %q", got)
	}
}

// TestRecordingServesNothing: what a service needs to write its own file has no HTTP.
func TestRecordingServesNothing(t *testing.T) {
	if strings.Contains("\n"+goCommand(t, "list", "-deps", "./format", "./slogadapter"), "\nnet/http\n") {
		t.Error("format or slogadapter links net/http")
	}
}

func may(allowed []string, imported string) bool {
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	for _, a := range allowed {
		if imported == a || strings.HasSuffix(a, "/") && strings.HasPrefix(imported, a) {
			return true
		}
	}
	return false
}
