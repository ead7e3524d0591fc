package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/recorder"
)

var must = expect.Must

// entrace runs the command as a shell does.
func entrace(t *testing.T, stdin []byte, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, bytes.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

// hasCopies matches the message on standard error about files that share rows.
var hasCopies = regexp.MustCompile(`entrace: \d+ rows? (is|are) in several files, shown once\n`)

// fine runs the command, and expects exit status 0 and nothing on standard error except the message
// that files share rows.
func fine(t *testing.T, stdin []byte, args ...string) string {
	t.Helper()
	code, out, errs := entrace(t, stdin, args...)
	if code != exitFine || hasCopies.ReplaceAllString(errs, "") != "" {
		t.Fatalf("entrace %s: exit %d, %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// ended records a trace of a kind in a folder of its own, and returns its name.
func ended(t *testing.T, kind string, args ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "app.et")
	must(t, traceOf(kind, name, args...).Close(t.Context()))
	return name
}

var read = tracetest.ReadFile

// A transcript holds the output of a command, and can be read while the command runs.
type transcript struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (c *transcript) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(b)
}

func (c *transcript) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}

// A process is a running command.
type process struct {
	t         *testing.T
	out, errs transcript
	stop      context.CancelFunc
	done      chan struct{}
	code      int
}

// start runs the command concurrently with the test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	c := &process{t: t, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.code = run(ctx, args, strings.NewReader(""), &c.out, &c.errs)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%q does not end", args)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-c.done
	})
	return c
}

// await waits until the given output contains text.
func (c *process) await(what *transcript, text string) {
	c.t.Helper()
	for !strings.Contains(what.String(), text) {
		select {
		case <-c.done:
			if !strings.Contains(what.String(), text) {
				c.t.Fatalf("%q does not come; exit %d\n%s%s", text, c.code, &c.out, &c.errs)
			}
		case <-time.After(time.Millisecond):
		}
	}
}

// exit waits for the end of the command, and expects the exit status want.
func (c *process) exit(want int) {
	c.t.Helper()
	<-c.done
	expect.Equal(c.t, c.code, want, "exit\n%s%s", &c.out, &c.errs)
}

// TestCatFixtures checks that cat prints the same as ENTRACE's own crate.
func TestCatFixtures(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"v1.iet", "v1.ietprefix", "v1.et", "v2.iet", "v2.et"} {
		name = filepath.Join("..", "..", "format", "testdata", name)
		want := string(read(t, strings.TrimSuffix(name, filepath.Ext(name))+".txt"))
		for _, out := range []string{fine(t, nil, "cat", "--json", name), fine(t, read(t, name), "cat", "--json", "-")} {
			// The crate does not escape all characters that act on a terminal.
			if got := strings.NewReplacer(`\u007f`, "\x7f", `\u2028`, "\u2028").Replace(out); got != want {
				t.Errorf("%s is\n%.1000s, want\n%.1000s", name, got, want)
			}
		}
	}
}

// TestTreeDeep prints a chain that is far deeper than any terminal is wide.
func TestTreeDeep(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "deep.iet")
	writeEntries(t, name, 100_000, func(i int) *format.TraceEntry {
		e := named("x")
		e.Parent = uint32(i)
		return e
	})
	if out := fine(t, nil, "tree", name); !strings.Contains(out, "⋯100000 TRACE x") || len(out) > 200*100_000 {
		t.Errorf("it prints %d bytes", len(out))
	}
}

