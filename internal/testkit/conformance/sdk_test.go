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

	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// The versions of OpenTelemetry's SDKs that are installed.
const (
	distroPyPI   = "opentelemetry-distro==0.66b2"
	otlpPyPI     = "opentelemetry-exporter-otlp==1.45.2"
	loggingPyPI  = "opentelemetry-instrumentation-logging==0.66b2"
	sdkNodeNPM   = "@opentelemetry/sdk-node@0.301.0"
	apiNPM       = "@opentelemetry/api@1.10.0"
	sdkJavaMaven = "1.68.0" // the version of io.opentelemetry
	sdkProgram   = "testdata/sdk/send"
	pythonLog    = "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED=true"
	sdkLogCount  = 50
)

// agent installs OpenTelemetry's zero-code agent for Python, and returns the folder of its programs.
var agent = sync.OnceValues(func() (string, error) {
	made := "has-" + otlpPyPI + loggingPyPI + jsonPyPI
	dir, err := tablesInstall(made,
		[]string{"python3", "-m", "venv", "otel"},
		[]string{"otel/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", distroPyPI, otlpPyPI, loggingPyPI, jsonPyPI},
		[]string{"touch", made})
	return filepath.Join(dir, "otel", "bin"), err
})

// sdkModules installs OpenTelemetry's SDK for Node, and returns the folder of its modules.
var sdkModules = sync.OnceValues(func() (string, error) {
	made := "has-" + strings.ReplaceAll(sdkNodeNPM, "/", "-")
	dir, err := tablesInstall(made,
		[]string{"npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", "otel-node", sdkNodeNPM, apiNPM},
		[]string{"touch", made})
	return filepath.Join(dir, "otel-node"), err
})

// A sentSpan is a span as described by the SDK that sent it.
type sentSpan struct {
	Trace, Span, Parent, Name string
	Kind                      int
	Start, End                string
	Status                    int
	Attributes                map[string]any
	Events                    [][2]string
	Links                     int
}

// javaJars installs OpenTelemetry's SDK for Java, and returns the folder of its archives.
var javaJars = sync.OnceValues(func() (string, error) {
	pom, err := filepath.Abs("testdata/sdk/java/pom.xml")
	if err != nil {
		return "", err
	}
	made := "has-java-" + sdkJavaMaven
	dir, err := tablesInstall(made,
		[]string{"mkdir", "-p", "otel-java"},
		[]string{"cp", pom, "otel-java"},
		[]string{"mvn", "--quiet", "--file", "otel-java/pom.xml", "-Dotel.version=" + sdkJavaMaven, "dependency:copy-dependencies", "-DoutputDirectory=."},
		[]string{"touch", made})
	return filepath.Join(dir, "otel-java"), err
})

// goSender builds the program that sends with OpenTelemetry's SDK for Go.
var goSender = sync.OnceValues(func() (string, error) { return built("collector", "./send") })

// command builds the command entrace, and returns its path.
var command = sync.OnceValues(func() (string, error) { return built("../../..", "./cmd/entrace") })

// built builds a program of the module in the folder dir, and returns the path of the program.
func built(dir, of string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := filepath.Join(cache, "entrace-conformance", filepath.Base(of))
	cmd := exec.Command("go", "build", "-o", name, of)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, nil
}

// senders has a func for each language. The func returns a command that sends spans and log records, and writes a
// copy of them to the file kept.
var senders = map[string]func(kept string) ([]string, error){
	"python": func(kept string) ([]string, error) {
		bin, err := agent()
		return []string{filepath.Join(bin, "opentelemetry-instrument"), filepath.Join(bin, "python"), sdkProgram + ".py", kept}, err
	},
	"node": func(kept string) ([]string, error) {
		modules, err := sdkModules()
		return []string{"node", sdkProgram + ".mjs", kept, modules}, err
	},
	"java": func(kept string) ([]string, error) {
		jars, err := javaJars()
		return []string{"java", "-cp", filepath.Join(jars, "*"), "testdata/sdk/java/Send.java", kept}, err
	},
	"go": func(kept string) ([]string, error) {
		sender, err := goSender()
		return []string{sender, kept}, err
	},
}

