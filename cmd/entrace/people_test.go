package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// requests records three requests that differ little.
func requests(t *testing.T, rec *recorder.Recorder) {
	t.Helper()
	p, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
	must(t, err)
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("t")
	log := slog.New(slogadapter.New(rec, nil))
	for i, user := range []string{"ada", "bob", "eve"} {
		ctx, s := tracer.Start(t.Context(), "GET /cart")
		s.SetAttributes(
			attribute.String("server.address", "127.0.0.1"), attribute.String("http.request.method", "GET"), attribute.String("app.version", "1.0"),
			attribute.String("payload", strings.Repeat("x", 200)), attribute.String("user", user), attribute.Int("http.response.status_code", 200+300*(i%2)),
		)
		log.InfoContext(ctx, "loaded", "took", 24*time.Millisecond, "items", i)
		if i == 1 {
			s.SetStatus(codes.Error, "it broke")
			log.ErrorContext(ctx, "first line\nsecond line", "stack", "main.go:1\n\tmain.go:2\nmain.go:3\n4\n5\n6\n7\n8\n")
		}
		s.End()
	}
	must(t, p.Shutdown(t.Context()))
}

func plainTree(t *testing.T, width int, o treeOptions) string {
	t.Helper()
	if o.time == "" {
		o.time = timeNone
	}
	var out bytes.Buffer
	a := &app{out: &out, err: io.Discard, width: width}
	must(t, a.tree(t.Context(), []string{"app.et"}, &o))
	return out.String()
}