// TestSafeOutput records characters that act on a terminal in every field, and
// checks each byte of the output.
func TestSafeOutput(t *testing.T) {
	t.Parallel()
	evil := "\x1b[1;31ma\x1b[0m\x1b[2J\x1b]8;;http://x\x07\x00\r\n\t\x7f\u0085\u009b31m\u202e\u2066\u200f\u061c\u2028\xff" + strings.Repeat("x", 1000)
	name := filepath.Join(t.TempDir(), "app.iet")
	rec := tracetest.CreateAt(t, name, nil)
	ref := format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{1}}
	attrs := tracetest.Attributes(evil, evil, "b", []byte(evil), mapping.AttrLogLevel, evil)
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
	for _, args := range []string{
		"cat", "cat --json", "tree", "info", "info --json", "tail", "tail --json", "tree --json", "top", "top --json", "critical", "critical --json", "stats",
		"diff --allow-partial " + name, "diff --allow-partial --json " + name, "verify", "recover", "recover --json",
	} {
		out := fine(t, nil, append(strings.Fields(args), name)...)
		for i, r := range out {
			if r != '\n' && (unicode.IsControl(r) || jsontext.Acts(r)) {
				t.Fatalf("%v prints %U at byte %d of %q", args, r, i, out[max(0, i-20):i])
			}
		}
	}
	var e struct{ Message string }
	lines := strings.Split(strings.TrimSpace(fine(t, nil, "cat", "--json", name)), "\n")
	must(t, json.Unmarshal([]byte(lines[4]), &e))
	expect.Equal(t, e.Message, strings.ToValidUTF8(evil, "\ufffd"), "the message reads back as")
	if code, _, errs := entrace(t, nil, "cat", "\x1b[2J"); code != exitData || strings.ContainsRune(errs, '\x1b') {
		t.Errorf("exit %d, it prints %q", code, errs)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0ns", 999: "999ns", 1000: "1µs", 12345: "12.3µs", 999999: "999µs", 1234567: "1.23ms", 999 * time.Millisecond: "999ms",
		1500 * time.Millisecond: "1.5s", 59900 * time.Millisecond: "59.9s", 61 * time.Second: "1m1s", 100 * time.Hour: "100h0m0s",
	} {
		expect.Equal(t, duration(d), want, "%d ns reads", d)
	}
}

// TestVersionHasCommit checks that the version of a build from a clone contains the commit.
func TestVersionHasCommit(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"},
	}}
	expect.Equal(t, buildOf(info).String(), "(devel) 0123456789ab (modified)", "the version")
	info.Main.Version = "v0.0.0-20260102030405-0123456789ab+dirty"
	expect.Equal(t, buildOf(info).String(), info.Main.Version, "the version")
}

// TestCommandsAreInGroups checks that the help lists every command in a group.
func TestCommandsAreInGroups(t *testing.T) {
	t.Parallel()
	for _, c := range rootCommand(new(console)).Commands() {
		if c.GroupID == "" && !c.Hidden && c.Name() != "version" {
			t.Errorf("%s is in no group", c.Name())
		}
		for line := range strings.Lines(c.Long) {
			words, _ := strings.CutPrefix(line, "  entrace "+c.Name()+" ")
			words, _, _ = strings.Cut(words, " -- ")
			for _, m := range regexp.MustCompile(` (-[a-z]\b|--[a-z-]+)`).FindAllString(words, -1) {
				long, isLong := strings.CutPrefix(m, " --")
				if words != line && (isLong && c.Flag(long) == nil || !isLong && c.Flags().ShorthandLookup(m[2:]) == nil) {
					t.Errorf("%s has no%s, which its help shows", c.Name(), m)
				}
			}
		}
	}
}

