package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/tracetest"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/recorder"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// entrace runs the command as a shell does.
func entrace(t *testing.T, stdin []byte, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, bytes.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

// isRecording is what the command says on standard error of a growing file.
var isRecording = regexp.MustCompile(`entrace: .*: still running.*: run again for what is newer\n`)

// hasCopies is what the command says on standard error of files that share rows.
var hasCopies = regexp.MustCompile(`entrace: \d+ rows? (is|are) in several files, shown once\n`)

// fine runs the command and wants exit status 0 and nothing on standard error, but that a file
// is growing or shares rows with another one.
func fine(t *testing.T, stdin []byte, args ...string) string {
	t.Helper()
	code, out, errs := entrace(t, stdin, args...)
	errs = hasCopies.ReplaceAllString(isRecording.ReplaceAllString(errs, ""), "")
	if code != exitFine || errs != "" {
		t.Fatalf("entrace %s: exit %d, %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// here is where the tests begin; some go elsewhere.
var here, _ = os.Getwd()

func fixture(name string) string { return filepath.Join(here, "..", "..", "format", "testdata", name) }

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return b
}

func named(name string) *format.TraceEntry {
	return &format.TraceEntry{Metadata: format.Metadata{Name: name}}
}

// sampleTrace records a little of everything and leaves it open.
func sampleTrace(t *testing.T, name string) *recorder.Recorder {
	t.Helper()
	rec, err := recorder.Create(name, nil)
	must(t, err)
	t.Cleanup(func() { must(t, rec.Close(context.Background())) })
	res, err := rec.Resource(&format.TraceEntry{Message: format.Some("shop"), Metadata: format.Metadata{Name: format.NameResource, Level: format.LevelInfo}})
	must(t, err)
	begun := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	span := func(id, parent byte, name string, d time.Duration) *tracetest.Span {
		s := &tracetest.Span{Span: recorder.Span{Resource: res, Ref: format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{7: id}}}}
		if parent > 0 {
			s.Parent = format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{7: parent}}
		}
		s.Entry.Metadata = format.Metadata{Name: name, Target: "scope", Level: format.LevelInfo}
		s.Entry.Attributes = []format.Attribute{
			{Name: format.AttrSpanID, Value: format.StringValue(string(wire.AppendHex(nil, s.Ref.SpanID[:])))},
			{Name: format.AttrTime, Value: format.TimeValue(begun.Add(time.Duration(id) * time.Millisecond))},
			{Name: "path", Value: format.StringValue("/cart?x=1 2")},
		}
		if d >= 0 {
			s.Entry.Attributes = append(s.Entry.Attributes, format.Attribute{Name: format.AttrDuration, Value: format.U64Value(uint64(d))})
		}
		return s
	}
	get := span(1, 0, "GET /cart", 12345*time.Microsecond)
	get.Entry.Metadata.Level = format.LevelError
	get.Entry.Attributes = append(get.Entry.Attributes,
		format.Attribute{Name: mapping.AttrKind, Value: format.StringValue("server")},
		format.Attribute{Name: mapping.AttrStatusDescription, Value: format.StringValue("no luck")})
	get.Children = []format.TraceEntry{
		{Metadata: format.Metadata{Name: "exception", Level: format.LevelError}, Attributes: []format.Attribute{{Name: mapping.AttrEvent, Value: format.BoolValue(true)}}},
		{Metadata: format.Metadata{Name: mapping.NameLink}, Attributes: []format.Attribute{
			{Name: mapping.AttrLinkTraceID, Value: format.StringValue("ab")}, {Name: mapping.AttrLinkSpanID, Value: format.StringValue("cd")},
		}},
	}
	must(t, tracetest.WriteSpan(rec, get))
	must(t, tracetest.WriteSpan(rec, span(2, 1, "SELECT", -1)))
	must(t, rec.Log(get.Ref, &format.TraceEntry{
		Message: format.Some("cart loaded"), Metadata: format.Metadata{Name: "event main.go:1", Level: format.LevelWarn},
		Attributes: []format.Attribute{
			{Name: format.AttrTime, Value: format.TimeValue(begun.Add(time.Second))},
			{Name: "n", Value: format.I64Value(-3)},
			{Name: "f", Value: format.FloatValue(2)},
			{Name: "ok", Value: format.BoolValue(true)},
			{Name: "raw", Value: format.BytesValue([]byte{1, 255})},
		},
	}))
	must(t, rec.Flush(context.Background()))
	return rec
}

func TestCatFixtures(t *testing.T) {
	for _, name := range []string{"v1.iet", "v1.ietprefix", "v1.et", "v2.iet", "v2.et"} {
		want := strings.Split(strings.TrimSpace(string(read(t, fixture(name[:2]+".txt")))), "\n")
		for _, out := range []string{fine(t, nil, "cat", "--json", fixture(name)), fine(t, read(t, fixture(name)), "cat", "--json", "-")} {
			got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			if len(got) != len(want) {
				t.Fatalf("%s: %d lines, want %d", name, len(got), len(want))
			}
			for i := range got {
				// The crate escapes less than is safe on a terminal.
				line := strings.NewReplacer(`\u007f`, "\x7f", `\u2028`, "\u2028").Replace(got[i])
				if line != want[i] {
					t.Errorf("%s, entry %d:\n got %s\nwant %s", name, i, line, want[i])
				}
			}
		}
	}
}

func TestCatShape(t *testing.T) {
	rec := sampleTrace(t, filepath.Join(t.TempDir(), "app.iet"))
	_, err := rec.Append(&format.TraceEntry{
		Parent:   3,
		Metadata: format.Metadata{Name: "…", Target: "t", File: format.Some("f"), Line: format.Some(uint32(124))},
		Attributes: []format.Attribute{
			{Name: "tick", Value: format.U64Value(0)},
			{Name: "b", Value: format.BytesValue([]byte{0, 255})},
			{Name: "f", Value: format.FloatValue(nan())},
			{Name: "g", Value: format.FloatValue(3)},
		},
	})
	must(t, err)
	lines := strings.Split(strings.TrimSpace(fine(t, nil, "cat", "--json", rec.Path())), "\n")
	want := `{"id":7,"parent":3,"message":null,"name":"…","target":"t","level":"TRACE","module_path":null,"file":"f","line":124,"attributes":[["tick",{"U64":0}],["b",{"Bytes":"00ff"}],["f",{"Float":"NaN"}],["g",{"Float":3.0}]]}`
	if got := lines[len(lines)-1]; got != want {
		t.Errorf("the line is\n%s\nwant\n%s", got, want)
	}
}

func nan() float64 { var zero float64; return zero / zero }

func TestCatText(t *testing.T) {
	rec := sampleTrace(t, filepath.Join(t.TempDir(), "app.et"))
	out := fine(t, nil, "cat", rec.Path())
	want := `6 <2 2026-01-02T03:04:06.000000006Z WARN event main.go:1: cart loaded n=-3 f=2.0 ok=true raw=0x01ff` + "\n"
	if !strings.HasSuffix(out, want) {
		t.Errorf("it prints\n%s, want at the end\n%s", out, want)
	}
}

const sampleTree = `app.iet running: 2 spans, 1 log record, 1 error, 999ms
└─ shop resource
   └─ ERROR GET /cart 12.3ms server no luck path="/cart?x=1 2"
      ├─ → link ab cd
      ├─ ERROR • exception
      ├─ SELECT not ended, ≥ 998ms path="/cart?x=1 2"
      └─ WARN cart loaded n=-3 f=2.0 ok=true raw=0x01ff
`

// withoutPID removes the process id from the first line, which not all systems know.
func withoutPID(tree string) string {
	return strings.Replace(tree, fmt.Sprintf("running (pid %d)", os.Getpid()), "running", 1)
}

func TestTree(t *testing.T) {
	t.Chdir(t.TempDir())
	sampleTrace(t, "app.et")
	if got := withoutPID(fine(t, nil, "tree", "app.et")); got != sampleTree {
		t.Errorf("it prints\n%s, want\n%s", got, sampleTree)
	}
	if got, want := withoutPID(fine(t, nil, "tree", "--depth", "1", "app.et")), strings.Join(strings.SplitAfter(sampleTree, "\n")[:2], ""); got != want {
		t.Errorf("with --depth 1 it prints\n%s, want\n%s", got, want)
	}
	if got := fine(t, nil, "tree", "--no-attributes", "app.et"); strings.Contains(got, "path=") || !strings.Contains(got, "SELECT not ended, ≥ 998ms\n") {
		t.Errorf("with --no-attributes it prints\n%s", got)
	}
	out := fine(t, read(t, "app.iet"), "tree", "-")
	if _, got, _ := strings.Cut(out, "\n"); got != sampleTree[strings.Index(sampleTree, "\n")+1:] {
		t.Errorf("of the standard input it prints\n%s", out)
	}
}

// TestTreeState checks that the first line says what the state of the trace is, and that
// entrace.end is shown only if something was dropped.
func TestTreeState(t *testing.T) {
	t.Chdir(t.TempDir())
	first := func(args ...string) string {
		t.Helper()
		line, _, _ := strings.Cut(fine(t, nil, append([]string{"tree"}, args...)...), "\n")
		_, line, _ = strings.Cut(line, " ")
		state, _, _ := strings.Cut(line, ": 2 spans")
		state, _, _ = strings.Cut(state, ": 0 spans")
		state, _, _ = strings.Cut(state, ": 4 spans")
		return state
	}
	rec := sampleTrace(t, "app.et")
	must(t, os.WriteFile("killed.iet", read(t, "app.iet"), 0o600)) // which nobody has locked
	want := "running"
	if state, pid := osfile.LockHolder("app.iet"); state != osfile.LockHeld {
		t.Errorf("the lock of a recording is %v", state)
	} else if pid > 0 {
		want = fmt.Sprintf("running (pid %d)", os.Getpid())
	}
	if got := first("app.et"); got != want {
		t.Errorf("of a recording it says %q, want %q", got, want)
	}
	must(t, rec.Close(t.Context()))
	_, rest, _ := strings.Cut(sampleTree, "\n")
	want = "app.et ended: 2 spans, 1 log record, 1 error, 999ms\n" + rest
	if got := fine(t, nil, "tree", "app.et"); got != want {
		t.Errorf("of what has ended it prints\n%s, want\n%s", got, want)
	}
	if got := first("killed.iet"); got != "killed" {
		t.Errorf("of what was killed it says %q", got)
	}
	if got := fine(t, read(t, "killed.iet"), "tree", "-"); !strings.HasPrefix(got, "standard input killed: 2 spans") {
		t.Errorf("of the standard input it says %q", got)
	}
	fine(t, nil, "convert", "killed.iet", "killed.et")
	if got := first("killed.et"); got != "killed, recovered" {
		t.Errorf("of an ET without an end it says %q", got)
	}
	if text := fine(t, nil, "info", "killed.iet"); !strings.Contains(text, "state        killed\n") {
		t.Errorf("info says\n%s", text)
	}

	// A trace with a dropped entry.
	rec, err := recorder.Create("lossy.et", nil)
	must(t, err)
	must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("said"), Metadata: named("event").Metadata}))
	if err := rec.Log(format.SpanRef{}, &format.TraceEntry{Metadata: format.Metadata{Name: "event", Level: 200}}); err == nil {
		t.Error("an entry of no level is taken")
	}
	must(t, rec.Close(t.Context()))
	out := fine(t, nil, "tree", "lossy.et")
	if !strings.HasPrefix(out, "lossy.et ended, 1 entry dropped: 0 spans, 1 log record\n") ||
		!strings.Contains(out, "├─ TRACE said\n") || !strings.HasSuffix(out, "└─ TRACE entrace.end entries=2 dropped=1 dropped.invalid=1\n") {
		t.Errorf("it prints\n%s", out)
	}
	// A merged trace has the ends of both parts.
	fine(t, nil, "merge", "app.et", "lossy.et", "-o", "both.et")
	out = fine(t, nil, "tree", "both.et")
	if !strings.HasPrefix(out, "both.et ended, 1 entry dropped: 2 spans, 2 log records, 1 error, 999ms\n") || strings.Count(out, "entrace.end") != 1 {
		t.Errorf("it prints\n%s", out)
	}

	// A merged trace is not complete if one of its parts is not.
	for _, names := range [][]string{{"killed.et", "app.et"}, {"app.et", "killed.et"}} {
		fine(t, nil, "merge", names[0], names[1], "-o", "half.et", "--force")
		if got := first("half.et"); got != "killed, recovered" {
			t.Errorf("of %q together it says %q", names, got)
		}
	}

	// A rotated trace.
	rec, err = recorder.Create("long.et", &recorder.Options{MaxFileEntries: 20})
	must(t, err)
	for range 30 {
		must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("said"), Metadata: named("event").Metadata}))
		must(t, rec.Flush(context.Background()))
	}
	must(t, rec.Close(t.Context()))
	parts, err := filepath.Glob("long.2*.et")
	must(t, err)
	if len(parts) != 1 || first(parts[0]) != "ended, another file follows" || first("long.et") != "ended" {
		t.Errorf("of %q it says %q, of the last one %q", parts, first(parts[0]), first("long.et"))
	}
}

