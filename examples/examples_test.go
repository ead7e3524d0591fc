package examples_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// build builds an example.
func build(t *testing.T, name string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), name)
	if runtime.GOOS == "windows" {
		exe += ".exe"
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", exe, "./"+name) // linking debug information takes as long as all else
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// run runs an example in a new folder. It returns the folder and the output.
func run(t *testing.T, name string, env ...string) (dir, out string) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.Command(build(t, name))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return dir, string(b)
}

// count opens a trace and counts the rows of each role.
func count(t *testing.T, name string) map[view.Role]int {
	t.Helper()
	v := tracetest.OpenView(t, name)
	n := make(map[view.Role]int)
	for id := range v.Rows() {
		n[v.Role(id)]++
	}
	return n
}

func TestQuickstart(t *testing.T) {
	t.Parallel()
	dir, out := run(t, "quickstart")
	name := filepath.Join(dir, "trace.et")
	n := count(t, name)
	if n[view.RoleSpan] != 19 || n[view.RoleLog] != 11 || n[view.RoleEvent] != 5 || n[view.RoleResource] != 1 || !strings.Contains(out, "entrace tree") {
		t.Errorf("there are %v; it prints %s", n, out)
	}
	v := tracetest.OpenView(t, name)
	for _, want := range []string{"GET /cart", "SELECT price", "checkout refused", "recovered", "shutting down"} {
		if !slices.ContainsFunc(slices.Collect(v.Rows()), func(r view.Row) bool { text, _ := v.Message(r); return v.Name(r) == want || text == want }) {
			t.Errorf("it does not record %s", want)
		}
	}
}

// TestShop: explain finds the fault of the demo in the files of three processes.
func TestShop(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs for ten seconds")
	}
	dir, _ := run(t, "shop")
	var files []*format.File
	for _, service := range []string{"shop", "catalog", "payment"} {
		f, err := format.Open(filepath.Join(dir, "demo", service+".et"), nil)
		expect.Must(t, err)
		defer f.Close()
		files = append(files, f)
	}
	v, err := view.New(t.Context(), files, nil)
	expect.Must(t, err)
	rows := v.NewSet()
	for r := range v.Rows() {
		rows.Add(r)
	}
	x, err := analyze.Explain(t.Context(), &analyze.Question{Now: []query.Run{{View: v, Rows: rows}}, Since: analyze.NoTime})
	expect.Must(t, err)
	for _, part := range []string{"cause: payment", "quota of the merchant is used up", `"acme"`} {
		expect.Has(t, x.Verdict, part, "the verdict")
	}
}

func TestAutoexport(t *testing.T) {
	t.Parallel()
	dir, _ := run(t, "autoexport", "OTEL_TRACES_EXPORTER=entrace", "OTEL_EXPORTER_ENTRACE_PATH=app.et")
	if n := count(t, filepath.Join(dir, "app.et")); n[view.RoleSpan] != 4 {
		t.Errorf("there are %v, want 4 spans", n)
	}
}

func TestSlogonly(t *testing.T) {
	t.Parallel()
	dir, out := run(t, "slogonly")
	if n := count(t, filepath.Join(dir, "slogonly.et")); n[view.RoleLog] != 2 || !strings.Contains(out, "nothing to remove") {
		t.Errorf("there are %v, want 2 log records; it prints %s", n, out)
	}
}

// logs returns a line for each log record of a trace: the name of its parent, its level, target and
// message, and some of its attributes.
func logs(t *testing.T, name string) []string {
	t.Helper()
	v := tracetest.OpenView(t, name)
	var all []string
	for row := range v.Rows() {
		if v.Role(row) != view.RoleLog {
			continue
		}
		e, err := v.Entry(row)
		expect.Must(t, err)
		words := []string{v.Name(v.Parent(row)) + ":", e.Metadata.Level.String(), e.Metadata.Target, e.Message.Value}
		for _, a := range e.Attributes {
			switch a.Name {
			case "n", "user", "tags", "items", "exception.message":
				words = append(words, fmt.Sprintf("%s=%s", a.Name, a.Value))
			}
		}
		all = append(all, strings.Join(words, " "))
	}
	slices.Sort(all)
	return all
}

// TestLoggers checks that the records of four log libraries are children of the span and have the right
// levels and attributes.
func TestLoggers(t *testing.T) {
	t.Parallel()
	dir, out := run(t, "loggers")
	want := []string{
		`request: ERROR example.com/logr by logr, an error exception.message=no stock`,
		`request: ERROR example.com/zap by zap n=1 tags=["a","b"]`,
		`request: INFO example.com/logr by logr n=1`,
		`request: INFO example.com/logrus by logrus n=1`,
		`request: WARN example.com/slog by slog n=1 user={"id":7}`,
	}
	if got := logs(t, filepath.Join(dir, "loggers.et")); !slices.Equal(got, want) {
		t.Errorf("the records are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(out, "entrace:") {
		t.Errorf("it says %s", out)
	}
}

// TestBesideOTLP checks that a service still sends its spans and log records by OTLP when it also
// records them.
func TestBesideOTLP(t *testing.T) {
	t.Parallel()
	exe := build(t, "otlp")
	for _, args := range [][]string{nil, {"-setup"}} {
		var mu sync.Mutex
		received := make(map[string]int)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			received[r.URL.Path]++
			mu.Unlock()
			w.Header().Set("Content-Type", "application/x-protobuf")
		}))
		defer s.Close()
		dir := t.TempDir()
		cmd := exec.Command(exe, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v\n%s", err, out)
		}
		if received["/v1/traces"] != 1 || received["/v1/logs"] != 1 {
			t.Errorf("%v: received are %v", args, received)
		}
		want := []string{"GET /cart: INFO example.com/otlp cart loaded items=3"}
		expect.Slice(t, logs(t, filepath.Join(dir, "otlp.et")), want, "%v: the records", args)
	}
}

