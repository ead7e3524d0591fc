//go:build conformance

package conformance_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

const moduleRoot = "../../.."

// otelcol builds the Collector of collector/builder-config.yaml with the command in collector/README.md.
var otelcol = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	root, err := filepath.Abs(moduleRoot)
	if err != nil {
		return "", err
	}
	written, err := os.ReadFile(filepath.Join(root, "collector", "builder-config.yaml"))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "entrace-conformance", "otelcol")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	manifest := strings.NewReplacer("./bin/otelcol", dir, "=> ../../", "=> "+root).Replace(string(written))
	if err := os.WriteFile(dir+".yaml", []byte(manifest), 0o644); err != nil {
		return "", err
	}
	readme, err := os.ReadFile(filepath.Join(root, "collector", "README.md"))
	if err != nil {
		return "", err
	}
	command := regexp.MustCompile(`(?m)^.*cmd/builder@.*$`).FindString(string(readme)) // the command that users copy
	cmd := exec.Command("sh", "-c", strings.Replace(command, "collector/builder-config.yaml", dir+".yaml", 1))
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "otelcol-entrace"), nil
})

// A process is a running command. stop ends it.
type process struct {
	cmd   *exec.Cmd
	lines chan string // the lines of its standard error
}

// startProcess starts a command.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), args[0], args[1:]...), lines: make(chan string, 1000)}
	said, err := p.cmd.StderrPipe()
	must(t, err)
	must(t, p.cmd.Start())
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	return p
}

// wait waits for a line on stderr that contains text, and returns the line.
func (p *process) wait(t *testing.T, text string) string {
	t.Helper()
	var before []string
	for line := range p.lines {
		if strings.Contains(line, text) {
			return line
		}
		before = append(before, line)
	}
	t.Fatalf("it did not say %q: %s", text, strings.Join(before, "\n"))
	return ""
}

// stop interrupts the process, and fails the test if the process ends with an error.
func (p *process) stop(t *testing.T) {
	t.Helper()
	must(t, p.cmd.Process.Signal(os.Interrupt))
	for line := range p.lines {
		t.Log(line)
	}
	must(t, p.cmd.Wait())
}

