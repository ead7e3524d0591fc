//go:build unix

package entrace_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	rtrace "runtime/trace"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf16"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
	"github.com/entrace-go/entrace/slogadapter"
)

const (
	canary   = "cAnArY7Qx9Zw2"
	innocent = "iNnOcEnT3Kd8Vb"
)

// recordCanaries records the canary, which stands for a secret, in every field of spans, events, links,
// scopes, resources and log records. The canary is the value of keys, or a part of texts, that the default
// policy redacts.
func recordCanaries(end string) {
	text := "login password=" + canary
	link := "https://bob:" + canary + "@example.com/"
	state, err := trace.ParseTraceState("token=" + canary)
	if err != nil {
		panic(err)
	}
	res := resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.String("deploy.token", canary),
		attribute.StringSlice("process.command_args", []string{"shop", "--api-key", canary, "--password=" + canary}),
		attribute.String("process.command_line", "shop --api-key "+canary), attribute.String("process.environment", "DB_PASSWORD="+canary))
	p, err := entrace.Setup(context.Background(), entrace.WithSlogDefault(), entrace.WithResource(res))
	if err != nil {
		panic(err)
	}
	attrs := []attribute.KeyValue{
		attribute.String("db.password", canary), attribute.String("note", text), attribute.StringSlice("secrets", []string{canary}),
		attribute.StringSlice("list", []string{text}), attribute.ByteSlice("token", []byte(canary)), attribute.ByteSlice("body", []byte(text)),
		attribute.String("json", `{"auth":{"password":"`+canary+`"}}`), attribute.String("token="+canary, "in a key"),
		attribute.String("innocent", innocent), attribute.String("db.password", canary), // a key that occurs twice
	}
	// A bare canary is no secret for the policy, but ReplaceAttr hides it.
	hiding := slog.New(slogadapter.New(p.Recorder(), &slogadapter.Options{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		a.Value = slog.StringValue(strings.ReplaceAll(a.Value.String(), canary, "hidden"))
		return a
	}}))
	tracer := p.TracerProvider().Tracer("token="+canary, trace.WithInstrumentationVersion(text), trace.WithSchemaURL(link), trace.WithInstrumentationAttributes(attrs...))
	other := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceState: state})
	for i := range 5 { // several times, because only the first use of a name is written in full
		ctx, span := tracer.Start(context.Background(), fmt.Sprint("GET /?access_token=", canary), trace.WithAttributes(attrs...),
			trace.WithLinks(trace.Link{SpanContext: other, Attributes: attrs}))
		span.AddEvent(text, trace.WithAttributes(attrs...))
		span.RecordError(errors.New(text), trace.WithStackTrace(true))
		l := slog.With("cookie", canary, "n", i).WithGroup("credentials").With("user", canary)
		l.ErrorContext(ctx, text, "value", canary, "n", i)
		slog.InfoContext(ctx, "plain", "innocent", innocent, slog.Group("api", "key", canary), slog.Group("a", slog.Group("b", "secret", canary)),
			"map", map[string]any{"password": canary, "deep": []any{map[string]string{"jwt": canary, "note": text}}},
			"error", errors.New(text), "bytes", []byte(text), "struct", struct{ Password, URL string }{canary, link}, "token="+canary, 1)
		slog.DebugContext(ctx, fmt.Sprintf("%+v", struct{ Password string }{canary}))
		hiding.With("customer", canary).InfoContext(ctx, "customer "+canary, "name", canary)
		pprof.Do(ctx, pprof.Labels("password", canary), func(ctx context.Context) {
			slog.WarnContext(ctx, "Bearer "+canary)
		})
		var r log.Record
		r.SetBody(attribute.MapValue(attribute.String("password", canary), attribute.String("note", text), attribute.ByteSlice("raw", []byte(text))))
		r.SetSeverityText("token=" + canary)
		r.SetEventName(text)
		r.AddAttributes(attribute.Map("m", attribute.String("api_key", canary), attribute.ByteSlice("secret", []byte(canary))))
		otel.Logger("scope password="+canary).Emit(ctx, r)
		rtrace.Log(ctx, "password", canary)
		rtrace.Log(ctx, "note", "X-Api-Key: "+canary)
		rtrace.WithRegion(ctx, "Set-Cookie: sid="+canary+"; Path=/", func() {})
		span.SetAttributes(attribute.String("late.secret", canary))
		span.SetStatus(codes.Error, text)
		if i < 4 {
			span.SetName("POST password=" + canary)
			span.End()
		}
	}
	switch end {
	case "canary kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "canary panic":
		panic(text)
	}
	if err := p.Shutdown(context.Background()); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// occurrences returns the files below dir that contain text: as it is, in Base64, in hexadecimal digits or in
