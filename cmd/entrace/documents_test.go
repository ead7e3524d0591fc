package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel"

	service "github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
)

// shop is the service that the documents use as an example.
func shop() {
	p, err := service.Setup(context.Background())
	check(err)
	_, span := otel.Tracer("shop").Start(context.Background(), "checkout")
	span.End()
	_ = p.Shutdown(context.Background()) // fails if no receiver runs
}

// elsewhere maps commands of the documents to the tests that run them.
var elsewhere = map[string]string{
	"go build ./examples/flightrecorder && ./flightrecorder -listen localhost:8080 -dir traces &": "TestFlightRecorder of examples",
	"entrace replay app.et --endpoint http://localhost:4318":                                      "TestScript/replay",
	"entrace replay traces/ -q '{ status = error }' --shift now --new-ids":                        "TestScript/replay",
	"entrace replay traces -q '{ status = error }' --descendants --shift now --new-ids":           "TestFleetScripts",
	"curl -s 'localhost:8080/hang?user=ada' &":                                                    "TestFlightRecorder of examples",
	"sleep 4; entrace tree traces/*-hang.et | grep -A 1 '/hang not ended'":                        "TestFlightRecorder of examples",
	"curl -s -X POST localhost:8080/debug/entrace/snapshot":                                       "TestFlightRecorder of examples",
	"curl -s -X POST 'localhost:8080/debug/entrace/start?config=deep&for=20s'":                    "TestFlightRecorder of examples",
}

// A documented is a command in a document, with the output that the document shows.
type documented struct {
	command string
	output  []string
}

// documentedIn returns the commands in the code blocks of a document: the lines that begin with a $. In
// a block without such lines, it returns the lines that begin with a command.
func documentedIn(text string) (all []documented) {
	block, fence, shows := false, "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "```"); ok {
			block, fence, shows = !block, rest, false
			continue
		}
		indented, isIndented := strings.CutPrefix(line, "    ")
		if !block && !isIndented || block && fence != "" {
			continue
		}
		if !block {
			line = indented
		}
		command, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case prompt, !shows && regexp.MustCompile(`^(\w+=\S+ )?(entrace|\./shop)\b`).MatchString(line):
			shows = prompt
			if at := strings.Index(command, "  #"); at >= 0 {
				command = command[:at]
			}
			all = append(all, documented{command: strings.TrimSpace(command)})
		case shows:
			last := &all[len(all)-1]
			last.output = append(last.output, line)
		}
	}
	return all
}

// TestDocumentedCommands runs each command of the documents, and compares its output with the output
// in the document. Durations, ports and the widths of columns may differ. In a document, … at the end
// of a line stands for the rest of the line, and a line with only … stands for missing lines.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("it takes a shell and builds an example")
	}
	root := filepath.Join("..", "..")
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	must(t, err)
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "examples/queries/README.md", "skills/entrace/SKILL.md"} {
		names = append(names, filepath.Join(root, name))
	}
	programs := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", programs+"/", "./quickstart")
	build.Dir, build.Env = filepath.Join(root, "examples"), append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	n := 0
	for _, name := range names {
		text := string(read(t, name))
		commands := documentedIn(text)
		n += len(commands)
		for _, m := range regexp.MustCompile("`entrace ([^`]+)`").FindAllStringSubmatch(text, -1) {
			parses(t, name, strings.Fields(m[1]))
		}
		if len(commands) == 0 {
			continue
		}
		t.Run(filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			documentsFolder(t, dir, filepath.Join(programs, "quickstart"))
			for _, c := range commands {
				if elsewhere[c.command] == "" {
					c.run(t, dir)
				}
			}
		})
	}
	if n < 60 {
		t.Errorf("the documents have %d commands", n)
	}
}

// parses checks that a command in a sentence exists and has the flags that the sentence gives it.
func parses(t *testing.T, name string, args []string) {
	t.Helper()
	c, rest, err := rootCommand(new(console)).Find(args)
	if err == nil && c.HasParent() {
		err = c.ParseFlags(slices.DeleteFunc(rest, func(s string) bool { return !strings.HasPrefix(s, "-") || strings.HasSuffix(s, "every") }))
	}
	expect.Is(t, err, nil, "%s has %q", name, args)
}

