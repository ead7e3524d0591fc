package entracefilereceiver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/entrace-go/entrace/collector/entracefilereceiver"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// envDies is an environment variable. If it is set, the test program records to the file that it
// names, and waits until it is killed.
const envDies = "ENTRACE_TEST_DIES"

func TestMain(m *testing.M) {
	if path := os.Getenv(envDies); path != "" {
		t := new(testing.T)
		app := record(t, path, nil)
		app.span("whole")
		fmt.Println("begun")
		_, _ = os.Stdin.Read(make([]byte, 1))
		for i := range deathSpans {
			app.span(fmt.Sprint("dying ", i))
		}
		app.begin("open")
		fmt.Println("done")
		select {}
	}
	goleak.VerifyTestMain(m)
}

// deathSpans is the number of spans that a program records right before it is killed.
const deathSpans = 200

var must = expect.Must

// A next is the component after the receiver. It counts the spans by name and the log records by text.
type next struct {
	mu     sync.Mutex
	came   map[string]int
	open   map[string]bool // by name: whether the span had not ended
	refuse []error         // results of the first calls
	calls  int
	logged *observer.ObservedLogs
}

func (n *next) answer() error {
	n.calls++
	if n.calls <= len(n.refuse) {
		return n.refuse[n.calls-1]
	}
	return nil
}

func (n *next) traces(_ context.Context, td ptrace.Traces) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.answer(); err != nil {
		return err
	}
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				n.came[s.Name()]++
				n.open[s.Name()] = s.EndTimestamp() == 0
			}
		}
	}
	return nil
}

func (n *next) logs(_ context.Context, ld plog.Logs) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, rl := range ld.ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, l := range sl.LogRecords().All() {
				n.came[l.Body().Str()]++
			}
		}
	}
	return nil
}

// wait waits until all records with these names or texts have arrived.
func (n *next) wait(t testing.TB, names ...string) {
	t.Helper()
	n.until(t, fmt.Sprint(names), func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return n.came[name] == 0 })
	})
}

// until waits for a condition.
func (n *next) until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 6000 {
		n.mu.Lock()
		ok := is()
		n.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	t.Fatalf("%s did not happen; these came: %v; it logged %v", what, n.came, n.logged.All())
}

// only checks that each of these records has arrived exactly once, and no other record.
func (n *next) only(t testing.TB, names ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	want := make(map[string]int)
	for _, name := range names {
		want[name] = 1
	}
	if !maps.Equal(n.came, want) {
		for k, v := range n.came {
			if v != 1 {
				t.Log(k, v)
			}
		}
		for _, e := range n.logged.All() {
			t.Log(e.Time.UnixNano()%1e12, e.Message, e.ContextMap())
		}
		t.Errorf("these came")
	}
}