// UTF-16. It also searches data that is compressed by gzip.
func occurrences(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	forms := map[string][]byte{"plain": []byte(text), "hex": []byte(hex.EncodeToString([]byte(text)))}
	for shift := range 3 {
		s := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + text))
		forms[fmt.Sprint("base64 ", shift)] = []byte(s[4*((shift+2)/3) : len(s)-4])
	}
	var wide []byte
	for _, u := range utf16.Encode([]rune(text)) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	forms["utf-16"] = wide
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		for at := 0; ; at++ { // profiles are compressed
			i := bytes.Index(b[at:], []byte("\x1f\x8b\x08"))
			if i < 0 {
				break
			}
			at += i
			if z, err := gzip.NewReader(bytes.NewReader(b[at:])); err == nil {
				// Ignore the error: other bytes follow the compressed data.
				text, _ := io.ReadAll(io.LimitReader(z, 64<<20))
				b = append(b, text...)
			}
		}
		for name, form := range forms {
			if i := bytes.Index(b, form); i >= 0 {
				found = append(found, fmt.Sprintf("%s, %s at %d: %q", path, name, i, b[max(0, i-60):min(len(b), i+40)]))
			}
		}
		return err
	}))
	return found
}

// TestNothingIsRecordedWithoutThePolicy: if the policy cannot be read, Setup says so and nothing is
// recorded, not even by a flight recorder.
func TestNothingIsRecordedWithoutThePolicy(t *testing.T) {
	for _, control := range []string{"off", "ring"} {
		clean(t)
		t.Setenv("OTEL_EXPORTER_ENTRACE_CONTROL", control)
		t.Setenv("OTEL_EXPORTER_ENTRACE_REDACT", "nosuch.json")
		p, err := entrace.Setup(t.Context(), entrace.WithoutGlobals())
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "OTEL_EXPORTER_ENTRACE_REDACT") {
			t.Errorf("got %v", err)
		}
		oneSpan(t, p)
		must(t, p.Shutdown(t.Context()))
		expect.Len(t, hosttest.Names(t, "."), 0, "the folder has")
	}
}

// wiretap accepts connections at the returned address, and writes the bytes of each connection to a file. The
// function sent waits until all connections have ended and returns the folder of the files.
func wiretap(t *testing.T) (address string, sent func() (dir string)) {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				b, _ := io.ReadAll(c) // a killed program resets the connection
				expect.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), b, 0o600))
			})
		}
	})
	return l.Addr().String(), func() string {
		must(t, l.Close())
		wg.Wait()
		return dir
	}
}