// documentsFolder makes the files that the commands of the documents name.
func documentsFolder(t *testing.T, dir, quickstart string) {
	t.Helper()
	record := func(kind, name string, args ...string) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, traceOf(kind, filepath.Join(dir, name), args...).Close(t.Context()))
	}
	demo := exec.CommandContext(t.Context(), quickstart) // makes trace.et
	demo.Dir = dir
	if out, err := demo.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"pool", "busy", "cpu"} {
		must(t, os.WriteFile(filepath.Join(dir, name+".et"), waitingTrace(t, name), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "trace.out"), read(t, "../../internal/read/gotrace/testdata/go1.27.trace"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "app.et"), shopFile(), 0o600))
	record("front", "shop.et")
	record("stock", "stock.et")
	record("hang", "shop-traces/20260102T030405Z-hang.et")
	record("front", "traces/front.et")
	record("stock", "traces/stock.et")
	for name, took := range map[string]string{
		"old": "1000", "new": "1000", "main": "1000", "branch": "1500",
		"m1": "1000", "m2": "1400", "m3": "1100", "m4": "1500", "m5": "1200", "b1": "1300", "b2": "1050", "b3": "1600", "b4": "1150", "b5": "1450",
	} {
		record("run", name+".et", "60", took, "0")
	}
	for name, m := range map[string]querytest.Mall{
		"good": {Requests: 200}, "bad": {Requests: 200, Fails: .3}, "noon": {Requests: 300, From: 200, Slow: map[string]float64{"SELECT items": 5}},
		"tenant": {Requests: 400, Slow: map[string]float64{"SELECT items": 20}, Tenant: "t7"},
	} {
		seed := uint64(2)
		if name == "good" {
			seed = 1
		}
		m.Record(t, seed).Save(filepath.Join(dir, name+".et"))
	}
	rec := traceOf("sample", filepath.Join(dir, "x.iet"))
	killed := filepath.Join(dir, "killed.iet")
	must(t, os.WriteFile(killed, read(t, filepath.Join(dir, "x.iet")), 0o600))
	must(t, os.WriteFile(killed+".crash", []byte("panic: out of stock\n"), 0o600))
	must(t, rec.Close(t.Context()))
	must(t, os.Remove(filepath.Join(dir, "x.iet")))
	exe, err := exec.LookPath("shop")
	must(t, err)
	must(t, os.Symlink(exe, filepath.Join(dir, "shop")))
}

// waitingTrace returns a recording of examples/waiting on an idle machine.
func waitingTrace(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "waiting", name+".et.gz"))
	must(t, err)
	unpacked, err := gzip.NewReader(f)
	must(t, err)
	b, err := io.ReadAll(unpacked)
	must(t, errors.Join(err, f.Close()))
	return b
}

// run runs a command in a folder until it ends, or until it prints that it waits.
func (c *documented) run(t *testing.T, dir string) {
	t.Helper()
	command := c.command
	waits := strings.HasPrefix(command, "entrace view") || strings.HasPrefix(command, "entrace receive") || strings.Contains(command, "tail -f")
	if waits {
		command = "exec " + command
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TZ=UTC", "DISPLAY=", "WAYLAND_DISPLAY=", "OTEL_SERVICE_NAME=shop")
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	must(t, cmd.Start())
	must(t, w.Close())
	out := bufio.NewReader(r)
	if waits {
		_, err = out.Peek(1)
		must(t, errors.Join(err, cmd.Process.Signal(syscall.SIGINT)))
	}
	b, err := io.ReadAll(out)
	must(t, err)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok {
		code = exit.ExitCode()
	}
	// These commands end with 1 if they find nothing, or if a limit is exceeded.
	mayFail := regexp.MustCompile(`^entrace (grep|check|diff) `).MatchString(command)
	if code != 0 && (code != exitInterrupted || !waits) && (code != 1 || !mayFail) || strings.Contains(string(b), "--help'") {
		t.Errorf("%s: exit %d\n%s", c.command, code, b)
	}
	if c.output != nil && !shows(strings.Split(strings.TrimSuffix(string(b), "\n"), "\n"), c.output) {
		t.Errorf("%s prints\n%swhere the document has\n%s", c.command, b, strings.Join(c.output, "\n"))
	}
}

// volatile matches the text that differs between runs: times, durations, ports, processes and blanks.
var volatile = regexp.MustCompile(`\d\d:\d\d:\d\d\.\d+|\b[\d.]+(ns|µs|ms|s)\b|:\d{4,5}\b|pid=\d+|\s+`)

// shows reports whether the lines got match want, the lines in a document.
func shows(got, want []string) bool {
	plain := func(s string) string {
		return strings.TrimSpace(volatile.ReplaceAllStringFunc(s, func(s string) string {
			return map[bool]string{true: " ", false: "0"}[strings.TrimSpace(s) == ""]
		}))
	}
	for i, w := range want {
		if strings.TrimSpace(w) == "…" {
			rest := want[i+1:]
			for skip := range len(got) + 1 {
				if shows(got[skip:], rest) {
					return true
				}
			}
			return false
		}
		if len(got) == 0 {
			return false
		}
		g, w := plain(got[0]), plain(w)
		if before, _, cut := strings.Cut(w, "…"); cut && !strings.HasPrefix(w, "…") {
			if !strings.HasPrefix(g, strings.TrimSpace(before)) {
				return false
			}
		} else if g != w {
			return false
		}
		got = got[1:]
	}
	return len(got) == 0
}
