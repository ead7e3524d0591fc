package entracetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/entracetest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// request records a span of a request with n child spans of database queries.
func request(tr *entracetest.Trace, n int) {
	tracer := tr.TracerProvider().Tracer("shop")
	ctx, span := tracer.Start(context.Background(), "GET /cart", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	tr.Logger().InfoContext(ctx, "cart loaded", "items", n, "password", "hunter2")
	var r log.Record
	r.SetBody(attribute.StringValue("by OpenTelemetry"))
	tr.LoggerProvider().Logger("shop").Emit(ctx, r)
	for i := range n {
		_, query := tracer.Start(ctx, "SELECT", trace.WithAttributes(attribute.Int("rows", i)))
		time.Sleep(time.Millisecond)
		query.End()
	}
}

// TestFind: rows have the recorded values, within testing/synctest and outside of it, and secrets are
// replaced.
func TestFind(t *testing.T) {
	test := func(t *testing.T) {
		tr := entracetest.New(t)
		request(tr, 2)
		rows := tr.Expect(`{ name = "SELECT" && .rows = 1 }`, 1)
		if r := rows[0]; r.Role != "span" || !r.Ended || r.Duration < time.Millisecond || r.TraceID == "" || r.SpanID == "" || r.Attributes["rows"] != int64(1) {
			t.Errorf("got %+v", r)
		}
		logs := tr.Find(`{ level >= trace && message != nil }`)
		if len(logs) != 2 || logs[0].Message != "cart loaded" || logs[0].Attributes["password"] != "[redacted]" || logs[1].Message != "by OpenTelemetry" {
			t.Errorf("got %+v", logs)
		}
		tr.Expect(`{ name = "GET /cart" } > { name = "SELECT" }`, 2)
		tr.ExpectNone(`{ status = error }`)
		tr.AtMost(`{ name = "SELECT" }`, 2)
		tr.Within(`{ kind = server }`, time.Minute)
		tr.Eventually(`{ name = "SELECT" }`, 2, time.Hour)
		tr.Golden(t, "testdata/request.tree")
		tr.Golden(t, "testdata/without.tree", "rows", "items")
	}
	t.Run("outside", test)
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, test) })
}

// TestParallel: several goroutines record and run queries concurrently. No goroutine is still running at the
// end, because synctest would report it as a deadlock.
func TestParallel(t *testing.T) {
	for range 4 {
		synctest.Test(t, func(t *testing.T) {
			tr := entracetest.New(t)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 5 {
						request(tr, 1)
						tr.Find(`{ name = "SELECT" }`)
					}
				})
			}
			all.Wait()
			tr.Expect(`{ name = "GET /cart" } > { name = "SELECT" }`, 20)
		})
	}
}

// failing is an environment variable that TestFailure sets in the process that it starts.
const failing = "ENTRACE_TEST_FAILING"

// TestFailing fails on purpose, but only in the process that TestFailure starts.
func TestFailing(t *testing.T) {
	if os.Getenv(failing) == "" {
		t.Skip("TestFailure starts it in a process of its own")
	}
	tr := entracetest.New(t)
	request(tr, 3)
	_, open := tr.TracerProvider().Tracer("shop").Start(t.Context(), "GET /slow")
	defer open.IsRecording()
	tr.Expect(`{ name = "SELECT" && .rows > 5 }`, 1)
	tr.AtMost(`{ name = "SELECT" }`, 2)
	tr.Within(`{ name = "GET /slow" }`, time.Second)
	tr.Within(`{ name = "SELECT" }`, time.Microsecond)
	tr.Eventually(`{ name = "nosuch" }`, 1, 5*time.Millisecond)
	tr.ExpectNone(`{ message = "cart loaded" || message = "by OpenTelemetry" }`)
	tr.Golden(t, "testdata/request.tree")
	t.Run("of/its own", func(t *testing.T) {
		tr := entracetest.New(t)
		tr.Logger().Log(t.Context(), slog.LevelDebug-4, "a \x1b[31mred\x1b[0m text")
		tr.Expect("{ nosuch", 1)
	})
}

