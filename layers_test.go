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

// layers lists, for each package, all packages that it may import besides the standard library. A
// package that is not listed must not exist. Do not add an import to a line to fix a build:
// packages import only lower layers, and a service must not link heavy packages.
var layers = map[string][]string{
	root: {
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/baggage", "go.opentelemetry.io/otel/propagation",
		"go.opentelemetry.io/otel/sdk/log", "go.opentelemetry.io/otel/sdk/resource", "go.opentelemetry.io/otel/sdk/trace",
		"go.opentelemetry.io/otel/semconv/v1.43.0", "go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/trace/embedded",
		"go.opentelemetry.io/otel/trace/noop", module + "control", module + "control/filesource", module + "control/provider",
		module + "control/tracedir", module + "exporter", module + "internal/crashtext", module + "internal/env",
		module + "internal/notice", module + "internal/selfmetrics", module + "internal/setup", module + "internal/text",
		module + "recorder", module + "remote", module + "slogadapter",
	},
	"internal/env":    {module + "internal/notice", module + "internal/quantity", module + "internal/tracename"},
	"internal/notice": {},
	"internal/otel": {
		module + "format", module + "internal/jsontext", module + "internal/mapping", module + "internal/source", module + "internal/wire",
		module + "recorder",
	},
	"internal/metrictest": {
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/metric/noop", "go.opentelemetry.io/otel/sdk/metric", "go.opentelemetry.io/otel/sdk/metric/metricdata",
		module + "internal/notice",
	},
	"internal/selfmetrics": {
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/semconv/v1.43.0", "go.opentelemetry.io/otel/semconv/v1.43.0/otelconv", module + "internal/notice",
		module + "recorder",
	},
	"internal/hosttest":  {"golang.org/x/sys/unix", module + "internal/osfile"},
	"internal/quantity":  {},
	"internal/execbatch": {module + "redact"},
	"internal/gotrace":   {"golang.org/x/exp/trace", module + "internal/execbatch", module + "internal/text"}, // no other package imports x/exp
	"internal/jsontest":  {},
	"internal/jsontext":  {},
	"internal/scratch":   {},
	"internal/sizes":     {},
	"internal/ports":     {module + "format", module + "recorder"}, // a program
	"internal/source":    {},
	"internal/osfile":    {"golang.org/x/sys/unix", "golang.org/x/sys/windows"},
	"internal/retain":    {},
	"internal/crashtext": {module + "internal/osfile", module + "internal/text", module + "redact"},
	"internal/mapfile":   {"github.com/edsrzf/mmap-go", module + "internal/osfile"},
	"internal/wire":      {},
	"internal/journal":   {module + "internal/mapfile", module + "internal/osfile"},
	"internal/record":    {module + "internal/execbatch", module + "internal/journal", module + "internal/notice", module + "internal/text", module + "internal/wire", module + "redact"},
	"redact":             {},
	"internal/placer": {
		module + "internal/journal", module + "internal/jsontext", module + "internal/mapping", module + "internal/record",
		module + "internal/spanmap", module + "internal/text", module + "internal/wire",
	},
	"internal/ring": {
		module + "format", module + "internal/guard", module + "internal/journal", module + "internal/osfile", module + "internal/placer",
		module + "internal/record", module + "internal/spanmap", module + "recorder", module + "redact",
	},
	"internal/spanmap":     {},
	"internal/conformance": {},
	"internal/querytest":   {module + "format", module + "internal/mapping"},
	"internal/tracetest":   {module + "internal/raw", module + "format", module + "internal/otel", module + "recorder", module + "view"},
	"internal/timeline":    {module + "format", module + "internal/mapping", module + "internal/otel", module + "internal/text", module + "view"},
	"view": {
		module + "format", module + "internal/columns", module + "internal/jsontext", module + "internal/mapping",
		module + "internal/gotrace", module + "internal/otel", module + "internal/raw", module + "internal/spanmap", module + "internal/wire",
	},
	"query": {
		module + "format", module + "internal/columns", module + "internal/gotrace", module + "internal/mapping", module + "internal/otel",
		module + "internal/text", module + "internal/wire", module + "view",
	},
	"internal/callstack": {module + "format", module + "internal/columns", module + "view"},
	"internal/interest":  {module + "format", module + "internal/mapping", module + "internal/text", module + "view"},
	"viewer/web/test/traces": { // a program
		"go.opentelemetry.io/otel", root, module + "control", module + "control/provider", module + "format", module + "internal/mapping",
		module + "internal/querytest", module + "internal/tracetest", module + "recorder",
	},
	"viewer": {
		module + "format", module + "internal/callstack", module + "internal/columns", module + "internal/interest", module + "internal/mapping",
		module + "internal/otel", module + "internal/text", module + "internal/wire", module + "query", module + "view",
	},
	"query/lua": {
		"github.com/yuin/gopher-lua", "github.com/yuin/gopher-lua/ast", "github.com/yuin/gopher-lua/parse", module + "format",
		module + "internal/raw", module + "internal/wire", module + "view",
	},
	"format": {
		module + "internal/mapfile", module + "internal/mapping", module + "internal/osfile", module + "internal/raw",
		module + "internal/tracename", module + "internal/wire",
	},
	"control": {
		"golang.org/x/sys/unix", module + "control/internal/traces", module + "control/tracedir", module + "format",
		module + "internal/crashtext", module + "internal/flight", module + "internal/guard", module + "internal/mapping",
		module + "internal/osfile", module + "internal/quantity", module + "internal/record", module + "internal/retain",
		module + "internal/ring", module + "internal/text", module + "internal/tracename", module + "recorder", module + "redact",
	},
	"control/tracedir": {module + "control/internal/traces", module + "recorder"},
	"control/internal/traces": {
		module + "format", module + "internal/crashtext", module + "internal/deadtrace", module + "internal/journal",
		module + "internal/mapping", module + "internal/osfile", module + "internal/record", module + "internal/retain",
		module + "internal/ring", module + "internal/text", module + "internal/tracename", module + "recorder",
	},
	"control/httpapi": {module + "control", module + "control/internal/traces", module + "internal/loopback"},
	"control/filesource": {
		"go.yaml.in/yaml/v4", "go.yaml.in/yaml/v4/plugin/loaderlimits", module + "control",
		module + "internal/osfile", module + "internal/quantity", module + "internal/text",
	},
	"control/provider": {"github.com/google/pprof/profile", module + "control", module + "format", module + "internal/execbatch", module + "internal/text"},
	"exporter": {
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/log",
		"go.opentelemetry.io/otel/sdk/instrumentation", "go.opentelemetry.io/otel/sdk/log", "go.opentelemetry.io/otel/sdk/resource",
		"go.opentelemetry.io/otel/sdk/trace", "go.opentelemetry.io/otel/trace", module + "format", module + "internal/flight",
		module + "internal/mapping", module + "internal/notice", module + "internal/otel", module + "internal/selfmetrics",
		module + "internal/setup", module + "internal/spanmap", module + "internal/twice", module + "recorder",
	},
	"internal/setup": {
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/sdk/resource", module + "format", module + "internal/env",
		module + "internal/flight", module + "internal/notice", module + "internal/otel", module + "internal/retain", module + "recorder", module + "redact", module + "internal/tracename",
	},
	"slogadapter": {
		"go.opentelemetry.io/otel/trace", module + "format", module + "internal/guard", module + "internal/mapping",
		module + "internal/source", module + "internal/text", module + "internal/twice", module + "recorder",
	},
	"convert": {
		"github.com/klauspost/compress/zstd", module + "convert/chrome", module + "convert/folded", module + "convert/gotrace",
		module + "convert/heph",
		module + "convert/internal/input", module + "convert/jaeger", module + "convert/measureme", module + "convert/otlp",
		module + "convert/parquet", module + "convert/perfetto", module + "convert/stdouttrace", module + "convert/zipkin",
		module + "format", module + "internal/crashtext", module + "internal/deadtrace", module + "internal/mapping",
		module + "internal/osfile", module + "internal/otel", module + "internal/secrets", module + "internal/tracename",
		module + "internal/wire", module + "recorder", module + "redact", module + "view",
	},
	"entracetest": {
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/sdk/log", "go.opentelemetry.io/otel/sdk/resource",
		"go.opentelemetry.io/otel/sdk/trace", module + "exporter", module + "format", module + "internal/interest",
		module + "internal/jsontext", module + "internal/mapfile", module + "internal/mapping", module + "query", module + "recorder",
		module + "redact", module + "slogadapter", module + "view",
	},
	"entracetest/otlp": {module + "entracetest", module + "internal/receive"},
	"internal/secrets": {module + "internal/execbatch", module + "format", module + "internal/mapping", module + "internal/otel", module + "redact"},
	"convert/chrome": {
		module + "format", module + "internal/jsontext", module + "internal/otel", module + "internal/text", module + "internal/timeline",
		module + "view",
	},
	"convert/gotrace": {
		module + "convert/internal/foreign", module + "convert/internal/input", module + "format", module + "internal/gotrace", module + "internal/otel",
		module + "view",
	},
	"convert/folded": {module + "format", module + "internal/callstack", module + "internal/jsontext", module + "internal/timeline", module + "view"},
	"convert/heph": {
		module + "convert/internal/input", module + "format", module + "internal/jsontext", module + "internal/mapping",
		module + "internal/otel", module + "internal/timeline", module + "internal/wire", module + "view",
	},
	"convert/measureme": {
		module + "convert/internal/input", module + "format", module + "internal/jsontext", module + "internal/mapping",
		module + "internal/timeline", module + "internal/wire", module + "view",
	},
	"convert/otlp": {
		"google.golang.org/protobuf/encoding/protowire", module + "convert/internal/input", module + "format", module + "internal/otel",
		module + "internal/otlp/codec", module + "view",
	},
	"convert/internal/foreign": {
		module + "convert/internal/input", module + "convert/otlp", module + "format", module + "internal/otel",
		module + "internal/otlp/codec",
	},
	"convert/jaeger":      {module + "convert/internal/foreign", module + "convert/internal/input", module + "format", module + "internal/otel"},
	"convert/stdouttrace": {module + "convert/internal/foreign", module + "format", module + "internal/otel"},
	"convert/zipkin":      {module + "convert/internal/foreign", module + "format", module + "internal/otel"},
	"convert/internal/converttest": {
		module + "convert/internal/input", module + "format", module + "internal/otel", module + "internal/tracetest",
		module + "internal/wire", module + "view",
	},
	"convert/parquet": {
		"github.com/klauspost/compress/snappy", "github.com/klauspost/compress/zstd", "github.com/parquet-go/parquet-go",
		"github.com/parquet-go/parquet-go/compress/zstd", "github.com/parquet-go/parquet-go/encoding/rle",
		"github.com/parquet-go/parquet-go/encoding/thrift", "github.com/parquet-go/parquet-go/format", module + "convert/internal/input",
		module + "format", module + "internal/mapping", module + "internal/wire", module + "view",
	},
	"convert/perfetto": {module + "format", module + "internal/otel", module + "internal/timeline", module + "view"},
	"remote": {
		module + "format", module + "internal/inbox", module + "internal/loopback", module + "internal/osfile", module + "internal/wire",
		module + "recorder",
	},
	"cmd/entrace": {
		"github.com/schollz/progressbar/v3", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys/unix", "golang.org/x/term",
		module + "control/tracedir", module + "convert", module + "format", module + "internal/archive", module + "internal/callstack",
		module + "internal/deadtrace",
		module + "internal/entryjson", module + "internal/env", module + "internal/interest", module + "internal/jsontext",
		module + "internal/loopback", module + "internal/mapping", module + "internal/osfile", module + "internal/otel",
		module + "internal/quantity", module + "internal/receive", module + "internal/replay", module + "internal/secrets",
		module + "internal/text", module + "internal/tracename", module + "internal/wire", module + "query", module + "query/lua", module + "recorder",
		module + "redact", module + "remote", module + "view", module + "viewer",
	},
	"internal/raw":       {},
	"internal/columns":   {module + "format"},
	"internal/tracename": {},
	"internal/mapping":   {},
	"internal/entryjson": {module + "format", module + "internal/jsontext", module + "internal/wire"},
	"recorder": {
		module + "format", module + "internal/deadtrace", module + "internal/guard", module + "internal/journal",
		module + "internal/mapping", module + "internal/osfile", module + "internal/placer", module + "internal/raw",
		module + "internal/record", module + "internal/retain", module + "internal/tracename", module + "internal/wire", module + "redact",
	},
	"internal/deadtrace": {
		module + "format", module + "internal/crashtext", module + "internal/journal", module + "internal/mapfile",
		module + "internal/mapping", module + "internal/osfile", module + "internal/placer", module + "internal/raw",
		module + "internal/record", module + "internal/retain", module + "internal/tracename", module + "internal/wire",
	},
	"convert/internal/input": {module + "format", module + "internal/mapfile", module + "internal/osfile"},
	"internal/flight":        {module + "format", module + "recorder"},
	"internal/guard":         {},
	"internal/text":          {},
	"internal/twice":         {module + "internal/notice", module + "recorder"},
	"internal/inbox":         {module + "internal/env", module + "internal/tracename"},
	"internal/otlp/codec": {
		"google.golang.org/protobuf/encoding/protowire", module + "format", module + "internal/jsontext", module + "internal/otel",
		module + "internal/scratch", module + "internal/wire",
	},
	"internal/receive": {
		"github.com/klauspost/compress/gzip", "golang.org/x/net/netutil", "google.golang.org/protobuf/encoding/protowire",
		module + "internal/inbox", module + "internal/intake", module + "internal/loopback", module + "internal/otel",
		module + "internal/otlp/codec", module + "internal/retain", module + "internal/spanmap", module + "internal/tracename",
		module + "recorder", module + "redact",
	},
	"internal/intake": {module + "format", module + "internal/otel", module + "recorder"},
	"internal/replay": {
		"google.golang.org/protobuf/encoding/protowire", module + "convert/otlp", module + "internal/env", module + "internal/otlp/codec",
		module + "internal/quantity", module + "internal/text", module + "view",
	},
	"internal/loopback": {},
	"internal/archive": {
		"github.com/minio/minio-go/v7", "github.com/minio/minio-go/v7/pkg/credentials", module + "convert/parquet", module + "format",
		module + "internal/deadtrace", module + "internal/osfile", module + "internal/tracename", module + "view",
	},
}