var protocols = []string{"http/protobuf", "grpc"}

// sdkEnv returns the environment of a sender.
func sdkEnv(more ...string) []string {
	return append(append(os.Environ(), pythonLog, "OTEL_PYTHON_LOG_LEVEL=info", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=logging"), more...)
}

// TestSDKsSendToRun sends records from OpenTelemetry's SDKs to entrace run, over HTTP and gRPC. The file must have
// the spans as the SDKs describe them, and log records below their spans.
func TestSDKsSendToRun(t *testing.T) {
	exe, err := command()
	must(t, err)
	for language, sender := range senders {
		for _, protocol := range protocols {
			t.Run(language+" "+protocol, func(t *testing.T) {
				dir := t.TempDir()
				kept, file := filepath.Join(dir, "kept"), filepath.Join(dir, "sent.et")
				args, err := sender(kept)
				must(t, err)
				cmd := exec.CommandContext(t.Context(), exe, append([]string{"run", "--protocol", protocol, "-o", file, "--"}, args...)...)
				cmd.Env = sdkEnv("OTEL_SERVICE_NAME=sender")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				compareSent(t, file, "", read(t, kept), 1) // 1: the span of the command
			})
		}
	}
}

// TestSDKsSendToReceive sends records from all SDKs to one 'entrace receive --otlp', over HTTP and gRPC. The
// command must write one file per SDK.
func TestSDKsSendToReceive(t *testing.T) {
	exe, err := command()
	must(t, err)
	dir := t.TempDir()
	into := filepath.Join(dir, "into")
	receiver := startProcess(t, exe, "receive", "--otlp", "--otlp-http", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0", "--listen", "", "--dir", into)
	endpoints := make(map[string]string) // keyed by protocol
	for range protocols {
		_, at, _ := strings.Cut(receiver.wait(t, "listening for OTLP at "), " at ")
		protocol, address, _ := strings.Cut(at, "://")
		if protocol == "http" {
			protocol = "http/protobuf"
		}
		endpoints[protocol] = "http://" + address
	}
	kept := sendAll(t, dir, endpoints)
	receiver.stop(t)
	for service, kept := range kept {
		t.Run(service, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(into, service+"*.et"))
			must(t, err)
			expect.MustLen(t, files, 1, "the service has the files")
			compareSent(t, files[0], service, kept, 0)
		})
	}
}

// sendAll runs all SDKs. endpoints has the endpoint for each protocol. The result has the SDKs' own copies of
// their spans, by the name of the service.
func sendAll(t *testing.T, dir string, endpoints map[string]string) map[string][]byte {
	t.Helper()
	kept := make(map[string][]byte)
	for language, sender := range senders {
		for _, protocol := range protocols {
			service := language + "-" + strings.ReplaceAll(protocol, "/", "-")
			name := filepath.Join(dir, service)
			args, err := sender(name)
			must(t, err)
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Env = sdkEnv("OTEL_SERVICE_NAME="+service, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoints[protocol], "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol,
				"OTEL_TRACES_EXPORTER=otlp", "OTEL_LOGS_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=none")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			kept[service] = read(t, name)
		}
	}
	return kept
}

// compareSent compares the spans of a service in a file with kept, the sender's own copy. If service is "", it
// compares all spans. The file must have as many spans that are not in kept as others says.
func compareSent(t *testing.T, file, service string, kept []byte, others int) {
	t.Helper()
	f := tracetest.OpenFile(t, file)
	v := tracetest.View(t, f)
	spans := make(map[string]view.Row)
	logs := 0
	for r := range v.Rows() {
		if service != "" && v.Service(r) != service {
			continue
		}
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
	expect.Equal(t, logs, sdkLogCount, "log records came")
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
	if n != 2*sdkLogCount || len(spans) != n+others {
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

// jsonOf returns a value as JSON.
func jsonOf(a *otel.Any) string {
	if a.Kind == otel.String {
		b, _ := json.Marshal(a.Text) // marshaling a string never fails
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
