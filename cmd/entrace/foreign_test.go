package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/recorder"
)

// smallTrace writes a trace with a span, an event, a link and a log record.
func smallTrace(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "app.et")
	f, err := os.Create(name)
	must(t, err)
	w, err := format.NewWriter(f, format.V1, format.ET, nil)
	must(t, err)
	write := func(e *format.TraceEntry, parent uint32) uint32 {
		e.Parent = parent
		id, err := w.Write(e)
		must(t, err)
		return id
	}
	write(format.Root(), 0)
	r := otel.Resource{Attributes: []otel.Attribute{{Name: "service.name", Value: format.StringValue("shop")}}}
	resource := write(r.Entry(), 0)
	s := otel.Span{
		Name: "GET /cart", TraceID: [16]byte{1}, SpanID: [8]byte{2}, Flags: mapping.DefaultTraceFlags, Kind: otel.KindServer,
		Start: 1_700_000_000_000_000_001, Duration: 5_000_003, Ended: true,
		Attributes: []otel.Attribute{{Name: "http.status", Value: format.I64Value(200)}},
	}
	span := write(s.Entry(otel.Where{}), resource)
	l := otel.Link{TraceID: [16]byte{3}, SpanID: [8]byte{4}, Flags: mapping.DefaultTraceFlags}
	write(l.Entry(""), span)
	ev := otel.Event{Name: "cache miss", Time: s.Start + 10, HasTime: true}
	write(ev.Entry(""), span)
	child := s
	child.Name, child.SpanID, child.Parent, child.Start, child.Duration = "SELECT", [8]byte{5}, s.SpanID, s.Start+100, 1000
	write(child.Entry(otel.Where{Trace: true, Parent: true}), span)
	log := otel.Log{Body: otel.Any{Kind: otel.String, Text: "cart loaded"}, Severity: 9, SeverityText: "INFO", Time: s.Start + 20, HasTime: true}
	write(log.Entry(otel.Where{Trace: true, Parent: true}), span)
	must(t, w.Close())
	must(t, f.Close())
	return name
}

func runOK(t *testing.T, in []byte, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, bytes.NewReader(in), &out, &errs); code != exitFine {
		t.Fatalf("entrace %s: %d\n%s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}

// TestConvertForeign converts a trace to each format, and back where that can be:
// by the names of files, by --to and --from, and from what a file holds.
func TestConvertForeign(t *testing.T) {
	app := smallTrace(t)
	tree := func(name string) string {
		_, rest, _ := strings.Cut(runOK(t, nil, "tree", name), name) // which comes first
		return rest
	}
	want := tree(app)
	for _, f := range convert.Formats() {
		if _, own := f.Format.Own(); own {
			continue
		}
		t.Run(string(f.Format), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "trace"+f.Extensions[0])
			runOK(t, nil, "convert", app, out)
			b, err := os.ReadFile(out)
			must(t, err)
			if got := runOK(t, nil, "convert", app, "-", "--to", string(f.Format)); got != string(b) {
				t.Errorf("to the standard output go %d other bytes than to a file, %d", len(got), len(b))
			}
			if fi, err := os.Stat(out); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", fi.Mode(), err)
			}
			if !f.Reads {
				if len(b) == 0 {
					t.Error("the file is empty")
				}
				return
			}
			for _, args := range [][]string{{out}, {out, "--from", string(f.Format)}} {
				back := filepath.Join(t.TempDir(), "back.et")
				runOK(t, nil, append([]string{"convert", args[0], back}, args[1:]...)...)
				runOK(t, nil, "verify", back)
				if f.Format == "measureme" {
					continue // which has no service
				}
				if got := tree(back); got != want {
					t.Errorf("%v: it came back as\n%s, want\n%s", args, got, want)
				}
			}
			strange := filepath.Join(t.TempDir(), "strange.name")
			must(t, os.WriteFile(strange, b, 0o600))
			if kind, _, _, err := convert.FormatOf(strange); err != nil {
				t.Error(err)
			} else if kind != "" {
				got := runOK(t, nil, "convert", strange, "-", "--to", "iet")
				if _, kind, err := format.ReadMagic(bytes.NewReader([]byte(got))); err != nil || kind != format.IET {
					t.Errorf("%s is not known by what it holds", f.Format)
				}
				if got := runOK(t, b, "convert", "-", "-", "--to", "folded"); !strings.Contains(got, "SELECT") {
					t.Errorf("as the standard input it becomes %q", got)
				}
			}
		})
	}
}

// TestConvertList prints each format once, and what is lost.
func TestConvertList(t *testing.T) {
	out := runOK(t, nil, "convert", "--list")
	for _, name := range append(formatNames(true), formatNames(false)...) {
		if strings.Count("\n"+out, "\n"+name+" ") != 1 {
			t.Errorf("%s is there not once:\n%s", name, out)
		}
	}
}