// TestPageHasTheExample checks that docs/otlp.md shows the code of the example.
func TestPageHasTheExample(t *testing.T) {
	page, err := os.ReadFile("../docs/otlp.md")
	expect.Must(t, err)
	source, err := os.ReadFile("otlp/main.go")
	expect.Must(t, err)
	parts := strings.Split(string(source), "\t// PAGE\n")[1:]
	for _, part := range parts {
		part, _, _ = strings.Cut(part, "\t// END\n")
		code := strings.TrimPrefix(strings.ReplaceAll("\n"+part, "\n\t", "\n"), "\n")
		if !strings.Contains(string(page), "```go\n"+code+"```\n") {
			t.Errorf("docs/otlp.md has not\n%s", code)
		}
	}
	if len(parts) != strings.Count(string(page), "```go\n") {
		t.Errorf("the page has %d pieces of code, and the example %d", strings.Count(string(page), "```go\n"), len(parts))
	}
}

// TestLive kills the example and checks that its open spans are in the file.
func TestLive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(build(t, "live"))
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	expect.Must(t, err)
	expect.Must(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "live.iet") {
		t.Errorf("it says %q, %v", line, err)
	}
	follow(t, filepath.Join(dir, "live.et"), "store")
	// The file has the records of the program a tenth of a second later. A part takes as long, so at
	// this moment one part ends and the next one begins. Wait until the next part is open.
	time.Sleep(50 * time.Millisecond)
	expect.Must(t, cmd.Process.Kill())
	_ = cmd.Wait() // an error, because the process was killed
	// The crash buffer holds the records that were not in the file yet.
	if r, err := recorder.Recover(filepath.Join(dir, "live.et"), ""); err != nil || r.Format != format.IET || r.Ended {
		t.Errorf("Recover says %+v, %v", r, err)
	}
	v := tracetest.OpenView(t, filepath.Join(dir, "live.et"))
	open := 0
	for id := range v.Rows() {
		if v.Role(id) == view.RoleSpan {
			if _, ended := v.Duration(id); !ended {
				open++
			}
		}
	}
	if open != 2 && open != 1 { // the example may have been between two parts
		t.Errorf("%d spans had not ended, want the round and its part", open)
	}
}

// follow waits until the file name has an entry with the name entry.
func follow(t *testing.T, name, entry string) {
	t.Helper()
	f, err := format.Follow(name, nil)
	expect.Must(t, err)
	defer f.Close()
	for {
		_, e, err := f.Next(t.Context())
		expect.Must(t, err)
		if e.Metadata.Name == entry {
			return
		}
	}
}

// TestBothWaysAreShownOnce runs a program that records its spans itself and also sends them by OTLP to
// entrace run. A view of both files shows each span once.
func TestBothWaysAreShownOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	entrace := filepath.Join(dir, "entrace")
	install := exec.Command("go", "build", "-ldflags=-s -w", "-o", entrace, "./cmd/entrace")
	install.Dir = ".."
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(entrace, "run", "-o", "sent.et", "--", build(t, "otlp"))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "sent.et: 2 spans, 1 log record") {
		t.Fatalf("%v\n%s", err, out)
	}
	var files []*format.File
	for _, name := range []string{"sent.et", "otlp.et"} {
		f, err := format.Open(filepath.Join(dir, name), nil)
		expect.Must(t, err)
		defer f.Close()
		files = append(files, f)
	}
	v, err := view.New(t.Context(), files, nil)
	expect.Must(t, err)
	n := 0
	for r := range v.Rows() {
		if v.Role(r) == view.RoleSpan && v.Name(r) == "GET /cart" || v.Role(r) == view.RoleLog {
			n++
		}
	}
	if n != 2 || v.Copies() < 2 {
		t.Errorf("%d rows are there, want a span and a log record; %d are copies", n, v.Copies())
	}
}

// TestConfigFile: providers that otelconf makes from a file record to the trace as well. The program has the code in
// docs/switching.md.
func TestConfigFile(t *testing.T) {
	t.Parallel()
	_, code, _ := strings.Cut(string(tracetest.ReadFile(t, "../docs/switching.md")), "```go\n")
	code, _, _ = strings.Cut(code, "```")
	if program := strings.ReplaceAll(string(tracetest.ReadFile(t, "configfile/main.go")), "\n\t", "\n"); code == "" || !strings.Contains(program, code) {
		t.Errorf("the program does not have\n%s", code)
	}
	file := filepath.Join(t.TempDir(), "otel.yaml")
	config := `file_format: "1.0"
tracer_provider:
  processors:
    - simple: {exporter: {console: {}}}
logger_provider:
  processors:
    - simple: {exporter: {console: {}}}
`
	expect.Must(t, os.WriteFile(file, []byte(config), 0o600))
	dir, out := run(t, "configfile", "OTEL_CONFIG_FILE="+file)
	if n := count(t, filepath.Join(dir, "app.et")); n[view.RoleSpan] != 1 || n[view.RoleLog] != 1 || !strings.Contains(out, "read 3 files") {
		t.Errorf("there are %v, and the console has\n%s", n, out)
	}
}