// TestFailure: a failing test prints the reason, writes its trace to a file, and reports the file's name as
// a test attribute. The script of the CI action finds these files in the output of go test -json.
func TestFailure(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script needs a shell")
	}
	dir := t.TempDir()
	// go test would build and start the same program.
	self, err := os.Executable()
	expect.Must(t, err)
	cmd := exec.CommandContext(t.Context(), "go", "tool", "test2json", self, "-test.v=test2json", "-test.run=^TestFailing$")
	cmd.Env = append(os.Environ(), failing+"=1", "ENTRACE_TEST_DIR="+dir, "ENTRACE_UPDATE=")
	out, err := cmd.Output()
	if err == nil {
		t.Fatalf("it did not fail:\n%s", out)
	}
	var text strings.Builder
	paths := make(map[string]string)
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Key, Value, Output string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		text.WriteString(e.Output)
		if e.Action == "attr" && e.Key == "entrace.trace" {
			paths[e.Test] = e.Value
		}
	}
	for _, want := range []string{
		`{ name = "SELECT" && .rows > 5 } selects 0 rows, want 1`, "the nearest others:", "not .rows > 5: it is 2",
		`{ name = "SELECT" } selects 3 rows, want at most 2`, "selects 1 row, longer than 1s", "GET /slow not ended",
		"selects 3 rows, longer than 1µs", "want 1 or more within 5ms", "not name = \"nosuch\": it is GET /cart",
		`selects 2 rows, want 0`, "  + GET /slow not ended", "\x1b",
		"    GET /cart ", "      INFO cart loaded items=3 password=[redacted]", "    entrace view " + paths["TestFailing"],
		"entracetest: ", `DEBUG-4 a red text`,
	} {
		if strings.Contains(text.String(), want) == (want == "\x1b") {
			t.Errorf("%q is there: %v", want, want == "\x1b")
		}
	}
	if t.Failed() {
		t.Log(text.String())
	}
	if len(paths) != 2 || filepath.Dir(paths["TestFailing"]) != dir {
		t.Fatalf("the traces are %v", paths)
	}
	if fi, err := os.Stat(paths["TestFailing"]); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	tr, err := convert.Open(t.Context(), []string{paths["TestFailing"]}, nil)
	expect.Must(t, err)
	if s := tr.State(tr.View(), 0); s.Word != "ended" || tr.View().Len() < 7 {
		t.Errorf("it is %v with %d rows", s, tr.View().Len())
	}
	_ = tr.Close()

	artifacts := t.TempDir()
	cmd = exec.CommandContext(t.Context(), self, "-test.v", "-test.run=^TestFailing$", "-test.artifacts", "-test.outputdir="+artifacts)
	cmd.Env = append(os.Environ(), failing+"=1", "ENTRACE_TEST_DIR="+dir)
	if text, err := cmd.Output(); err == nil || !bytes.Contains(text, []byte("entrace view "+filepath.Join(artifacts, "_artifacts"))) {
		t.Errorf("with -artifacts: %v\n%s", err, text)
	}

	report := filepath.Join(dir, "test.json")
	expect.Must(t, os.WriteFile(report, out, 0o600))
	kept := filepath.Join(dir, "kept")
	if out, err := exec.CommandContext(t.Context(), "sh", "collect.sh", report, kept).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for test, path := range paths {
		for _, ext := range []string{"", ".html"} {
			expect.Is(t, expect.Err(os.Stat(filepath.Join(kept, filepath.Base(path)+ext))), nil, "%s", test)
		}
	}
	action, err := os.ReadFile("../action.yml")
	if err != nil || !bytes.Contains(action, []byte(`sh "$GITHUB_ACTION_PATH/entracetest/collect.sh" "$REPORT" "$DIR"`)) {
		t.Errorf("action.yml does not call the script: %v", err)
	}
}

// BenchmarkSpan measures the recording of a span with two attributes, from start to end.
func BenchmarkSpan(b *testing.B) {
	tracer := entracetest.New(b).TracerProvider().Tracer("shop")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_, span := tracer.Start(context.Background(), "SELECT", trace.WithAttributes(attribute.Int("rows", i), attribute.String("table", "things")))
		span.End()
	}
}