// TestConvertForeignUsage: what cannot be is said, and nothing is written.
func TestConvertForeignUsage(t *testing.T) {
	app := smallTrace(t)
	dir := t.TempDir()
	for _, x := range []struct {
		args []string
		said string
	}{
		{[]string{"convert", app, filepath.Join(dir, "x.json")}, "--to must name one of otlp, chrome, speedscope"},
		{[]string{"convert", app, filepath.Join(dir, "x.unknown")}, "known are et, iet"},
		{[]string{"convert", app, filepath.Join(dir, "x.et"), "--from", "chrome"}, "--from: chrome is written only; known are et"},
		{[]string{"convert", app, filepath.Join(dir, "x.htf"), "--version", "2"}, "ENTRACE's own formats"},
		{[]string{"convert", "--list", app}, "unknown command"},
		{[]string{"merge", app}, "--output"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), x.args, nil, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), x.said) {
			t.Errorf("%v: %d, %s, want %q", x.args, code, errs.String(), x.said)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// TestConvertDamaged: what is whole of a damaged file is converted, the exit
// status tells, and an output that is there stays.
func TestConvertDamaged(t *testing.T) {
	app := smallTrace(t)
	for _, name := range []string{"heph", "otlp", "measureme"} {
		whole := runOK(t, nil, "convert", app, "-", "--to", name)
		in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out.et")
		must(t, os.WriteFile(in, []byte(whole[:len(whole)-2]), 0o600))
		var said, errs bytes.Buffer
		if code := run(t.Context(), []string{"convert", in, out, "--from", name}, nil, &said, &errs); code != exitData {
			t.Errorf("%s: %d, %s", name, code, errs.String())
		}
		if _, err := os.Stat(out); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			runOK(t, nil, "verify", out)
		}
		if code := run(t.Context(), []string{"convert", app, out}, nil, &said, &errs); code != exitUsage {
			t.Errorf("%s: an output that is there: %d", name, code)
		}
	}
}

// TestMergeCommand merges files of several formats.
func TestMergeCommand(t *testing.T) {
	app := smallTrace(t)
	dir := t.TempDir()
	lines := filepath.Join(dir, "other.jsonl")
	const server = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"stock"}}]},"scopeSpans":[{"spans":[` +
		`{"traceId":"01000000000000000000000000000000","spanId":"0900000000000000","parentSpanId":"0500000000000000","name":"reserve","kind":2,"startTimeUnixNano":"1700000000000000150","endTimeUnixNano":"1700000000000000350"}]}]}]}` + "\n"
	must(t, os.WriteFile(lines, []byte(server), 0o600))
	out := filepath.Join(dir, "all.et")
	runOK(t, nil, "merge", app, lines, "-o", out)
	tree := runOK(t, nil, "tree", out)
	sel, res := strings.Index(tree, "SELECT"), strings.Index(tree, "reserve")
	if sel < 0 || res < sel {
		t.Errorf("the tree is\n%s", tree)
	}
	depth := func(name string) int {
		for line := range strings.Lines(tree) {
			if before, _, ok := strings.Cut(line, name); ok {
				return len([]rune(before))
			}
		}
		return -1
	}
	if depth("reserve") <= depth("SELECT") {
		t.Errorf("reserve is not below SELECT:\n%s", tree)
	}
	if got := runOK(t, nil, "merge", app, lines, "-o", "-", "--to", "folded"); !strings.Contains(got, "reserve") {
		t.Errorf("folded: %s", got)
	}
}

// TestForeignInputIsOutput: a file that is read by way of another format is not
// replaced by what comes of it.
func TestForeignInputIsOutput(t *testing.T) {
	in := filepath.Join(t.TempDir(), "app.jsonl")
	runOK(t, nil, "convert", smallTrace(t), in)
	b, err := os.ReadFile(in)
	must(t, err)
	b = append(b, "{damaged"...)
	must(t, os.WriteFile(in, b, 0o600))
	for _, args := range [][]string{{"convert", in, in, "--force"}, {"merge", in, "-o", in, "--force"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &errs); code != exitData {
			t.Errorf("%v: %d, %s", args, code, errs.String())
		}
		if now, err := os.ReadFile(in); err != nil || !bytes.Equal(now, b) {
			t.Errorf("%v: the input is another now, %v", args, err)
		}
	}
}

// A fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestConvertLiveToFullDisk: that the input's writer lives excuses where it ends,
// and not an output that cannot be written.
func TestConvertLiveToFullDisk(t *testing.T) {
	for _, to := range []string{"iet", "et", "heph"} {
		name := filepath.Join(t.TempDir(), "live.iet")
		rec, err := recorder.Create(name, nil)
		must(t, err)
		must(t, rec.Log(format.SpanRef{}, named("one")))
		must(t, rec.Flush(context.Background()))
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