func configOf(written map[string]any) (*entracefilereceiver.Config, error) {
	cfg := entracefilereceiver.NewFactory().CreateDefaultConfig().(*entracefilereceiver.Config)
	if err := confmap.NewFromStringMap(written).Unmarshal(cfg); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// create returns the receivers of both signals of a configuration.
func create(t testing.TB, n *next, written map[string]any) []component.Component {
	t.Helper()
	written["poll_interval"] = "5ms"
	cfg, err := configOf(written)
	must(t, err)
	n.came, n.open = make(map[string]int), make(map[string]bool)
	f := entracefilereceiver.NewFactory()
	set := receivertest.NewNopSettings(f.Type())
	core, logged := observer.New(zap.InfoLevel)
	set.Logger, n.logged = zap.New(core), logged
	toTraces, err := consumer.NewTraces(n.traces)
	must(t, err)
	toLogs, err := consumer.NewLogs(n.logs)
	must(t, err)
	traces, err := f.CreateTraces(t.Context(), set, cfg, toTraces)
	must(t, err)
	logs, err := f.CreateLogs(t.Context(), set, cfg, toLogs)
	must(t, err)
	return []component.Component{traces, logs}
}

// start starts the receivers until the test ends.
func start(t testing.TB, n *next, written map[string]any) {
	t.Helper()
	for _, c := range create(t, n, written) {
		must(t, c.Start(t.Context(), componenttest.NewNopHost()))
		t.Cleanup(func() { must(t, c.Shutdown(context.Background())) })
	}
}

// A program records spans and log records.
type program struct {
	t     testing.TB
	rec   *recorder.Recorder
	batch *recorder.Batch
	spans int
}

var below = otel.Where{Trace: true, Parent: true}

func record(t testing.TB, path string, o *recorder.Options) *program {
	t.Helper()
	rec, err := recorder.Create(path, o)
	must(t, err)
	t.Cleanup(func() { _ = rec.Close(context.Background()) }) // most tests have closed it already
	return &program{t: t, rec: rec, batch: rec.Batch()}
}

// begin records the start of a span.
func (p *program) begin(name string) *otel.Span {
	p.t.Helper()
	p.spans++
	s := &otel.Span{Name: name, TraceID: [16]byte{1}, SpanID: [8]byte{6: byte(p.spans >> 8), 7: byte(p.spans)}, Start: int64(1_700_000_000_000_000_000 + p.spans), Kind: otel.KindInternal}
	p.batch.Span(&recorder.Span{Ref: format.SpanRef{TraceID: s.TraceID, SpanID: s.SpanID}, Time: s.Start, Open: true})
	s.Write(inside.OfBatch(p.batch), below, &s.Attributes)
	must(p.t, p.batch.Write())
	return s
}

// end records the end of a span.
func (p *program) end(s *otel.Span) {
	p.t.Helper()
	s.Ended, s.Duration = true, 5
	p.batch.EndSpan(format.SpanRef{TraceID: s.TraceID, SpanID: s.SpanID}, s.End())
	s.WriteEnd(inside.OfBatch(p.batch), false, &s.Attributes)
	must(p.t, p.batch.Write())
}

// span records a span.
func (p *program) span(name string) {
	p.t.Helper()
	p.end(p.begin(name))
}

// say records a log record.
func (p *program) say(text string) {
	p.t.Helper()
	l := &otel.Log{Body: otel.Any{Kind: otel.String, Text: text}, Time: 1_700_000_000_000_000_000, HasTime: true}
	p.batch.Log(format.SpanRef{}, l.Time)
	l.Write(inside.OfBatch(p.batch), otel.Where{}, &l.Attributes)
	must(p.t, p.batch.Write())
}

func (p *program) flush() {
	p.t.Helper()
	must(p.t, p.rec.Flush(p.t.Context()))
}

func (p *program) close() {
	p.t.Helper()
	must(p.t, p.rec.Close(p.t.Context()))
}

// copyFile copies the file of a running recorder. The copy is not locked, so it looks like the file of
// a dead process.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, b, 0o600))
}

// TestSendsFilesFromTheirBeginning: with start_at beginning, all records are sent. The files are in a
// folder or are named themselves, and are finished or still growing.
func TestSendsFilesFromTheirBeginning(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	first := record(t, filepath.Join(dir, "first.et"), nil)
	first.span("first")
	first.say("hello")
	first.begin("never ends")
	first.close()
	second := record(t, filepath.Join(dir, "second.et"), nil)
	second.span("second")
	second.flush()
	third := record(t, filepath.Join(other, "third.iet"), nil)
	third.span("third")
	third.close()
	ignored := record(t, filepath.Join(other, "ignored.et"), nil)
	ignored.span("ignored")
	ignored.close()
	must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("no trace"), 0o600))

	var n next
	start(t, &n, map[string]any{"paths": []string{dir, filepath.Join(other, "third.et")}, "start_at": "beginning"})
	n.wait(t, "first", "hello", "never ends", "second", "third")
	later := record(t, filepath.Join(dir, "later.et"), nil)
	later.span("later")
	later.close()
	second.span("more")
	second.close()
	n.wait(t, "later", "more")
	n.only(t, "first", "hello", "never ends", "second", "third", "later", "more")
	if !n.open["never ends"] || n.open["first"] {
		t.Errorf("these spans are open: %v", n.open)
	}
}

// TestStartsAtTheEnd: records that exist at the start are not sent, except spans that end later. When
// a followed file becomes an ET, its records are not sent again.
func TestStartsAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	old := record(t, filepath.Join(dir, "old.et"), nil)
	old.span("old")
	old.close()
	app := record(t, filepath.Join(dir, "app.et"), nil)
	app.span("before")
	app.say("said before")
	long := app.begin("long")
	app.flush()
	var n next
	start(t, &n, map[string]any{"paths": []string{dir}})
	app.end(long)
	app.span("after")
	app.say("said after")
	n.wait(t, "long", "after", "said after")
	app.span("last")
	app.close()
	n.wait(t, "last")
	after := record(t, filepath.Join(dir, "next.et"), nil)
	after.span("next")
	after.close()
	n.wait(t, "next")
	n.only(t, "long", "after", "said after", "last", "next")
}