// TestTreeForPeople: what tells requests apart comes first, on 80 columns it is cut there and
// nothing vanishes that tells something; a pipe gets everything; texts of several lines are
// lines; a duration is one.
func TestTreeForPeople(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", nil)
	must(t, err)
	requests(t, rec)
	must(t, rec.Close(t.Context()))

	narrow := plainTree(t, 80, treeOptions{})
	for _, want := range []string{
		"user=bob http.response.status_code=500", "took=24ms", "ERROR GET /cart", "it broke",
		"second line\n", "stack:\n", "main.go:1\n", "… 3 more lines, which --full shows",
	} {
		if !strings.Contains(narrow, want) {
			t.Errorf("on 80 columns there is no %q:\n%s", want, narrow)
		}
	}
	for line := range strings.Lines(narrow) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	for name, wide := range map[string]string{"pipe": plainTree(t, 0, treeOptions{}), "--full": plainTree(t, 80, treeOptions{full: true})} {
		for _, want := range []string{strings.Repeat("x", 200), "    main.go:2\n", "8\n", "server.address=127.0.0.1"} {
			if !strings.Contains(wide, want) {
				t.Errorf("%s: there is no %q:\n%s", name, want, wide)
			}
		}
		if strings.Contains(wide, "…") {
			t.Errorf("%s: something is cut:\n%s", name, wide)
		}
		// What is the same in all requests comes behind what is not.
		if m := regexp.MustCompile(`user=ada.*status_code=200 .*server.address`).FindString(wide); m == "" {
			t.Errorf("%s: the order is\n%s", name, wide)
		}
	}
	for style, column := range map[timeStyle]string{timeOffset: ` *\+[\d.]+(ns|µs|ms) `, timeUTC: `\d\d:\d\d:\d\d\.\d{6}Z `, timeLocal: `\d\d:\d\d:\d\d\.\d{6} `} {
		out := plainTree(t, 0, treeOptions{lookFlags: lookFlags{time: style}})
		if n := len(regexp.MustCompile(`(?m)^`+column+`[│ ]*[├└]─ (ERROR )?GET /cart`).FindAllString(out, -1)); n != 3 {
			t.Errorf("%s: %d requests have a time:\n%s", style, n, out)
		}
	}
	for _, args := range [][]string{{"tree", "--time", "never", "app.et"}, {"tree", "--depth", "-1", "app.et"}, {"diff"}, {"--color", "blue", "tree", "app.et"}, {"grep"}} {
		code, _, errs := entrace(t, nil, args...)
		if code != exitUsage || strings.Contains(errs, `\n`) {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
	if out := fine(t, nil, "tree", "--color=always", "app.et"); !strings.Contains(out, "\x1b[31mERROR") {
		t.Error("--color=always has no color in a pipe")
	}
	if out := fine(t, nil, "tree", "app.et", "app.et"); !strings.HasPrefix(out, "app.et and 1 other file ended: 3 spans, 4 log records, 2 errors, ") {
		t.Errorf("of two files it prints\n%s", out)
	}
}

// TestTailForPeople prints lines for people, of what is there and of what comes; it waits for a
// file and takes a folder.
func TestTailForPeople(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	follow := func(args ...string) (next func() string, stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		done := make(chan int)
		go func() {
			code := run(ctx, append([]string{"tail"}, args...), nil, w, io.Discard)
			_ = w.Close()
			done <- code
		}()
		lines := bufio.NewScanner(r)
		return func() string {
				if !lines.Scan() {
					return "the end"
				}
				return lines.Text()
			}, func() {
				cancel()
				_, _ = io.Copy(io.Discard, r)
				if code := <-done; code != exitFine {
					t.Errorf("tail %q: exit %d", args, code)
				}
			}
	}
	ofFile, stopFile := follow("-f", "app.et")
	ofFolder, stopFolder := follow("-f", "-n", "-1")
	time.Sleep(120 * time.Millisecond) // they wait
	rec, err := recorder.Create("app.et", nil)
	must(t, err)
	requests(t, rec)
	must(t, rec.Flush(t.Context()))
	clock := `^\d\d:\d\d:\d\d\.\d{6} `
	want := []string{
		"INFO loaded took=24ms items=0$", "GET /cart [\\d.]+(ms|µs|ns) user=ada http.response.status_code=200 .*server.address=127.0.0.1 ",
		"INFO loaded took=24ms items=1$", `ERROR first line\\nsecond line$`, "ERROR GET /cart [\\d.]+(ms|µs|ns) it broke ",
		"INFO loaded took=24ms items=2$", "GET /cart ",
	}
	for i, line := range want {
		for who, next := range map[string]func() string{"file": ofFile, "folder": ofFolder} {
			got := next()
			for strings.HasPrefix(got, "    ") { // a line of the stack
				got = next()
			}
			if !regexp.MustCompile(clock + line).MatchString(got) {
				t.Errorf("%s, line %d is %q, want %s", who, i, got, line)
			}
		}
	}
	must(t, rec.Close(t.Context()))
	if got := ofFile(); got != "the end" {
		t.Errorf("behind the end there is %q", got)
	}
	stopFile()
	// The folder goes on with the next program.
	next, err := recorder.Create("next.et", nil)
	must(t, err)
	must(t, next.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("of the next"), Metadata: format.Metadata{Name: "event", Level: format.LevelInfo}}))
	must(t, next.Flush(t.Context()))
	if got := ofFolder(); !strings.HasSuffix(got, "of the next") {
		t.Errorf("of the next program there is %q", got)
	}
	stopFolder()
	must(t, next.Close(t.Context()))

	if out := fine(t, nil, "tail", "-n", "2", "--time", "offset", "app.et"); !regexp.MustCompile(`^ *\+\S+ INFO loaded took=24ms items=2\n *\+\S+ GET /cart .*\n$`).MatchString(out) {
		t.Errorf("the last two are\n%s", out)
	}
	if out := fine(t, nil, "tail", "-n", "1", "--raw", "app.et"); !strings.Contains(out, " <0 ") {
		t.Errorf("raw is\n%s", out)
	}
	if code, _, errs := entrace(t, nil, "tail", t.TempDir()); code != exitData || !strings.Contains(errs, "there is no trace") {
		t.Errorf("of an empty folder: exit %d, %s", code, errs)
	}
}

