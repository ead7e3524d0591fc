package entrace_test

import (
	"cmp"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

const (
	root   = "github.com/entrace-go/entrace"
	module = root + "/"
)

// layers has a row for each package, and one for each folder of internal. The first name of a row is the
// package; the others are the packages that it may import, besides the standard library. A name that ends in a
// slash stands for all packages below it. A package without a row is an error. Do not add an import to a row
// to fix a build: packages import only lower layers, and a service must not link heavy packages.
const layers = `
internal/text/
redact
internal/file/                github.com/edsrzf/mmap-go golang.org/x/sys/ internal/text/ redact
internal/core/                internal/file/ internal/text/ redact
format                        internal/core/ internal/file/
recorder                      format internal/core/ internal/file/ internal/write/ redact
internal/otel                 format internal/core/ internal/text/
internal/write/               format go.opentelemetry.io/ internal/core/ internal/file/ internal/otel internal/text/
                              recorder redact
slogadapter                   format go.opentelemetry.io/ internal/core/ internal/text/ internal/write/ recorder
exporter                      format go.opentelemetry.io/ internal/core/ internal/otel internal/text/ internal/write/
                              recorder
remote                        format internal/core/ internal/file/ internal/otel/ recorder
control                       control/internal/traces control/tracedir format golang.org/x/sys/ internal/core/
                              internal/file/ internal/text/ internal/write/ recorder redact
control/internal/traces       format internal/core/ internal/file/ internal/text/ internal/write/ recorder
control/tracedir              control/internal/traces recorder
control/filesource            control go.yaml.in/yaml/ internal/file/ internal/text/
control/httpapi               control control/internal/traces internal/otel/
control/provider              control format github.com/google/pprof/profile internal/core/ internal/text/
.                             control control/filesource control/provider control/tracedir exporter
                              go.opentelemetry.io/ internal/file/ internal/text/ internal/write/ recorder remote
                              slogadapter
view                          format internal/core/ internal/otel internal/read/ internal/text/
internal/read/                format internal/core/ internal/otel internal/text/ redact view
internal/read/gotrace         golang.org/x/exp/trace internal/core/ internal/text/
query                         format internal/core/ internal/otel internal/read/ internal/text/ view
internal/analyze              format internal/core/ internal/read/ internal/text internal/text/quantity query view
viewer                        format internal/analyze internal/core/ internal/otel internal/read/ internal/text/ query
                              view
internal/read/input        format internal/file/
convert/otlp                  internal/read/input format google.golang.org/protobuf/encoding/protowire
                              internal/core/ internal/otel internal/otel/ view
convert/internal/foreign      internal/read/input format internal/core/ internal/otel internal/otel/
convert/jaeger                convert/internal/foreign internal/read/input format internal/otel
convert/stdouttrace           convert/internal/foreign format internal/otel
convert/zipkin                convert/internal/foreign format internal/otel
internal/read/loglines        internal/read/input format internal/core/ internal/otel
convert/gotrace               convert/internal/foreign internal/read/input format internal/otel internal/read/ view
convert/heph                  internal/read/input format internal/core/ internal/otel internal/text/
convert/measureme             internal/read/input format internal/core/
convert/parquet               format github.com/parquet-go/ internal/core/ view
convert/chrome                internal/otel internal/read/ internal/text/ view
convert/folded                internal/read/ internal/text/ view
convert                       convert/chrome convert/folded convert/gotrace convert/heph internal/read/input
                              convert/jaeger internal/read/loglines convert/measureme convert/otlp convert/parquet
                              convert/stdouttrace convert/zipkin format github.com/klauspost/compress/
                              golang.org/x/text/encoding/unicode internal/core/ internal/file/ internal/otel internal/read/ internal/write/ recorder redact view
internal/read/tail            format internal/core/ internal/file/ internal/write/ view
internal/read/archive         convert/parquet format github.com/minio/ internal/file/ internal/write/ view
internal/otel/                convert/otlp format github.com/klauspost/compress/
                              google.golang.org/protobuf/encoding/protowire internal/core/ internal/file/ internal/otel
                              internal/text/ internal/write/inside recorder redact view
cmd/entrace                   control/tracedir convert internal/read/loglines format github.com/gdamore/tcell/
                              github.com/modelcontextprotocol/go-sdk/ github.com/rivo/uniseg
                              github.com/schollz/progressbar/v3 github.com/spf13/
                              golang.org/x/sys/ golang.org/x/term internal/analyze internal/core/ internal/file/
                              internal/otel internal/otel/ internal/read/ internal/text/ internal/write/ query recorder
                              redact remote skills view viewer
skills
entracetest                   exporter format go.opentelemetry.io/ internal/core/ internal/file/ internal/read/
                              query recorder redact slogadapter view
entracetest/otlp              entracetest internal/otel/
internal/testkit/             format golang.org/x/sys/ internal/core/ internal/file/ internal/otel query recorder view
internal/testkit/converttest  internal/read/input format internal/core/ internal/otel internal/testkit/ view
viewer/web/test/traces        . control control/provider format go.opentelemetry.io/ internal/core/ internal/testkit/
                              recorder
`

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
	rows := make(map[string]map[string]bool) // row, allowed import → whether a package of the row imports it
	var row map[string]bool
	for line := range strings.Lines(layers[1:]) {
		names := strings.Fields(line)
		if line[0] != ' ' {
			row = make(map[string]bool)
			rows[names[0]], names = row, names[1:]
		}
		for _, name := range names {
			row[name] = false
		}
	}
	short := func(path string) string { return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(path, root), "/"), ".") }
	for line := range strings.Lines(goCommand(t, "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...")) {
		paths := strings.Fields(line)
		name := short(paths[0])
		in, known := covering(rows, name)
		if !known && len(paths) > 1 {
			t.Errorf("package %s has no layer", name)
			continue
		}
		for _, path := range paths[1:] {
			if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
				continue // the standard library
			}
			path = short(path)
			if strings.HasSuffix(in, "/") && strings.HasPrefix(path, in) {
				continue // packages of one row may import each other
			}
			what, may := covering(rows[in], path)
			if !may {
				t.Errorf("%s must not import %s", name, path)
				continue
			}
			rows[in][what] = true
		}
	}
	for name, row := range rows {
		for what, does := range row {
			if !does {
				t.Errorf("no package in the row of %s imports %s", name, what)
			}
		}
	}
}