// TestFollowsRotation: each span is sent once, even if it is open in several files.
func TestFollowsRotation(t *testing.T) {
	dir := t.TempDir()
	var n next
	start(t, &n, map[string]any{"paths": []string{dir}})
	app := record(t, filepath.Join(dir, "app.et"), &recorder.Options{MaxFileEntries: 40})
	long := app.begin("long")
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("span ", i), fmt.Sprint("log ", i))
		app.span(names[2*i])
		app.say(names[2*i+1])
		app.flush()
	}
	app.end(long)
	app.close()
	names = append(names, "long")
	n.wait(t, names...)
	after := record(t, filepath.Join(dir, "next.et"), nil)
	after.span("next")
	after.close()
	n.wait(t, "next")
	n.only(t, append(names, "next")...)
	if files := app.rec.Stats().Files; files < 3 {
		t.Errorf("there were %d files", files)
	}
}

// TestFollowsRotationOfANamedFile: if a path names a file, the receiver also reads the files that the program began
// and renamed while the receiver could not look, because the next component was slow.
func TestFollowsRotationOfANamedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	app := record(t, path, &recorder.Options{MaxFileEntries: 40})
	var names []string
	add := func(n int) {
		for range n {
			name := fmt.Sprint("span ", len(names))
			names = append(names, name)
			app.span(name)
			app.flush()
		}
	}
	add(1)
	var n next
	start(t, &n, map[string]any{"paths": []string{path}, "start_at": "beginning"})
	n.wait(t, names...)
	n.mu.Lock() // the receiver waits in the next message
	add(200)
	app.close()
	n.mu.Unlock()
	n.wait(t, names...)
	n.only(t, names...)
	if files := app.rec.Stats().Files; files < 3 {
		t.Errorf("there were %d files", files)
	}
}

// TestSendsWhatADeadWriterLeft: spans that were open when the writer died are sent as open spans. When
// the file is recovered, nothing is sent again.
func TestSendsWhatADeadWriterLeft(t *testing.T) {
	dir := t.TempDir()
	app := record(t, filepath.Join(t.TempDir(), "app.et"), nil)
	app.span("whole")
	app.begin("open")
	app.flush()
	dead := filepath.Join(dir, "app.iet")
	copyFile(t, app.rec.StreamPath(), dead)
	var n next
	start(t, &n, map[string]any{"paths": []string{dir}, "start_at": "beginning"})
	n.wait(t, "whole", "open")
	if !n.open["open"] {
		t.Error("the open span has an end")
	}
	_, err := recorder.Recover(dead, filepath.Join(dir, "app.et"))
	must(t, err)
	must(t, os.Remove(dead))
	after := record(t, filepath.Join(dir, "next.et"), nil)
	after.span("next")
	after.close()
	n.wait(t, "next")
	n.only(t, "whole", "open", "next")
}

// TestStartsAtTheEndOfWhatADeadWriterLeft: with start_at end, open spans of a dead writer are not
// sent. Otherwise each start of the Collector would send them.
func TestStartsAtTheEndOfWhatADeadWriterLeft(t *testing.T) {
	dir := t.TempDir()
	app := record(t, filepath.Join(t.TempDir(), "app.et"), nil)
	app.begin("open")
	app.flush()
	copyFile(t, app.rec.StreamPath(), filepath.Join(dir, "app.iet"))
	var n next
	start(t, &n, map[string]any{"paths": []string{dir}})
	n.until(t, "the end of the file", func() bool { return n.logged.FilterMessage("finished reading a file").Len() == 2 })
	n.only(t)
}

// TestSendsTheJournalOfAKilledWriter: if the writer of a followed file is killed, the receiver also
// sends the last records, which are only in the journal.
func TestSendsTheJournalOfAKilledWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.et")
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envDies+"="+path)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said := bufio.NewScanner(out)
	said.Scan()
	var n next
	start(t, &n, map[string]any{"paths": []string{dir}, "start_at": "beginning"})
	n.wait(t, "whole")
	_, err = in.Write([]byte{1})
	must(t, err)
	said.Scan()
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // an error, because the process was killed
	names := []string{"whole", "open"}
	for i := range deathSpans {
		names = append(names, fmt.Sprint("dying ", i))
	}
	n.wait(t, names...)
	must(t, recorder.RecoverFolder(t.Context(), dir, func(_ *recorder.Report, err error) { must(t, err) }))
	after := record(t, filepath.Join(dir, "next.et"), nil)
	after.span("next")
	after.close()
	n.wait(t, "next")
	n.only(t, append(names, "next")...)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file was not recovered: %v", err)
	}
}