func TestTreeColor(t *testing.T) {
	t.Chdir(t.TempDir())
	sampleTrace(t, "app.et")
	var out bytes.Buffer
	a := &app{out: &out, err: io.Discard, color: true}
	must(t, a.tree(t.Context(), []string{"app.et"}, &treeOptions{lookFlags: lookFlags{time: timeNone}}))
	plain := regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(out.String(), "")
	if withoutPID(plain) != sampleTree || !strings.Contains(out.String(), "\x1b[31mERROR\x1b[0m") {
		t.Errorf("with colors it prints\n%q", out.String())
	}
}

// TestTreeDeep prints a chain that is far deeper than any terminal is wide.
func TestTreeDeep(t *testing.T) {
	name := filepath.Join(t.TempDir(), "deep.iet")
	b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
	for i := range 100000 {
		e := named("x")
		e.Parent = uint32(i)
		b = format.AppendTraceEntry(b, format.V1, e)
	}
	must(t, os.WriteFile(name, b, 0o600))
	out := fine(t, nil, "tree", name)
	if !strings.Contains(out, "⋯100000 TRACE x") || len(out) > 200*100000 {
		t.Errorf("it prints %d bytes", len(out))
	}
}

func TestInfo(t *testing.T) {
	t.Chdir(t.TempDir())
	rec := sampleTrace(t, "app.et")
	var live info
	must(t, json.Unmarshal([]byte(fine(t, nil, "info", "--json", "app.et")), &live))
	if !live.Live || live.Format != "iet" || live.Ended {
		t.Errorf("of a living writer's file it says %+v", live)
	}
	must(t, rec.Close(t.Context()))
	var got map[string]any
	must(t, json.Unmarshal([]byte(fine(t, nil, "info", "--json", "app.et")), &got))
	fi, err := os.Stat("app.et")
	must(t, err)
	for key, want := range map[string]any{
		"version": 1.0, "format": "et", "entries": 8.0, "bytes": float64(fi.Size()), "valid_bytes": float64(fi.Size()), "spans": 2.0, "open_spans": 1.0,
		"logs": 1.0, "events": 1.0, "links": 1.0, "max_depth": 3.0, "services": []any{"shop"}, "ended": true, "live": false, "cut": "clean",
		"first_time": "2026-01-02T03:04:05.001000006Z", "last_time": "2026-01-02T03:04:06.000000006Z",
	} {
		if fmt.Sprint(got[key]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	text := fine(t, nil, "info", "app.et")
	for _, want := range []string{"ET, version 1", "2, 1 of them not ended", "shop", "999ms later", "state        ended"} {
		if !strings.Contains(text, want) {
			t.Errorf("it prints\n%s, want %q in it", text, want)
		}
	}
}

// TestTorn: what is whole is printed, and the exit status is 1, unless the writer
// lives.
func TestTorn(t *testing.T) {
	t.Chdir(t.TempDir())
	whole := read(t, fixture("v1.iet"))
	must(t, os.WriteFile("torn.iet", whole[:len(whole)-5], 0o600))
	et := read(t, fixture("v2.et"))
	must(t, os.WriteFile("torn.et", et[:len(et)-5], 0o600))
	for _, name := range []string{"torn.iet", "torn.et"} {
		for _, command := range []string{"cat", "tree", "info", "tail", "verify"} {
			code, out, errs := entrace(t, nil, command, name)
			if code != exitData || command != "verify" && !strings.Contains(errs, "entry 332") {
				t.Errorf("%s %s: exit %d, %s; want 1 and the entry that is torn", command, name, code, errs)
			}
			if lines := strings.Count(out, "\n"); command == "cat" && lines != 332 || command == "tree" && lines < 332 {
				t.Errorf("%s %s: %d lines, want 332, or more of a tree", command, name, lines)
			}
		}
	}
	// A writer that lives has written a part of an entry.
	rec := sampleTrace(t, "live.et")
	f, err := os.OpenFile("live.iet", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.Write([]byte{0, 0, 9, 'x'})
	must(t, errors.Join(err, f.Close()))
	for _, command := range []string{"cat", "tree", "info", "tail", "verify"} {
		fine(t, nil, command, "live.et")
	}
	must(t, os.Truncate("live.iet", rec.Stats().Bytes))
}

func TestConvertCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	v1, v2 := fixture("v1.iet"), fixture("v2.et")
	fine(t, nil, "convert", v1, "a.et")
	fine(t, nil, "convert", "a.et", "a.iet", "--to", "iet")
	if !bytes.Equal(read(t, "a.iet"), read(t, v1)) {
		t.Error("IET to ET to IET is another file")
	}
	out := fine(t, read(t, v1), "convert", "-", "-", "--to", "et", "--version", "2")
	must(t, os.WriteFile("b.et", []byte(out), 0o600))
	if got := fine(t, nil, "verify", "b.et"); !strings.Contains(got, "333 entries, 0 problems") {
		t.Errorf("verify says %s", got)
	}
	fine(t, read(t, v2), "convert", "-", "c.ietprefix")
	fine(t, nil, "convert", v2, "c.ietprefix", "--force")
	if got := fine(t, nil, "convert", "c.ietprefix", "-", "--to", "et"); got != string(read(t, v2)) {
		t.Error("ET to IETPrefix to ET is another file")
	}
	for _, args := range [][]string{
		{"convert", v1, "a.et"},
		{"convert", v1, "-"},
		{"convert", v1, "noextension"},
		{"convert", v1, "a.xyz"},
		{"convert", v1, "d.et", "--to", "heph?"},
		{"convert", v1, "d.et", "--version", "3"},
		{"convert", v1},
		{"convert", v1, "d.et", "--nonsense"},
		{"nonsense"},
		{"merge"},
		{"tail", "-n", "x", v1},
	} {
		if code, _, errs := entrace(t, nil, args...); code != exitUsage || errs == "" {
			t.Errorf("entrace %v: exit %d, %q; want 2 and a reason", args, code, errs)
		}
	}
	for _, args := range [][]string{{"convert", "missing.iet", "d.et"}, {"cat", "missing"}, {"convert", "a.et", "./a.et", "--force"}, {"info", t.TempDir()}} {
		if code, _, errs := entrace(t, nil, args...); code != exitData || errs == "" {
			t.Errorf("entrace %v: exit %d, %q; want 1 and a reason", args, code, errs)
		}
	}
}

func TestRecoverCommand(t *testing.T) {
	whole := read(t, fixture("v1.iet"))
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("app.iet", whole[:len(whole)-5], 0o600))
	out := fine(t, nil, "recover", "app.et", "-o", "copy.et", "--json")
	var r recovery
	must(t, json.Unmarshal([]byte(out), &r))
	if r.Entries != 332 || r.Cut != mapping.CutTorn || r.CutOffset != r.ValidBytes || r.Bytes != int64(len(whole)-5) || r.Discarded != r.Bytes-r.CutOffset || r.Output != "copy.et" {
		t.Errorf("it says %s", out)
	}
	if got := read(t, "app.iet"); !bytes.Equal(got, whole[:len(whole)-5]) {
		t.Error("recover -o changed the source")
	}
	out = fine(t, nil, "recover", "app.et")
	if !strings.Contains(out, "app.et: finished, 332 entries; killed, recovered\n") || !strings.Contains(out, "cut at offset") {
		t.Errorf("it says %s", out)
	}
	fine(t, nil, "verify", "app.et")
	if _, err := os.Stat("app.iet"); !errors.Is(err, os.ErrNotExist) {
		t.Error("the IET is still there")
	}
	must(t, os.WriteFile("bad.iet", append(slices.Clip(whole), 0, 7), 0o600))
	code, out, _ := entrace(t, nil, "recover", "bad.iet")
	if code != exitData || !strings.Contains(out, "bad.iet.broken") {
		t.Errorf("of a corrupt file: exit %d, %s", code, out)
	}
}

// lockedBuffer can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestTailFollow prints every entry once while they come, and ends with the
// writer.
func TestTailFollow(t *testing.T) {
	name := filepath.Join(t.TempDir(), "app.et")
	rec := sampleTrace(t, name)
	must(t, rec.Flush(t.Context()))
	var out lockedBuffer
	done := make(chan int)
	go func() {
		done <- run(t.Context(), []string{"tail", "-f", "-n", "2", "--raw", "--json", name}, nil, &out, io.Discard)
	}()
	for i := range 20 {
		_, err := rec.Append(named(fmt.Sprint("more ", i)))
		must(t, err)
		time.Sleep(time.Millisecond)
	}
	must(t, rec.Close(t.Context()))
	if code := <-done; code != exitFine {
		t.Fatalf("exit %d\n%s", code, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	first := -1
	for i, line := range lines {
		var e struct{ ID int }
		must(t, json.Unmarshal([]byte(line), &e))
		if first < 0 {
			first = e.ID
		}
		if e.ID != first+i {
			t.Errorf("line %d has entry %d, want %d", i, e.ID, first+i)
		}
	}
	if last := first + len(lines) - 1; last != 27 || first < 5 {
		t.Errorf("it printed entries %d to %d, want the last two and what came, up to 27", first, last)
	}
}

// TestSafeOutput records everything that could act on a terminal in every field,
// and looks at each byte that is printed.
func TestSafeOutput(t *testing.T) {
	evil := "a\x1b[2J\x1b]8;;http://x\x07\x00\r\n\t\x7f\u0085\u009b31m\u202e\u2066\u200f\u061c\u2028\xff" + strings.Repeat("x", 1000)
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.iet", nil)
	must(t, err)
	defer rec.Close(t.Context())
	ref := format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{1}}
	attrs := []format.Attribute{{Name: evil, Value: format.StringValue(evil)}, {Name: "b", Value: format.BytesValue([]byte(evil))}, {Name: mapping.AttrLogLevel, Value: format.StringValue(evil)}}
	md := format.Metadata{Name: "event " + evil, Target: evil, ModulePath: format.Some(evil), File: format.Some(evil)}
	res, err := rec.Resource(&format.TraceEntry{Message: format.Some(evil), Metadata: format.Metadata{Name: format.NameResource, Target: evil}, Attributes: attrs})
	must(t, err)
	s := &tracetest.Span{Span: recorder.Span{Ref: ref, Resource: res}, Entry: format.TraceEntry{Metadata: md, Attributes: append(attrs,
		format.Attribute{Name: format.AttrSpanID, Value: format.StringValue("0100000000000000")}, format.Attribute{Name: format.AttrTime, Value: format.U64Value(1)},
		format.Attribute{Name: mapping.AttrKind, Value: format.StringValue(evil)}, format.Attribute{Name: mapping.AttrStatusDescription, Value: format.StringValue(evil)})}}
	s.Children = []format.TraceEntry{{Metadata: md, Attributes: append(attrs, format.Attribute{Name: mapping.AttrEvent, Value: format.BoolValue(true)})}}
	must(t, tracetest.WriteSpan(rec, s))
	must(t, rec.Log(ref, &format.TraceEntry{Message: format.Some(evil), Metadata: md, Attributes: attrs}))
	must(t, rec.Close(t.Context()))
	for _, args := range [][]string{
		{"cat"},
		{"cat", "--json"},
		{"tree"},
		{"info"},
		{"info", "--json"},
		{"tail"},
		{"tail", "--json"},
		{"tree", "--json"},
		{"top"},
		{"top", "--json"},
		{"critical"},
		{"critical", "--json"},
		{"stats"},
		{"diff", "--allow-partial", "app.iet"},
		{"diff", "--allow-partial", "--json", "app.iet"},
		{"verify"},
		{"recover"},
	} {
		out := fine(t, nil, append(args, "app.iet")...)
		for i, r := range out {
			if r != '\n' && (unicode.IsControl(r) || jsontext.Acts(r)) {
				t.Fatalf("%v prints %U at byte %d of %q", args, r, i, out[max(0, i-20):i])
			}
		}
	}
	var e struct{ Message string }
	lines := strings.Split(strings.TrimSpace(fine(t, nil, "cat", "--json", "app.iet")), "\n")
	must(t, json.Unmarshal([]byte(lines[4]), &e))
	if want := strings.ToValidUTF8(evil, "\ufffd"); e.Message != want {
		t.Errorf("the message reads back as %q, want %q", e.Message, want)
	}
	if code, _, errs := entrace(t, nil, "cat", "\x1b[2J"); code != exitData || strings.ContainsRune(errs, '\x1b') {
		t.Errorf("exit %d, it prints %q", code, errs)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ns", 999: "999ns", 1000: "1µs", 12345: "12.3µs", 999999: "999µs", 1234567: "1.23ms", 999 * time.Millisecond: "999ms",
		1500 * time.Millisecond: "1.5s", 59900 * time.Millisecond: "59.9s", 61 * time.Second: "1m1s", 100 * time.Hour: "100h0m0s",
	} {
		if got := duration(d); got != want {
			t.Errorf("%d ns reads %s, want %s", d, got, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := fine(t, nil, "completion", shell); !strings.Contains(out, "entrace") {
			t.Errorf("completion for %s is %q", shell, out)
		}
	}
	if _, out, _ := entrace(t, nil, "__complete", "convert", "a", "b", "--to", ""); !strings.Contains(out, "ietprefix") {
		t.Errorf("--to completes to %q", out)
	}
}

// TestBrokenPipe: a reader that has had enough is no problem, and nothing stays
// in the folder for temporary files.
func TestBrokenPipe(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, args := range [][]string{{"tree", "-"}, {"cat", "-"}, {"convert", "-", "-", "--to", "et"}} {
		r, w, err := os.Pipe()
		must(t, err)
		must(t, r.Close())
		var errs bytes.Buffer
		code := run(t.Context(), args, bytes.NewReader(read(t, fixture("v1.iet"))), w, &errs)
		must(t, w.Close())
		if code != exitFine || errs.Len() > 0 {
			t.Errorf("%v: exit %d, %s", args, code, &errs)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
}

// crashBuffer makes a recording of n records which are in its crash buffer alone. It returns the
// name of the trace, which is growing until the test ends, and copies of its buffer and its file.
func crashBuffer(t *testing.T, n int) (name string, buffer, file []byte) {
	t.Helper()
	for {
		dir := t.TempDir()
		name = filepath.Join(dir, "live.et")
		rec, err := recorder.Create(name, &recorder.Options{BufferDir: dir})
		must(t, err)
		t.Cleanup(func() { must(t, rec.Close(context.Background())) })
		if d, err := rec.Durability(); d != recorder.DurabilityProcess {
			t.Skip("no crash buffer here:", err)
		}
		for i := range n {
			must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some(fmt.Sprint("record ", i)), Metadata: named("event").Metadata}))
		}
		buffer = read(t, filepath.Join(dir, "live.iet.buffer"))
		// A record that is not in the file now was in the buffer when that was read.
		if file = read(t, filepath.Join(dir, "live.iet")); !bytes.Contains(file, []byte("record ")) {
			return name, buffer, file
		}
	}
}

// TestCrashBuffer recovers what a program that was killed had not written to its
// file yet: copies of its files, at that moment, are what is left.
func TestCrashBuffer(t *testing.T) {
	live, buffer, file := crashBuffer(t, 5)
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("app.iet.buffer", buffer, 0o600))
	must(t, os.WriteFile("app.iet", file, 0o600))
	if code, _, errs := entrace(t, nil, "cat", live); code != exitFine || isRecording.ReplaceAllString(errs, "") != "" {
		t.Errorf("of a growing file cat says %s", errs)
	}
	// Every reader shows it, and changes nothing.
	for _, r := range []struct {
		args []string
		want string
	}{
		{[]string{"info", "app.et"}, "pending      5 of the entries are in the crash buffer"},
		{[]string{"tree", "app.et"}, "record 4"},
		{[]string{"cat", "app.iet"}, "record 4"},
		{[]string{"tail", "-n", "1", "app.et"}, "record 4"},
		{[]string{"verify", "app.et"}, "7 entries, 0 problems"},
		{[]string{"convert", "app.iet", "-", "--to", "iet"}, "record 4"},
		{[]string{"convert", "app.et", "-", "--to", "otlp"}, "record 4"},
		{[]string{"merge", "app.et", "-o", "-", "--to", "iet"}, "record 4"},
	} {
		code, out, errs := entrace(t, nil, r.args...)
		if code != exitFine || !strings.Contains(out, r.want) || !strings.Contains(errs, "from the crash buffer") {
			t.Errorf("%q: exit %d, prints\n%s\nand %s", r.args, code, out, errs)
		}
	}
	for _, name := range []string{"made.iet", "made.et"} {
		entrace(t, nil, "convert", "app.et", name)
		if out := fine(t, nil, "cat", name); strings.Count(out, "record ") != 5 {
			t.Errorf("convert made %s of\n%s", name, out)
		}
		must(t, os.Remove(name))
	}
	if out := fine(t, nil, "recover", "-o", "copy.et", "app.et"); !strings.Contains(out, "copy.et: saved, 7 entries (5 from the crash buffer)") {
		t.Errorf("recover -o prints\n%s", out)
	}
	if out := fine(t, nil, "recover", "app.et"); !strings.Contains(out, "app.et: finished, 7 entries (5 from the crash buffer)") {
		t.Errorf("recover prints\n%s", out)
	}
	for _, name := range []string{"copy.et", "app.et"} {
		if out := fine(t, nil, "cat", name); strings.Count(out, "record ") != 5 {
			t.Errorf("%s has\n%s", name, out)
		}
	}
	if out := fine(t, nil, "recover", "app.et"); strings.Contains(out, "crash buffer") {
		t.Errorf("a second recover prints\n%s", out)
	}
	list, err := os.ReadDir(".")
	must(t, err)
	if len(list) != 2 {
		t.Errorf("files are %v", list)
	}
}

// TestRecoverPlainFolder finishes what killed programs left in a folder, and leaves alone what
// is whole or growing.
func TestRecoverPlainFolder(t *testing.T) {
	_, buffer, file := crashBuffer(t, 1)
	ended := filepath.Join(t.TempDir(), "ended.et")
	rec, err := recorder.Create(ended, nil)
	must(t, err)
	must(t, rec.Close(t.Context()))
	t.Chdir(t.TempDir())
	for _, name := range []string{"a-1", "a-2", "a-3", "a-4"} {
		must(t, os.WriteFile(name+".iet.buffer", buffer, 0o600))
		must(t, os.WriteFile(name+".iet", file, 0o600))
	}
	fine(t, nil, "convert", ended, "whole.iet")
	must(t, os.WriteFile("text.iet", []byte("no trace"), 0o600))
	growing, err := recorder.Create("growing.et", nil)
	must(t, err)
	defer growing.Close(t.Context())
	if out := fine(t, nil, "recover", "a-1.iet", "a-2.et"); out != "a-1.et: finished, 3 entries (1 from the crash buffer); killed, recovered\na-2.et: finished, 3 entries (1 from the crash buffer); killed, recovered\n" {
		t.Errorf("of two files it prints\n%s", out)
	}
	must(t, os.Remove("a-4.iet")) // its journal is left
	if out := fine(t, nil, "recover", "."); !strings.Contains(out, "a-3.et: finished, 3 entries (1 from the crash buffer); killed, recovered\n") || !strings.Contains(out, "a-4.et: finished, 3 entries") || strings.Count(out, "\n") != 2 {
		t.Errorf("of a folder it prints\n%s", out)
	}
	if out := fine(t, nil, "recover", "."); out != ".: nothing to recover\n" {
		t.Errorf("a second time it prints\n%s", out)
	}
	var got []string
	list, err := os.ReadDir(".")
	must(t, err)
	for _, e := range list {
		got = append(got, e.Name())
	}
	if want := []string{"a-1.et", "a-2.et", "a-3.et", "a-4.et", "growing.iet", "text.iet", "whole.iet"}; !slices.Equal(slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "growing.iet.") }), want) {
		t.Errorf("there is %q, want %q", got, want)
	}
}

// TestTailRotation follows a recording from file to file.
func TestTailRotation(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", &recorder.Options{MaxFileEntries: 20})
	must(t, err)
	var out bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(t.Context(), []string{"tail", "-f", "-n", "-1", "app.et"}, strings.NewReader(""), &out, &out)
	}()
	for i := range 50 {
		must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some(fmt.Sprint("record ", i)), Metadata: named("event").Metadata}))
		must(t, rec.Flush(context.Background()))
		time.Sleep(2 * time.Millisecond)
	}
	if n := rec.Stats().Files; n < 2 {
		t.Errorf("%d files were finished", n)
	}
	time.Sleep(200 * time.Millisecond) // so that tail is there before the end
	must(t, rec.Close(t.Context()))
	select {
	case code := <-done:
		if code != exitFine {
			t.Errorf("exit %d: %s", code, out.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("tail does not end")
	}
	if got := strings.Count(out.String(), "record "); got < 20 || got > 50 {
		t.Errorf("%d records were shown:\n%s", got, out.String())
	}
	if !strings.Contains(out.String(), "record 49") {
		t.Errorf("the last record was not shown:\n%s", out.String())
	}
}