// TestKnownFiles: of what is no trace the command says what it is, and what to do.
func TestKnownFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", &recorder.Options{BufferDir: "."})
	must(t, err)
	requests(t, rec)
	must(t, rec.Flush(t.Context()))
	if d, _ := rec.Durability(); d == recorder.DurabilityProcess {
		living := fmt.Sprintf("ring of process %d, which runs: kill -USR1 %d", os.Getpid(), os.Getpid())
		if runtime.GOOS != "linux" { // where nobody tells who has a lock
			living = "ring of a process that runs"
		}
		must(t, os.WriteFile("died.iet.buffer", read(t, "app.iet.buffer"), 0o600))
		must(t, os.WriteFile("died.ring", read(t, "app.iet.buffer"), 0o600))
		for name, want := range map[string]string{
			"app.iet.buffer":  living,
			"died.iet.buffer": "is the crash buffer of died.iet: name that",
			"died.ring":       "'entrace recover .' makes a trace of it",
		} {
			if code, _, errs := entrace(t, nil, "tree", name); code != exitData || !strings.Contains(errs, want) {
				t.Errorf("%s: exit %d, %s, want %s", name, code, errs, want)
			}
		}
	}
	must(t, os.WriteFile("gone.ring", []byte("entrace journal\npath "+filepath.Join(here, "nowhere")+"\n"), 0o600))
	if code, _, errs := entrace(t, nil, "info", "gone.ring"); code != exitData || !strings.Contains(errs, "of a process that died") {
		t.Errorf("exit %d, %s", code, errs)
	}
	must(t, rec.Close(t.Context()))
	fine(t, nil, "convert", "app.et", "app.jsonl")
	must(t, os.WriteFile("empty.et", nil, 0o600))
	must(t, os.WriteFile("new.et", []byte("\x00ENTRACE\x09\x00"), 0o600))
	must(t, os.WriteFile("app.pftrace", []byte("anything"), 0o600))
	for _, x := range []struct{ args, want string }{
		{"verify app.jsonl", "looks like otlp"},
		{"cat empty.et", "empty.et: the file is empty"},
		{"info new.et", "written by a newer ENTRACE"},
		{"convert app.pftrace x.et", "perfetto, which entrace writes and does not read"},
	} {
		if code, _, errs := entrace(t, nil, strings.Fields(x.args)...); code == exitFine || !strings.Contains(errs, x.want) {
			t.Errorf("%s: exit %d, %s, want %s", x.args, code, errs, x.want)
		}
	}
	for _, command := range []string{"tree", "info"} {
		if out := fine(t, nil, command, "app.jsonl"); !strings.Contains(out, "app.jsonl") {
			t.Errorf("%s of a file of another format prints\n%s", command, out)
		}
	}
	if out := fine(t, nil, "convert", "app.et", "--to", "otlp"); !strings.HasPrefix(out, `{"resource`) {
		t.Errorf("without OUT it prints %.50s", out)
	}
	if got := valueText(format.BytesValue([]byte("a\xffb c"))); got != `b"a\xffb c"` {
		t.Errorf("a text with a bad byte is %s", got)
	}
}

// onFirst calls fn before the first write.
type onFirst struct {
	bytes.Buffer

	once sync.Once
	fn   func()
}

func (w *onFirst) Write(b []byte) (int, error) {
	w.once.Do(w.fn)
	return w.Buffer.Write(b)
}

// TestTailSlow: a slow terminal misses nothing of a file that rotates while it prints.
func TestTailSlow(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", &recorder.Options{MaxFileEntries: 20})
	must(t, err)
	n := 0
	record := func(more int) {
		for range more {
			if err := rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some(fmt.Sprintf("rec %d.", n)), Metadata: named("event").Metadata}); err != nil {
				t.Error(err)
			}
			n++
			if err := rec.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	record(15)
	out := &onFirst{fn: func() {
		record(100)
		if err := rec.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	run(ctx, []string{"tail", "-f", "-n", "-1", "app.et"}, nil, out, io.Discard)
	lost := 0
	for i := range n {
		switch c := strings.Count(out.String(), fmt.Sprintf("rec %d.\n", i)); {
		case c > 1:
			t.Errorf("record %d comes %d times", i, c)
		case c == 0:
			lost++
		}
	}
	// Of files that came and went while it printed it sees none.
	if first := 19; strings.Count(out.String(), "rec ") < first || lost > 0 && !strings.Contains(out.String(), fmt.Sprintf("rec %d.\n", n-1)) {
		t.Errorf("%d of %d are lost:\n%s", lost, n, out.String())
	}
}

// TestTailOrderWithinATick: of what is over at one time a span comes after all that is below it.
func TestTailOrderWithinATick(t *testing.T) {
	list := []happened{{1, 5, true}, {2, 5, false}, {3, 5, true}, {4, 5, false}, {5, 4, false}}
	slices.SortFunc(list, happened.compare)
	want := []happened{{5, 4, false}, {2, 5, false}, {4, 5, false}, {3, 5, true}, {1, 5, true}}
	if !slices.Equal(list, want) {
		t.Errorf("got %v, want %v", list, want)
	}
}