// TestBrokenPipe checks that the command ends without an error when the reader closes
// the pipe, and that it leaves no temporary files.
func TestBrokenPipe(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	in := shopFile()
	for _, args := range []string{"tree -", "cat -", "convert - - --to et"} {
		r, w, err := os.Pipe()
		must(t, err)
		must(t, r.Close())
		var errs bytes.Buffer
		code := run(t.Context(), strings.Fields(args), bytes.NewReader(in), w, &errs)
		must(t, w.Close())
		if code != exitFine || errs.Len() > 0 {
			t.Errorf("%s: exit %d, %s", args, code, &errs)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
}

// TestInterruptedCommands checks that interrupted commands print a message and exit as shells expect.
func TestInterruptedCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	app := filepath.Join(dir, "app.et")
	must(t, os.WriteFile(app, shopFile(), 0o600))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	for _, args := range [][]string{{"grep", "x", app}, {"stats", app}, {"top", app}} {
		var out, errs bytes.Buffer
		if code := run(ctx, args, nil, &out, &errs); code != exitInterrupted || errs.String() != "entrace: interrupted\n" {
			t.Errorf("%s: exit %d, %s", args, code, errs.String())
		}
	}
}

// TestGrepCases checks that grep selects the same rows as package query.
func TestGrepCases(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "shop.et")
	must(t, os.WriteFile(name, shopFile(), 0o600))
	for _, c := range querytest.Cases {
		code, out, errs := entrace(t, nil, "grep", "--json", c.Query, name)
		want := exitFine
		if len(c.IDs) == 0 {
			want = exitData
		}
		var got []uint32
		for line := range strings.Lines(out) {
			var row struct{ ID uint32 }
			must(t, json.Unmarshal([]byte(line), &row))
			got = append(got, row.ID)
		}
		slices.Sort(got)
		if code != want || !slices.Equal(got, c.IDs) {
			t.Errorf("%s: exit %d, prints %v, want %v; %s", c.Query, code, got, c.IDs, errs)
		}
	}
}

// TestConvertForeign converts a trace to each format, and back if entrace can read the format. The formats come
// from the names of files, from --to and --from, or from the content of a file. From a damaged file, convert
// writes the intact entries, and the exit status reports the damage.
func TestConvertForeign(t *testing.T) {
	t.Parallel()
	otlp := read(t, filepath.Join("testdata", "shop.jsonl"))
	app := filepath.Join(t.TempDir(), "app.et")
	fine(t, otlp, "convert", "-", app, "--from", "otlp")
	tree := func(name string) string {
		_, rest, _ := strings.Cut(fine(t, nil, "tree", name), name) // the output begins with the name
		return rest
	}
	want := tree(app)
	for _, f := range convert.Formats() {
		if !f.Writes || f.Format == convert.GoTrace {
			continue // the tests of its package have samples
		}
		name := string(f.Format)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out := filepath.Join(dir, "trace"+f.Extensions[0])
			fine(t, nil, "convert", app, out)
			b := read(t, out)
			if got := fine(t, nil, "convert", app, "-", "--to", name); got != string(b) || got == "" {
				t.Errorf("to the standard output go %d other bytes than to a file, %d", len(got), len(b))
			}
			if fi, err := os.Stat(out); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", fi.Mode(), err)
			}
			if !f.Reads {
				return
			}
			for i, args := range [][]string{{out}, {out, "--from", name}} {
				back := filepath.Join(dir, string('a'+rune(i))+".et")
				fine(t, nil, append([]string{"convert", args[0], back}, args[1:]...)...)
				fine(t, nil, "verify", back)
				if got := tree(back); got != want {
					t.Errorf("%v: it came back as\n%s, want\n%s", args, got, want)
				}
			}
			strange := filepath.Join(dir, "strange.name")
			must(t, os.WriteFile(strange, b, 0o600))
			kind, _, _, err := convert.FormatOf(strange)
			must(t, err)
			if _, own := f.Format.Own(); kind != "" && !own {
				got := fine(t, nil, "convert", strange, "-", "--to", "iet")
				if _, kind, err := format.ReadMagic(strings.NewReader(got)); err != nil || kind != format.IET {
					t.Errorf("%s is not known by what it holds", name)
				}
				expect.Has(t, fine(t, b, "convert", "-", "-", "--to", "folded"), "SELECT", "as the standard input it becomes")
			}
			cut, part := filepath.Join(dir, "cut"), filepath.Join(dir, "part.et")
			must(t, os.WriteFile(cut, b[:len(b)-2], 0o600))
			if code, _, errs := entrace(t, nil, "convert", cut, part, "--from", name); code != exitData {
				t.Errorf("of a file that was cut: exit %d, %s", code, errs)
			}
			fine(t, nil, "verify", part)
		})
	}
}