// goCommand runs the go command and returns its output. Machines that get only the built tests,
// such as wine, do not have the go command.
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
	must(t, err)
	said := make(map[string]bool) // each row includes the rows above it
	name := regexp.MustCompile("`([^`]+)`")
	for _, p := range []string{"recorder", "slogadapter", "exporter", "entrace"} {
		_, row, _ := strings.Cut(string(readme), "`"+p+"` | ")
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

// linkedBy returns the foreign modules that a package links.
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
	"github.com/cespare/xxhash/v2",
	"github.com/dustin/go-humanize",
	"github.com/edsrzf/mmap-go",
	"github.com/google/uuid",
	"github.com/klauspost/compress",
	"github.com/klauspost/cpuid/v2",
	"github.com/klauspost/crc32",
	"github.com/minio/crc64nvme",
	"github.com/minio/md5-simd",
	"github.com/minio/minio-go/v7",
	"github.com/mitchellh/colorstring",
	"github.com/parquet-go/bitpack",
	"github.com/parquet-go/jsonlite",
	"github.com/parquet-go/parquet-go",
	"github.com/philhofer/fwd",
	"github.com/pierrec/lz4/v4",
	"github.com/rivo/uniseg",
	"github.com/rs/xid",
	"github.com/schollz/progressbar/v3",
	"github.com/spf13/cobra",
	"github.com/spf13/pflag",
	"github.com/tinylib/msgp",
	"github.com/twpayne/go-geom",
	"github.com/yuin/gopher-lua",
	"github.com/zeebo/xxh3",
	"go.yaml.in/yaml/v3",
	"golang.org/x/crypto",
	"golang.org/x/exp",
	"golang.org/x/net",
	"golang.org/x/sys",
	"golang.org/x/term",
	"golang.org/x/text",
	"google.golang.org/protobuf",
	"gopkg.in/ini.v1",
}