// TestNoSecretReachesTheDisk searches for the canary in all files that a program leaves and all bytes that it
// sends: after kill -9, after a panic and after a normal end, before and after recovery.
func TestNoSecretReachesTheDisk(t *testing.T) {
	flight := []string{"OTEL_EXPORTER_ENTRACE_CONTROL=ring", "OTEL_EXPORTER_ENTRACE_CONTROL_ON_ERROR=on"}
	wire, sent := wiretap(t)
	t.Cleanup(func() {
		dir := sent()
		for _, f := range occurrences(t, dir, canary) {
			t.Errorf("on the wire: %s", f)
		}
		if len(occurrences(t, dir, innocent)) == 0 {
			t.Error("the innocent text was not sent")
		}
	})
	for name, env := range map[string][]string{
		"process":      nil,
		"writethrough": {"OTEL_EXPORTER_ENTRACE_DURABILITY=writethrough"},
		"power":        {"OTEL_EXPORTER_ENTRACE_DURABILITY=power"},
		"version 2":    {"OTEL_EXPORTER_ENTRACE_VERSION=2"},
		"batch":        {"OTEL_EXPORTER_ENTRACE_MODE=batch"},
		"flight":       flight,
		"traced":       append(slices.Clone(flight), "OTEL_EXPORTER_ENTRACE_CONTROL_EXEC_TRACE=1"),
		"sender":       {"OTEL_EXPORTER_ENTRACE_ENDPOINT=tcp://" + wire},
	} {
		for _, end := range []string{"canary kill", "canary panic", "canary end"} {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				buffer := filepath.Join(dir, "buffer")
				must(t, os.Mkdir(buffer, 0o700))
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Dir = dir
				cmd.Env = append(append(os.Environ(), "ENTRACE_TEST_END="+end, "OTEL_EXPORTER_ENTRACE_BUFFER_DIR="+buffer), env...)
				out, err := cmd.CombinedOutput()
				if end == "canary end" && err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if !bytes.Contains(out, []byte("OTEL_EXPORTER_ENTRACE_REDACT=off")) && end == "canary end" {
					t.Errorf("nothing is said of what was replaced:\n%s", out)
				}
				for _, found := range occurrences(t, dir, canary) {
					expect.Has(t, found, ".crash, ", "before recovery") // the runtime writes the crash file, without redaction
				}
				for _, d := range []string{dir, filepath.Join(dir, "shop-traces")} {
					names, _ := filepath.Glob(filepath.Join(d, "*.iet"))
					for _, name := range names {
						// A snapshot that began just before the end is empty.
						if _, err := recorder.Recover(name, ""); err != nil && !errors.Is(err, format.ErrTruncated) {
							t.Error(err)
						}
					}
				}
				if name == "traced" && end == "canary end" {
					execTracesAreWhole(t, filepath.Join(dir, "shop-traces"))
				}
				if name == "flight" || name == "traced" {
					must(t, tracedir.Recover(t.Context(), filepath.Join(dir, "shop-traces"), func(_ *tracedir.Result, err error) { must(t, err) }))
				}
				for _, f := range occurrences(t, dir, canary) {
					t.Errorf("after recovery: %s", f)
				}
				if len(occurrences(t, dir, innocent)) == 0 {
					t.Error("the innocent text is not there")
				}
			})
		}
	}
}

// execTracesAreWhole checks that the execution traces in the traces of a folder can be read, and that at least one
// execution trace shows what a span waited for.
func execTracesAreWhole(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.et"))
	must(t, err)
	joined := 0
	for _, name := range names {
		f, err := format.Open(name, nil)
		must(t, err)
		v := tracetest.View(t, f)
		s, err := spanstates.Of(t.Context(), v)
		must(t, err)
		if p := s.Problems(); len(p) > 0 {
			t.Errorf("%s: %v", name, p)
		}
		if s.Unknown() == "" {
			joined++
		}
		must(t, f.Close())
	}
	if joined == 0 {
		t.Errorf("the traces %q tell of no span what it waited for", names)
	}
}

// TestNoSecretIsLeftByConversion: if a trace with secrets in every field is converted with a policy, no
// output format has the secrets, and all have the other values.
func TestNoSecretIsLeftByConversion(t *testing.T) {
	for _, env := range []string{"OTEL_EXPORTER_ENTRACE_VERSION=1", "OTEL_EXPORTER_ENTRACE_VERSION=2", "OTEL_EXPORTER_ENTRACE_MODE=batch"} {
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			dir, out := t.TempDir(), t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "ENTRACE_TEST_END=canary end", "OTEL_EXPORTER_ENTRACE_REDACT=off", env)
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if len(occurrences(t, dir, canary)) == 0 {
				t.Fatal("the canary is not in the file")
			}
			names, err := filepath.Glob(filepath.Join(dir, "*.et"))
			must(t, err)
			plain := filepath.Join(dir, "plain.jsonl") // OTLP's JSON with the canary, a second source
			encode(t, names, plain, nil)
			for i, in := range [][]string{names, {plain}} {
				for _, ext := range []string{"et", "iet", "jsonl", "binpb", "chrome.json"} {
					r := redact.New(nil, nil)
					name := filepath.Join(out, fmt.Sprint(i, ".", ext))
					encode(t, in, name, r)
					n := uint64(0)
					r.Each(func(_ string, of uint64) { n += of })
					if n < 100 {
						t.Errorf("%s: %d values were replaced", name, n)
					}
				}
			}
			for _, f := range occurrences(t, out, canary) {
				t.Error(f)
			}
			if found := occurrences(t, out, innocent); len(found) < 4 {
				t.Errorf("the innocent text is not there: %v", found)
			}
		})
	}
}

// encode converts traces to the format that the extension of out names.
func encode(t *testing.T, in []string, out string, r *redact.Redactor) {
	t.Helper()
	tr, err := convert.Open(t.Context(), in, &convert.OpenOptions{Redact: r})
	must(t, err)
	must(t, tr.EncodeFile(t.Context(), out, convert.FormatByExtension(out), nil))
	must(t, tr.Close())
}