// covering returns the key of the map that stands for path: the path itself, or else the longest key that ends
// in a slash and is a folder above it.
func covering[T any](of map[string]T, path string) (key string, ok bool) {
	_, ok = of[path]
	if ok {
		return path, true
	}
	for key = path + "/"; key != ""; key = key[:strings.LastIndexByte(key[:len(key)-1], '/')+1] {
		_, ok = of[key]
		if ok {
			return key, true
		}
	}
	return "", false
}

// TestReadmeSaysWhatIsLinked compares the README's table of linked modules with the
// transitive imports of the packages.
func TestReadmeSaysWhatIsLinked(t *testing.T) {
	readme := tracetest.ReadFile(t, "docs/links.md")
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
	"github.com/gdamore/encoding",
	"github.com/gdamore/tcell/v2",
	"github.com/google/jsonschema-go",
	"github.com/google/uuid",
	"github.com/klauspost/compress",
	"github.com/klauspost/cpuid/v2",
	"github.com/klauspost/crc32",
	"github.com/lucasb-eyer/go-colorful",
	"github.com/minio/crc64nvme",
	"github.com/minio/md5-simd",
	"github.com/minio/minio-go/v7",
	"github.com/mitchellh/colorstring",
	"github.com/modelcontextprotocol/go-sdk",
	"github.com/parquet-go/bitpack",
	"github.com/parquet-go/jsonlite",
	"github.com/parquet-go/parquet-go",
	"github.com/philhofer/fwd",
	"github.com/pierrec/lz4/v4",
	"github.com/rivo/uniseg",
	"github.com/rs/xid",
	"github.com/schollz/progressbar/v3",
	"github.com/segmentio/asm",
	"github.com/segmentio/encoding",
	"github.com/spf13/cobra",
	"github.com/spf13/pflag",
	"github.com/tinylib/msgp",
	"github.com/twpayne/go-geom",
	"github.com/yosida95/uritemplate/v3",
	"github.com/zeebo/xxh3",
	"go.yaml.in/yaml/v3",
	"golang.org/x/crypto",
	"golang.org/x/exp",
	"golang.org/x/net",
	"golang.org/x/oauth2",
	"golang.org/x/sync",
	"golang.org/x/sys",
	"golang.org/x/term",
	"golang.org/x/text",
	"golang.org/x/time",
	"google.golang.org/protobuf",
	"gopkg.in/ini.v1",
}

func TestCommandLinks(t *testing.T) {
	got := slices.Sorted(maps.Keys(linkedBy(t, "./cmd/entrace")))
	expect.Slice(t, got, commandLinks, "the command links")
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