// TestDamagedFileIsSentAsFarAsItIsWhole: the records before the damage are sent, and the log names the
// file.
func TestDamagedFileIsSentAsFarAsItIsWhole(t *testing.T) {
	dir, made := t.TempDir(), t.TempDir()
	app := record(t, filepath.Join(made, "app.iet"), nil)
	for i := range 3 {
		app.span(fmt.Sprint("span ", i))
	}
	app.close()
	b, err := os.ReadFile(filepath.Join(made, "app.iet"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "cut.iet"), b[:len(b)-100], 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "none.et"), []byte("no trace at all"), 0o600))
	var n next
	start(t, &n, map[string]any{"paths": []string{dir}, "start_at": "beginning"})
	n.wait(t, "span 0", "span 1")
	for _, file := range []string{"cut.iet", "none.et"} {
		n.until(t, "a warning of "+file, func() bool {
			for _, e := range n.logged.FilterLevelExact(zap.WarnLevel).All() {
				if path, _ := e.ContextMap()["file"].(string); filepath.Base(path) == file && e.ContextMap()["error"] != "" {
					return true
				}
			}
			return false
		})
	}
}

// TestWaitsForTheNextComponent: a message that the next component refuses is sent again until it is
// accepted. A message that it refuses permanently is logged.
func TestWaitsForTheNextComponent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	app := record(t, path, nil)
	app.span("first")
	app.close()
	busy := errors.New("busy")
	n := next{refuse: []error{busy, fmt.Errorf("also: %w", busy)}}
	start(t, &n, map[string]any{"paths": []string{path}, "start_at": "beginning"})
	n.wait(t, "first")
	n.only(t, "first")

	bad := next{refuse: []error{fmt.Errorf("fan out: %w", errors.Join(busy, consumererror.NewPermanent(errors.New("never"))))}}
	start(t, &bad, map[string]any{"paths": []string{path}, "start_at": "beginning"})
	bad.until(t, "the error", func() bool {
		return bad.logged.FilterMessage("the next component refused records permanently: they are lost").Len() == 1
	})
	bad.only(t)
}

// TestShutdownWhileTheNextComponentRefuses: Shutdown does not wait until the next component accepts a
// message.
func TestShutdownWhileTheNextComponentRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	app := record(t, path, nil)
	app.span("first")
	app.close()
	n := next{refuse: slices.Repeat([]error{errors.New("busy")}, 1000)}
	parts := create(t, &n, map[string]any{"paths": []string{path}, "start_at": "beginning"})
	must(t, parts[0].Start(t.Context(), componenttest.NewNopHost()))
	n.until(t, "a call", func() bool { return n.calls > 0 })
	must(t, parts[0].Shutdown(t.Context()))
	n.only(t)
}

// TestLifecycle: a Collector that fails to start calls Shutdown for components that it has not
// started, and may call it twice.
func TestLifecycle(t *testing.T) {
	var n next
	for _, c := range create(t, &n, map[string]any{"paths": []string{filepath.Join(t.TempDir(), "none.et")}}) {
		must(t, c.Shutdown(t.Context()))
		must(t, c.Start(t.Context(), componenttest.NewNopHost()))
		must(t, c.Shutdown(t.Context()))
		must(t, c.Shutdown(t.Context()))
	}
}

// TestDefaultConfigHasTagsOfFields is the Collector's own check of a configuration.
func TestDefaultConfigHasTagsOfFields(t *testing.T) {
	must(t, componenttest.CheckConfigStruct(entracefilereceiver.NewFactory().CreateDefaultConfig()))
}

func TestConfig(t *testing.T) {
	for _, test := range []struct {
		name    string
		written map[string]any
		says    string // part of the error; "": the configuration is valid
	}{
		{"smallest", map[string]any{"paths": []string{"a.et"}}, ""},
		{"full", map[string]any{"paths": []string{"a.et", "traces"}, "start_at": "beginning", "poll_interval": "1s"}, ""},
		{"no paths", nil, "paths: must list at least one file or folder"},
		{"an empty path", map[string]any{"paths": []string{"a.et", ""}}, "paths: must list at least one file or folder"},
		{"start", map[string]any{"paths": []string{"a.et"}, "start_at": "now"}, `start_at: must be beginning or end, not "now"`},
		{"poll", map[string]any{"paths": []string{"a.et"}, "poll_interval": "0s"}, "poll_interval: must be above zero"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := configOf(test.written)
			if test.says == "" {
				must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, want %q", err, test.says)
			}
		})
	}
}