// runCollector starts a Collector that receives OTLP at the addresses http and grpc, and writes it to file.
func runCollector(t *testing.T, http, grpc, file string) *process {
	t.Helper()
	exe, err := otelcol()
	must(t, err)
	config := hosttest.Path(t, "config.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, `
receivers: {otlp: {protocols: {http: {endpoint: %q}, grpc: {endpoint: %q}}}}
exporters: {entrace: {path: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [entrace]}
    logs: {receivers: [otlp], exporters: [entrace]}
`, http, grpc, file), 0o600))
	return startProcess(t, exe, "--config", config)
}

// freeAddress returns a local address on which no process listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	return l.Addr().String()
}

// TestSDKsSendThroughTheCollector sends records from OpenTelemetry's SDKs to the Collector's own receiver. This
// module's exporter writes all of them to a file. 'entrace replay' then sends the file to 'entrace receive --otlp'. The
// files of that command must have the same records.
func TestSDKsSendThroughTheCollector(t *testing.T) {
	dir := t.TempDir()
	file, again := filepath.Join(dir, "all.et"), filepath.Join(dir, "again")
	http, grpc := freeAddress(t), freeAddress(t)
	c := runCollector(t, http, grpc, file)
	c.wait(t, "Everything is ready")
	kept := sendAll(t, dir, map[string]string{"http/protobuf": "http://" + http, "grpc": "http://" + grpc})
	c.stop(t)
	for service, kept := range kept {
		t.Run(service, func(t *testing.T) { compareSent(t, file, service, kept, 0) })
	}

	exe, err := command()
	must(t, err)
	to := startProcess(t, exe, "receive", "--otlp", "--otlp-http", "127.0.0.1:0", "--otlp-grpc", "", "--listen", "", "--dir", again)
	_, endpoint, _ := strings.Cut(to.wait(t, "listening for OTLP at http://"), " at ")
	if out, err := exec.CommandContext(t.Context(), exe, "replay", file, "--endpoint", endpoint).CombinedOutput(); err != nil {
		t.Fatalf("replay: %v\n%s", err, out)
	}
	to.stop(t)
	files, err := filepath.Glob(filepath.Join(again, "*.et"))
	must(t, err)
	got, want := recordsIn(t, files...), recordsIn(t, file)
	expect.Equal(t, len(want), len(kept)*3*sdkLogCount, "spans and log records")
	if !slices.Equal(got, want) {
		t.Errorf("%d spans and log records came back, want %d", len(got), len(want))
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("got  %s\nwant %s", got[i], want[i])
			}
		}
	}
}

// TestFleetConfigurationIsValid checks that the Collector knows all components and fields in the configuration of
// examples/fleet.
func TestFleetConfigurationIsValid(t *testing.T) {
	exe, err := otelcol()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "validate", "--config", filepath.Join(moduleRoot, "examples", "fleet", "collector.yaml"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// newestRelease has the newest releases of the Collector: of its stable modules, and of its other modules.
var newestRelease = [...]string{"v1.71.0", "v0.165.0"}

// TestComponentsWithNewestRelease runs the tests of this module's exporter with the newest release of the
// Collector's modules. The exporter's go.mod has the oldest supported release.
func TestComponentsWithNewestRelease(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		must(t, os.WriteFile(filepath.Join(dir, name), read(t, filepath.Join(moduleRoot, "collector", name)), 0o600))
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = filepath.Join(moduleRoot, "collector"), append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	mod := "-modfile=" + filepath.Join(dir, "go.mod")
	get := []string{"get", mod}
	direct := regexp.MustCompile(`(?m)^\t(go\.opentelemetry\.io/collector/\S+) (v\S+)$`) // without "// indirect"
	for _, m := range direct.FindAllStringSubmatch(string(read(t, filepath.Join(dir, "go.mod"))), -1) {
		version := newestRelease[0]
		if strings.HasPrefix(m[2], "v0.") {
			version = newestRelease[1]
		}
		get = append(get, m[1]+"@"+version)
	}
	run(get...)
	run("get", mod, "-t", "./...") // also updates the dependencies of the tests
	t.Log(run("test", "-count=1", mod, "./..."))
}

// recordsIn returns the complete spans and log records in files, each as a text. The texts are sorted.
func recordsIn(t *testing.T, names ...string) (all []string) {
	t.Helper()
	for _, name := range names {
		f := tracetest.OpenFile(t, name)
		v := tracetest.View(t, f)
		for r := range v.Rows() {
			e, err := v.Entry(r)
			must(t, err)
			var text string
			switch v.Role(r) {
			case view.RoleSpan:
				text = spanText(t, v, r, e)
			case view.RoleLog:
				l := new(otel.Reader).Log(e)
				text = fmt.Sprintf("log %x %x at %d %v, observed %d, severity %d %q, flags %d, event %q, body %s, scope %s, %s, dropped %d", l.TraceID, l.SpanID,
					l.Time, l.HasTime, l.Observed, l.Severity, l.SeverityText, l.Flags, l.EventName, otel.AppendAnyValue(nil, &l.Body), scopeText(&l.Scope),
					attributesText(l.Attributes), l.Dropped)
			default:
				continue
			}
			of, err := v.Entry(v.Resource(r))
			must(t, err)
			res := otel.ReadResource(of)
			all = append(all, fmt.Sprintf("%s, of %q %s", text, res.SchemaURL, attributesText(res.Attributes)))
		}
	}
	slices.Sort(all)
	return all
}

func spanText(t *testing.T, v *view.View, r view.Row, e *format.TraceEntry) string {
	t.Helper()
	s := otel.ReadSpan(e, v.Ref(v.Parent(r)))
	text := fmt.Sprintf("span %x %x below %x, %q from %d for %d %v, state %q, flags %d, kind %v, status %v %q, scope %s, %s, dropped %d %d %d", s.TraceID, s.SpanID, s.Parent,
		s.Name, s.Start, s.Duration, s.Ended, s.TraceState, s.Flags, s.Kind, s.Status, s.Description, scopeText(&s.Scope), attributesText(s.Attributes),
		s.DroppedAttributes, s.DroppedEvents, s.DroppedLinks)
	kids := v.Children(r)
	slices.Sort(kids) // in the order in which they were written
	for _, kid := range kids {
		e, err := v.Entry(kid)
		must(t, err)
		switch v.Role(kid) {
		case view.RoleLink:
			l := otel.ReadLink(e)
			text += fmt.Sprintf(", link %x %x %q %d %s %d", l.TraceID, l.SpanID, l.TraceState, l.Flags, attributesText(l.Attributes), l.Dropped)
		case view.RoleEvent:
			ev := new(otel.Reader).Event(e)
			text += fmt.Sprintf(", event %q %d %v %s %d", ev.Name, ev.Time, ev.HasTime, attributesText(ev.Attributes), ev.Dropped)
		}
	}
	return text
}

func scopeText(s *otel.Scope) string {
	return fmt.Sprintf("%q %q %q %s %d", s.Name, s.Version, s.SchemaURL, attributesText(s.Attributes), s.Dropped)
}

func attributesText(list otel.Attributes) string {
	var all []string
	for i := range list {
		v := list[i].Any()
		all = append(all, list[i].Name+"="+string(otel.AppendAnyValue(nil, &v)))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
