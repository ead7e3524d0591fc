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
		module + "control/tracedir", module + "exporter", module + "internal/file/crashtext", module + "internal/text/env",
		module + "internal/write/notice", module + "internal/write/selfmetrics", module + "internal/write/setup", module + "internal/text",
		module + "recorder", module + "remote", module + "slogadapter",
	},
	"internal/text/env":     {module + "internal/write/notice", module + "internal/text/quantity", module + "internal/file/tracename"},
	"internal/write/notice": {},
	"internal/otel": {
		module + "format", module + "internal/text/jsontext", module + "internal/core/mapping", module + "internal/core/wire",
		module + "recorder",
	},
	"internal/testkit/metrictest": {
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/metric/noop", "go.opentelemetry.io/otel/sdk/metric", "go.opentelemetry.io/otel/sdk/metric/metricdata",
		module + "internal/write/notice",
	},
	"internal/write/selfmetrics": {
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/semconv/v1.43.0", "go.opentelemetry.io/otel/semconv/v1.43.0/otelconv", module + "internal/write/notice",
		module + "recorder",
	},
	"internal/testkit/hosttest":  {"golang.org/x/sys/unix", module + "internal/file/osfile"},
	"internal/text/quantity":     {},
	"internal/core/execbatch":    {module + "redact"},
	"internal/read/gotrace":      {"golang.org/x/exp/trace", module + "internal/core/execbatch", module + "internal/text"}, // no other package imports x/exp
	"internal/testkit/jsontest":  {},
	"internal/text/jsontext":     {},
	"internal/testkit/sizes":     {},
	"internal/testkit/crosstest": {module + "format", module + "recorder"}, // a program
	"internal/file/osfile":       {"golang.org/x/sys/unix", "golang.org/x/sys/windows"},
	"internal/file/retain":       {},
	"internal/file/crashtext":    {module + "internal/file/osfile", module + "internal/text", module + "redact"},
	"internal/file/mapfile":      {"github.com/edsrzf/mmap-go", module + "internal/file/osfile"},
	"internal/core/wire":         {},
	"internal/core/journal":      {module + "internal/file/mapfile", module + "internal/file/osfile"},
	"internal/core/record":       {module + "internal/core/execbatch", module + "internal/core/journal", module + "internal/write/notice", module + "internal/text", module + "internal/core/wire", module + "redact"},
	"redact":                     {},
	"internal/core/placer": {
		module + "internal/core/journal", module + "internal/text/jsontext", module + "internal/core/mapping", module + "internal/core/record",
		module + "internal/core/spanmap", module + "internal/text", module + "internal/core/wire",
	},
	"internal/write/ring": {
		module + "format", module + "internal/write/safecall", module + "internal/core/journal", module + "internal/file/osfile", module + "internal/core/placer",
		module + "internal/core/record", module + "internal/core/spanmap", module + "recorder", module + "redact",
	},
	"internal/core/spanmap":        {},
	"internal/testkit/conformance": {},
	"internal/testkit/querytest":   {module + "format", module + "internal/core/mapping"},
	"internal/testkit/tracetest":   {module + "internal/core/entrybytes", module + "format", module + "internal/otel", module + "recorder", module + "view"},
	"internal/read/timeline":       {module + "format", module + "internal/core/mapping", module + "internal/otel", module + "internal/text", module + "view"},
	"view": {
		module + "format", module + "internal/read/columns", module + "internal/text/jsontext", module + "internal/core/mapping",
		module + "internal/read/gotrace", module + "internal/otel", module + "internal/core/entrybytes", module + "internal/core/spanmap", module + "internal/core/wire",
	},
	"query": {
		module + "format", module + "internal/read/columns", module + "internal/read/gotrace", module + "internal/core/mapping", module + "internal/otel",
		module + "internal/text", module + "internal/core/wire", module + "view",
	},
	"internal/read/callstack": {module + "format", module + "internal/read/columns", module + "view"},
	"internal/read/interest":  {module + "format", module + "internal/core/mapping", module + "internal/text", module + "view"},
	"viewer/web/test/traces": { // a program
		"go.opentelemetry.io/otel", root, module + "control", module + "control/provider", module + "format", module + "internal/core/mapping",
		module + "internal/testkit/querytest", module + "internal/testkit/tracetest", module + "recorder",
	},
	"viewer": {
		module + "format", module + "internal/read/callstack", module + "internal/read/columns", module + "internal/read/interest", module + "internal/core/mapping",
		module + "internal/otel", module + "internal/text", module + "internal/core/wire", module + "query", module + "view",
	},
	"query/lua": {
		"github.com/yuin/gopher-lua", "github.com/yuin/gopher-lua/ast", "github.com/yuin/gopher-lua/parse", module + "format",
		module + "internal/core/entrybytes", module + "internal/core/wire", module + "view",
	},
	"format": {
		module + "internal/file/mapfile", module + "internal/core/mapping", module + "internal/file/osfile", module + "internal/core/entrybytes",
		module + "internal/file/tracename", module + "internal/core/wire",
	},
	"control": {
		"golang.org/x/sys/unix", module + "control/internal/traces", module + "control/tracedir", module + "format",
		module + "internal/file/crashtext", module + "internal/write/flightrecorder", module + "internal/write/safecall", module + "internal/core/mapping",
		module + "internal/file/osfile", module + "internal/text/quantity", module + "internal/core/record", module + "internal/file/retain",
		module + "internal/write/ring", module + "internal/text", module + "internal/file/tracename", module + "recorder", module + "redact",
	},
	"control/tracedir": {module + "control/internal/traces", module + "recorder"},
	"control/internal/traces": {
		module + "format", module + "internal/file/crashtext", module + "internal/write/deadtrace", module + "internal/core/journal",
		module + "internal/core/mapping", module + "internal/file/osfile", module + "internal/core/record", module + "internal/file/retain",
		module + "internal/write/ring", module + "internal/text", module + "internal/file/tracename", module + "recorder",
	},
	"control/httpapi": {module + "control", module + "control/internal/traces", module + "internal/text/loopback"},
	"control/filesource": {
		"go.yaml.in/yaml/v4", "go.yaml.in/yaml/v4/plugin/loaderlimits", module + "control",
		module + "internal/file/osfile", module + "internal/text/quantity", module + "internal/text",
	},
	"control/provider": {"github.com/google/pprof/profile", module + "control", module + "format", module + "internal/core/execbatch", module + "internal/text"},
	"exporter": {
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/log",
		"go.opentelemetry.io/otel/sdk/instrumentation", "go.opentelemetry.io/otel/sdk/log", "go.opentelemetry.io/otel/sdk/resource",
		"go.opentelemetry.io/otel/sdk/trace", "go.opentelemetry.io/otel/trace", module + "format", module + "internal/write/flightrecorder",
		module + "internal/core/mapping", module + "internal/write/notice", module + "internal/otel", module + "internal/write/selfmetrics",
		module + "internal/write/setup", module + "internal/core/spanmap", module + "internal/write/bothways", module + "recorder",
	},
	"internal/write/setup": {
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/sdk/resource", module + "format", module + "internal/text/env",
		module + "internal/write/flightrecorder", module + "internal/write/notice", module + "internal/otel", module + "internal/file/retain", module + "recorder", module + "redact", module + "internal/file/tracename",
	},
	"slogadapter": {
		"go.opentelemetry.io/otel/trace", module + "format", module + "internal/write/safecall", module + "internal/core/mapping",
		module + "internal/text", module + "internal/write/bothways", module + "recorder",
	},
	"convert": {
		"github.com/klauspost/compress/zstd", module + "convert/chrome", module + "convert/folded", module + "convert/gotrace",
		module + "convert/heph",
		module + "convert/internal/input", module + "convert/jaeger", module + "convert/measureme", module + "convert/otlp",
		module + "convert/parquet", module + "convert/perfetto", module + "convert/stdouttrace", module + "convert/zipkin",
		module + "format", module + "internal/file/crashtext", module + "internal/write/deadtrace", module + "internal/core/mapping",
		module + "internal/file/osfile", module + "internal/otel", module + "internal/read/secrets", module + "internal/file/tracename",
		module + "internal/core/wire", module + "recorder", module + "redact", module + "view",
	},
	"entracetest": {
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/sdk/log", "go.opentelemetry.io/otel/sdk/resource",
		"go.opentelemetry.io/otel/sdk/trace", module + "exporter", module + "format", module + "internal/read/interest",
		module + "internal/text/jsontext", module + "internal/file/mapfile", module + "internal/core/mapping", module + "query", module + "recorder",
		module + "redact", module + "slogadapter", module + "view",
	},
	"entracetest/otlp":      {module + "entracetest", module + "internal/otel/receive"},
	"internal/read/secrets": {module + "internal/core/execbatch", module + "format", module + "internal/core/mapping", module + "internal/otel", module + "redact"},
	"convert/chrome": {
		module + "format", module + "internal/text/jsontext", module + "internal/otel", module + "internal/text", module + "internal/read/timeline",
		module + "view",
	},
	"convert/gotrace": {
		module + "convert/internal/foreign", module + "convert/internal/input", module + "format", module + "internal/read/gotrace", module + "internal/otel",
		module + "view",
	},
	"convert/folded": {module + "format", module + "internal/read/callstack", module + "internal/text/jsontext", module + "internal/read/timeline", module + "view"},
	"convert/heph": {
		module + "convert/internal/input", module + "format", module + "internal/text/jsontext", module + "internal/core/mapping",
		module + "internal/otel", module + "internal/read/timeline", module + "internal/core/wire", module + "view",
	},
	"convert/measureme": {
		module + "convert/internal/input", module + "format", module + "internal/text/jsontext", module + "internal/core/mapping",
		module + "internal/read/timeline", module + "internal/core/wire", module + "view",
	},
	"convert/otlp": {
		"google.golang.org/protobuf/encoding/protowire", module + "convert/internal/input", module + "format", module + "internal/otel",
		module + "internal/otel/codec", module + "view",
	},
	"convert/internal/foreign": {
		module + "convert/internal/input", module + "convert/otlp", module + "format", module + "internal/otel",
		module + "internal/otel/codec",
	},
	"convert/jaeger":      {module + "convert/internal/foreign", module + "convert/internal/input", module + "format", module + "internal/otel"},
	"convert/stdouttrace": {module + "convert/internal/foreign", module + "format", module + "internal/otel"},
	"convert/zipkin":      {module + "convert/internal/foreign", module + "format", module + "internal/otel"},
	"convert/internal/converttest": {
		module + "convert/internal/input", module + "format", module + "internal/otel", module + "internal/testkit/tracetest",
		module + "internal/core/wire", module + "view",
	},
	"convert/parquet": {
		"github.com/klauspost/compress/snappy", "github.com/klauspost/compress/zstd", "github.com/parquet-go/parquet-go",
		"github.com/parquet-go/parquet-go/compress/zstd", "github.com/parquet-go/parquet-go/encoding/rle",
		"github.com/parquet-go/parquet-go/encoding/thrift", "github.com/parquet-go/parquet-go/format", module + "convert/internal/input",
		module + "format", module + "internal/core/mapping", module + "internal/core/wire", module + "view",
	},
	"convert/perfetto": {module + "format", module + "internal/otel", module + "internal/read/timeline", module + "view"},
	"remote": {
		module + "format", module + "internal/file/receivedfiles", module + "internal/text/loopback", module + "internal/file/osfile", module + "internal/core/wire",
		module + "recorder",
	},
	"cmd/entrace": {
		"github.com/schollz/progressbar/v3", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys/unix", "golang.org/x/term",
		module + "control/tracedir", module + "convert", module + "format", module + "internal/read/archive", module + "internal/read/callstack",
		module + "internal/write/deadtrace",
		module + "internal/read/entryjson", module + "internal/text/env", module + "internal/read/interest", module + "internal/text/jsontext",
		module + "internal/text/loopback", module + "internal/core/mapping", module + "internal/file/osfile", module + "internal/otel",
		module + "internal/text/quantity", module + "internal/otel/receive", module + "internal/otel/replay", module + "internal/read/secrets",
		module + "internal/text", module + "internal/file/tracename", module + "internal/core/wire", module + "query", module + "query/lua", module + "recorder",
		module + "redact", module + "remote", module + "view", module + "viewer",
	},
	"internal/core/entrybytes": {},
	"internal/read/columns":    {module + "format"},
	"internal/file/tracename":  {},
	"internal/core/mapping":    {},
	"internal/read/entryjson":  {module + "format", module + "internal/text/jsontext", module + "internal/core/wire"},
	"recorder": {
		module + "format", module + "internal/write/deadtrace", module + "internal/write/safecall", module + "internal/core/journal",
		module + "internal/core/mapping", module + "internal/file/osfile", module + "internal/core/placer", module + "internal/core/entrybytes",
		module + "internal/core/record", module + "internal/file/retain", module + "internal/file/tracename", module + "internal/core/wire", module + "redact",
	},
	"internal/write/deadtrace": {
		module + "format", module + "internal/file/crashtext", module + "internal/core/journal", module + "internal/file/mapfile",
		module + "internal/core/mapping", module + "internal/file/osfile", module + "internal/core/placer", module + "internal/core/entrybytes",
		module + "internal/core/record", module + "internal/file/retain", module + "internal/file/tracename", module + "internal/core/wire",
	},
	"convert/internal/input":        {module + "format", module + "internal/file/mapfile", module + "internal/file/osfile"},
	"internal/write/flightrecorder": {module + "format", module + "recorder"},
	"internal/write/safecall":       {},
	"internal/text":                 {},
	"internal/write/bothways":       {module + "internal/write/notice", module + "recorder"},
	"internal/file/receivedfiles":   {module + "internal/text/env", module + "internal/file/tracename"},
	"internal/otel/codec": {
		"google.golang.org/protobuf/encoding/protowire", module + "format", module + "internal/text/jsontext", module + "internal/otel",
		module + "internal/core/wire",
	},
	"internal/otel/receive": {
		"github.com/klauspost/compress/gzip", "golang.org/x/net/netutil", "google.golang.org/protobuf/encoding/protowire",
		module + "internal/file/receivedfiles", module + "internal/otel/ingest", module + "internal/text/loopback", module + "internal/otel",
		module + "internal/otel/codec", module + "internal/file/retain", module + "internal/core/spanmap", module + "internal/file/tracename",
		module + "recorder", module + "redact",
	},
	"internal/otel/ingest": {module + "format", module + "internal/otel", module + "recorder"},
	"internal/otel/replay": {
		"google.golang.org/protobuf/encoding/protowire", module + "convert/otlp", module + "internal/text/env", module + "internal/otel/codec",
		module + "internal/text/quantity", module + "internal/text", module + "view",
	},
	"internal/text/loopback": {},
	"internal/read/archive": {
		"github.com/minio/minio-go/v7", "github.com/minio/minio-go/v7/pkg/credentials", module + "convert/parquet", module + "format",
		module + "internal/write/deadtrace", module + "internal/file/osfile", module + "internal/file/tracename", module + "view",
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
