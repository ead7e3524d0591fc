//go:build conformance

package conformance_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/view"
)

// What is installed of OpenTelemetry's SDKs.
const (
	distroPyPI  = "opentelemetry-distro==0.66b2"
	otlpPyPI    = "opentelemetry-exporter-otlp==1.45.2"
	sdkNodeNPM  = "@opentelemetry/sdk-node@0.301.0"
	apiNPM      = "@opentelemetry/api@1.10.0"
	sdkProgram  = "testdata/sdk/send"
	pythonLog   = "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED=true"
	sdkLogCount = 50
)

// agent installs OpenTelemetry's zero-code agent for Python and returns it.
var agent = sync.OnceValues(func() (string, error) {
	made := "has-" + otlpPyPI
	dir, err := tablesInstall(made,
		[]string{"python3", "-m", "venv", "otel"},
		[]string{filepath.Join("otel", "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", distroPyPI, otlpPyPI},
		[]string{"touch", made})
	return filepath.Join(dir, "otel", "bin"), err
})

// sdkModules installs OpenTelemetry's SDK for Node and returns the folder of its modules.
var sdkModules = sync.OnceValues(func() (string, error) {
	made := "has-" + strings.ReplaceAll(sdkNodeNPM, "/", "-")
	dir, err := tablesInstall(made,
		[]string{"npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", "otel-node", sdkNodeNPM, apiNPM},
		[]string{"touch", made})
	return filepath.Join(dir, "otel-node"), err
})

// A sentSpan is a span as its SDK has it.
type sentSpan struct {
	Trace, Span, Parent, Name string
	Kind                      int
	Start, End                string
	Status                    int
	Attributes                map[string]any
	Events                    [][2]string
	Links                     int
}

// TestSDKsSendToRun: what OpenTelemetry's SDKs for Python and Node say of their spans is in the
// file of entrace run, over HTTP and gRPC, and log records are below their spans.
func TestSDKsSendToRun(t *testing.T) {
	for language, program := range map[string]func(t *testing.T, kept string) []string{
		"python": func(t *testing.T, kept string) []string {
			bin, err := agent()
			must(t, err)
			return []string{filepath.Join(bin, "opentelemetry-instrument"), filepath.Join(bin, "python"), sdkProgram + ".py", kept}
		},
		"node": func(t *testing.T, kept string) []string {
			modules, err := sdkModules()
			must(t, err)
			return []string{"node", sdkProgram + ".mjs", kept, modules}
		},
	} {
		for _, protocol := range []string{"http/protobuf", "grpc"} {
			t.Run(language+" "+protocol, func(t *testing.T) {
				dir := t.TempDir()
				kept, file := filepath.Join(dir, "kept"), filepath.Join(dir, "sent.et")
				args := []string{"run", "../../cmd/entrace", "run", "--protocol", protocol, "-o", file, "--"}
				cmd := exec.CommandContext(t.Context(), "go", append(args, program(t, kept)...)...)
				cmd.Env = append(os.Environ(), pythonLog, "OTEL_SERVICE_NAME=sender", "OTEL_PYTHON_LOG_LEVEL=info")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				compareSent(t, file, read(t, kept))
			})
		}
	}
}

func compareSent(t *testing.T, file string, kept []byte) {
	t.Helper()
	f, err := format.Open(file, nil)
	must(t, err)
	defer f.Close()
	v, err := view.New(t.Context(), []*format.File{f}, nil)
	must(t, err)
	spans := make(map[string]view.Row)
	logs := 0
	for r := range v.Rows() {
		switch v.Role(r) {
		case view.RoleSpan:
			ref := v.Ref(r)
			spans[hex.EncodeToString(ref.SpanID[:])] = r
		case view.RoleLog:
			message, _ := v.Message(r)
			if up := v.Parent(r); v.Role(up) != view.RoleSpan || v.Name(up) != "outer" || !strings.HasPrefix(message, "said ") {
				t.Errorf("the log record %q is below %s", message, v.Name(up))
			}
			logs++
		}
	}
	if logs != sdkLogCount {
		t.Errorf("%d log records came, want %d", logs, sdkLogCount)
	}
	n := 0
	for line := range bytes.Lines(kept) {
		var want sentSpan
		must(t, json.Unmarshal(line, &want))
		n++
		r, ok := spans[want.Span]
		if !ok {
			t.Errorf("the span %s is lost", want.Span)
			continue
		}
		if got := spanAsSent(t, v, r); !equalSent(&got, &want) {
			t.Errorf("it has %+v\nwas sent %+v", got, want)
		}
	}
	if n != 2*sdkLogCount || len(spans) != n+1 { // and that of the command
		t.Errorf("the SDK kept %d spans, the file has %d", n, len(spans))
	}
}

func spanAsSent(t *testing.T, v *view.View, r view.Row) sentSpan {
	t.Helper()
	e, err := v.Entry(r)
	must(t, err)
	s := otel.ReadSpan(e, v.Ref(v.Parent(r)))
	got := sentSpan{
		Trace: hex.EncodeToString(s.TraceID[:]), Span: hex.EncodeToString(s.SpanID[:]), Name: s.Name, Kind: int(s.Kind),
		Start: fmt.Sprint(s.Start), End: fmt.Sprint(s.End()), Status: int(s.Status), Attributes: make(map[string]any),
	}
	if s.Parent != [8]byte{} {
		got.Parent = hex.EncodeToString(s.Parent[:])
	}
	for i := range s.Attributes {
		a := s.Attributes[i].Any()
		var value any
		must(t, json.Unmarshal([]byte(jsonOf(&a)), &value))
		got.Attributes[s.Attributes[i].Name] = value
	}
	for _, child := range v.Children(r) {
		switch v.Role(child) {
		case view.RoleEvent:
			at, _ := v.Start(child)
			got.Events = append(got.Events, [2]string{v.Name(child), fmt.Sprint(at)})
		case view.RoleLink:
			got.Links++
		}
	}
	return got
}

// jsonOf returns a value as JSON has it.
func jsonOf(a *otel.Any) string {
	if a.Kind == otel.String {
		b, _ := json.Marshal(a.Text) // it never fails
		return string(b)
	}
	return a.Display()
}

func equalSent(got, want *sentSpan) bool {
	a, _ := json.Marshal(got.Attributes)
	b, _ := json.Marshal(want.Attributes)
	return got.Trace == want.Trace && got.Span == want.Span && got.Parent == want.Parent && got.Name == want.Name && got.Kind == want.Kind &&
		got.Start == want.Start && got.End == want.End && got.Status == want.Status && bytes.Equal(a, b) && slices.Equal(got.Events, want.Events) && got.Links == want.Links
}