// A fullDisk is a writer that always fails with ENOSPC.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestConvertLiveToFullDisk checks that convert reports an output that cannot be written, even if the writer of
// the input is alive. A living writer is an excuse only for an incomplete last entry.
func TestConvertLiveToFullDisk(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"iet", "et", "chrome"} {
		name := filepath.Join(t.TempDir(), "live.iet")
		rec := traceOf("stack", name)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		_, err = f.Write([]byte{0, 1})
		must(t, errors.Join(err, f.Close()))
		var errs bytes.Buffer
		if code := run(t.Context(), []string{"convert", name, "-", "--to", to}, nil, fullDisk{}, &errs); code != exitData {
			t.Errorf("to %s: %d, %s", to, code, errs.String())
		}
		_ = rec.Close(t.Context()) // the file has grown
	}
}

// onTerminal returns the output of tree on a terminal with width columns.
func onTerminal(t *testing.T, width int, full bool, names ...string) string {
	t.Helper()
	var out bytes.Buffer
	c := &console{out: &out, err: io.Discard, width: width}
	o := treeOptions{rowFlags: rowFlags{time: timeNone}, full: full}
	must(t, o.run(t.Context(), c, names))
	return out.String()
}

// TestTreeFitsTerminal checks that no line is longer than the terminal, that attributes which differ
// between requests are not cut, that a stack begins with the program, and that --full cuts nothing.
func TestTreeFitsTerminal(t *testing.T) {
	t.Parallel()
	requests, hang := ended(t, "requests"), ended(t, "hang")
	if got, want := strings.Join(strings.Fields(onTerminal(t, 40, false, hang)), ""), "(watchdog:spanGET/bisopenfor2s):5spans,0logrecords,3s"; !strings.Contains(got, want) {
		t.Errorf("on 40 columns the first line has no %q:\n%s", want, got)
	}
	for _, x := range []struct {
		name  string
		width int
		want  []string
	}{
		{requests, 80, []string{
			"user=bob …", "took=24ms", "ERROR GET /cart", "it broke", "second line\n", "stack:\n", "main.go:1\n",
			"… 3 more lines, which --full shows",
		}},
		{hang, 100, []string{
			"DEBUG goroutines main.(*server).lockA main.go:121 count=1\n", "… 5 frames of the runtime\n", "main.(*server).lockA /home/ada/orders/main.go:121\n",
		}},
	} {
		narrow := onTerminal(t, x.width, false, x.name)
		for line := range strings.Lines(narrow) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > x.width {
				t.Errorf("a line of %d columns, want %d at most: %s", n, x.width, line)
			}
		}
		words := strings.Join(strings.Fields(narrow), " ")
		for _, want := range x.want {
			if !strings.Contains(narrow, want) && !strings.Contains(words, want) {
				t.Errorf("on %d columns there is no %q:\n%s", x.width, want, narrow)
			}
		}
		if got, want := onTerminal(t, x.width, true, x.name), onTerminal(t, 0, false, x.name); got != want || strings.Contains(got, "…") {
			t.Errorf("--full prints\n%s, want what a pipe gets\n%s", got, want)
		}
	}
}

// TestTreeLinesAllocateLittle checks that a line of the tree reuses the memory of the line before.
func TestTreeLinesAllocateLittle(t *testing.T) {
	name := filepath.Join(t.TempDir(), "t.iet")
	allocations := func(requests int) int {
		writeEntries(t, name, 5*requests, func(i int) *format.TraceEntry {
			e := spanOf(i, 1+i-i%5)
			if i%5 == 0 {
				e.Parent = 0
			}
			e.Attributes = append(e.Attributes, tracetest.Attributes("db.rows", uint64(i%5), "db.system", "postgres")...)
			return e
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		expect.MustEqual(t, run(t.Context(), []string{"tree", name}, strings.NewReader(""), io.Discard, io.Discard), exitFine, "exit")
		runtime.ReadMemStats(&after)
		return int(after.Mallocs - before.Mallocs)
	}
	const n = 2000
	small, large := allocations(n), allocations(3*n)
	if each := float64(large-small) / (2 * 5 * n); each > 1 {
		t.Errorf("a line takes %.1f allocations, want at most 1", each)
	}
}