func TestCommandLinks(t *testing.T) {
	got := slices.Sorted(maps.Keys(linkedBy(t, "./cmd/entrace")))
	if !slices.Equal(got, commandLinks) {
		t.Errorf("the command links %q", got)
	}
}

// TestRecordingServesNothing: the packages that a service needs to write its own file do not
// import net/http.
func TestRecordingServesNothing(t *testing.T) {
	if strings.Contains("\n"+goCommand(t, "list", "-deps", "./recorder", "./slogadapter"), "\nnet/http\n") {
		t.Error("recorder or slogadapter links net/http")
	}
}

// TestServicesLinkNoCollector: a service does not link the Collector's data model, gRPC or S3.
func TestServicesLinkNoCollector(t *testing.T) {
	for _, p := range []string{".", "./recorder", "./exporter", "./slogadapter", "./control/...", "./remote", "./view", "./query", "./convert", "./entracetest/..."} {
		for m := range linkedBy(t, p) {
			if strings.HasPrefix(m, "go.opentelemetry.io/collector") || m == "google.golang.org/grpc" || m == "github.com/minio/minio-go/v7" {
				t.Errorf("%s links %s", p, m)
			}
		}
	}
}

func may(allowed []string, imported string) bool {
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.Contains(allowed, imported)
}
