//go:build conformance

package collector

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

var update = flag.Bool("update", false, "write the fixtures in convert/otlp/testdata again")

const fixtures = "../../../../convert/otlp/testdata"

// exportFile writes messages to a file with the Collector's file exporter, and returns the path of the file.
func exportFile(t testing.TB, kind string, traces []ptrace.Traces, logs []plog.Logs) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "exported")
	f := fileexporter.NewFactory()
	cfg := f.CreateDefaultConfig().(*fileexporter.Config)
	cfg.Path, cfg.FormatType = path, kind
	set := exportertest.NewNopSettings(f.Type())
	if traces != nil {
		exp, err := f.CreateTraces(t.Context(), set, cfg)
		must(t, err)
		must(t, exp.Start(t.Context(), componenttest.NewNopHost()))
		for _, td := range traces {
			must(t, exp.ConsumeTraces(t.Context(), td))
		}
		must(t, exp.Shutdown(t.Context()))
	}
	if logs != nil {
		exp, err := f.CreateLogs(t.Context(), set, cfg)
		must(t, err)
		must(t, exp.Start(t.Context(), componenttest.NewNopHost()))
		for _, ld := range logs {
			must(t, exp.ConsumeLogs(t.Context(), ld))
		}
		must(t, exp.Shutdown(t.Context()))
	}
	return path
}

// decode converts an OTLP file to a trace file, and returns the path of the trace file.
func decode(t testing.TB, path string) string {
	t.Helper()
	in, err := os.Open(path)
	must(t, err)
	defer in.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "x.et"))
	must(t, err)
	defer out.Close()
	w, err := format.NewWriter(out, 0, format.ET, nil)
	must(t, err)
	must(t, otlp.Decode(t.Context(), in, w, nil))
	must(t, w.Close())
	return out.Name()
}

func encode(t testing.TB, name string, o *otlp.EncodeOptions) []byte {
	t.Helper()
	v := tracetest.OpenView(t, name)
	var b bytes.Buffer
	must(t, otlp.Encode(t.Context(), &b, v, o))
	return b.Bytes()
}

// judged decodes each line of out with pdata, and returns the messages. pdata drops keys that it does not know, so
// judged checks that each message still has every key of its line.
func judged(t testing.TB, out []byte) (traces []ptrace.Traces, logs []plog.Logs) {
	t.Helper()
	if len(out) == 0 || out[len(out)-1] != '\n' {
		t.Fatal("the last line has no end")
	}
	for line := range bytes.Lines(out) {
		var again []byte
		if bytes.HasPrefix(line, []byte(`{"resourceSpans"`)) {
			td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
			if err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			again = marshalTraces(t, td)
			traces = append(traces, td)
		} else {
			ld, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
			if err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			again = marshalLogs(t, ld)
			logs = append(logs, ld)
		}
		if got, want := canonical(t, line), canonical(t, again); !slices.Equal(got, want) {
			t.Errorf("pdata reads %s as %s", line, again)
		}
	}
	return traces, logs
}

func marshalTraces(t testing.TB, td ptrace.Traces) []byte {
	t.Helper()
	b, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	must(t, err)
	return b
}

func marshalLogs(t testing.TB, ld plog.Logs) []byte {
	t.Helper()
	b, err := (&plog.JSONMarshaler{}).MarshalLogs(ld)
	must(t, err)
	return b
}

// canonicals does the same as canonical for messages that are not yet marshaled.
func canonicals(t testing.TB, traces []ptrace.Traces, logs []plog.Logs) []string {
	t.Helper()
	var all [][]byte
	for _, td := range traces {
		all = append(all, marshalTraces(t, td))
	}
	for _, ld := range logs {
		all = append(all, marshalLogs(t, ld))
	}
	return canonical(t, all...)
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	expect.Equal(t, len(got), len(want), "spans and log records")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
			return
		}
	}
}

// messages splits a file of the file exporter into messages.
func messages(t testing.TB, b []byte) (all [][]byte) {
	t.Helper()
	for len(b) > 0 {
		n := binary.BigEndian.Uint32(b)
		all = append(all, b[4:4+n])
		b = b[4+n:]
	}
	return all
}

func TestFileExporter(t *testing.T) {
	for _, kind := range []string{"json", "proto"} {
		for _, signal := range []string{"traces", "logs"} {
			t.Run(kind+"/"+signal, func(t *testing.T) {
				var traces []ptrace.Traces
				var logs []plog.Logs
				if signal == "traces" {
					traces = []ptrace.Traces{richTraces()}
				} else {
					logs = []plog.Logs{richLogs()}
				}
				want := canonicals(t, traces, logs)
				path := exportFile(t, kind, traces, logs)
				if *update {
					b, err := os.ReadFile(path)
					must(t, err)
					name := filepath.Join(fixtures, "collector-"+signal+map[string]string{"json": ".jsonl", "proto": ".binpb"}[kind])
					must(t, os.WriteFile(name, b, 0o644))
				}
				et := decode(t, path)
				gotTraces, gotLogs := judged(t, encode(t, et, nil))
				compare(t, canonicals(t, gotTraces, gotLogs), want)

				gotTraces, gotLogs = nil, nil
				for _, m := range messages(t, encode(t, et, &otlp.EncodeOptions{Protobuf: true})) {
					if signal == "traces" {
						td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(m)
						must(t, err)
						gotTraces = append(gotTraces, td)
					} else {
						ld, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(m)
						must(t, err)
						gotLogs = append(gotLogs, ld)
					}
				}
				compare(t, canonicals(t, gotTraces, gotLogs), want)
			})
		}
	}
}
