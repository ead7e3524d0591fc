//go:build conformance && unix

package conformance_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

const crashEnv = "ENTRACE_CONFORMANCE_CRASH"

// TestCrashChild runs in the process that is killed. It records to the file that the environment variable names.
func TestCrashChild(t *testing.T) {
	args := strings.Fields(os.Getenv(crashEnv))
	if len(args) == 0 {
		return
	}
	v, err := strconv.Atoi(args[0])
	must(t, err)
	d, err := recorder.ParseDurability(args[1])
	must(t, err)
	rec, err := recorder.Create(args[2], &recorder.Options{Version: format.Version(v), Durability: d})
	must(t, err)
	res, err := rec.Resource(tracetest.Entry(format.NameResource))
	must(t, err)
	for i := range 1_000_000 {
		if i == 50 {
			fmt.Println("ready")
		}
		now := time.Now()
		ref := format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{byte(i >> 16), byte(i >> 8), byte(i), 1}}
		s := &tracetest.Span{Span: recorder.Span{Ref: ref, Resource: res, Time: now.UnixNano(), Open: i%3 == 0, Wait: i%3 != 0}}
		if i%3 == 1 { // the parent is the next span
			s.Parent = format.SpanRef{TraceID: ref.TraceID, SpanID: [8]byte{byte((i + 1) >> 16), byte((i + 1) >> 8), byte(i + 1), 1}}
		}
		s.Entry.Metadata = format.Metadata{Name: fmt.Sprint("span ", i), Target: "ü\xff", Level: format.LevelInfo, File: format.Some("f"), Line: format.Some(uint32(i))}
		s.Entry.Attributes = []format.Attribute{
			{Name: format.AttrTime, Value: format.TimeValue(now)},
			{Name: format.AttrSpanID, Value: format.StringValue(string(wire.AppendHex(nil, ref.SpanID[:])))},
			{Name: "zero", Value: format.BytesValue(make([]byte, i%40))},
			{Name: "a", Value: format.FloatValue(float64(i) / 3)},
		}
		s.Children = []format.TraceEntry{{Message: format.Some("event"), Metadata: format.Metadata{Name: "event", Level: format.LevelWarn}}}
		must(t, tracetest.WriteSpan(rec, s))
		if i%3 == 0 {
			must(t, tracetest.EndSpan(rec, ref, nil, tracetest.Entry(format.NameSpanEnd)))
		}
		if i%100 == 99 {
			time.Sleep(time.Millisecond)
		}
	}
}

// TestCrashedIsReadable kills programs while they record. It damages the ends of some of their files. Then
// Recover finishes the files, and ENTRACE's crate must be able to read them.
func TestCrashedIsReadable(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	for i, d := range []string{"process", "process", "process", "writethrough", "writethrough"} {
		for _, v := range versions {
			t.Run(fmt.Sprintf("%d v%d %s", i, v, d), func(t *testing.T) {
				dir := t.TempDir()
				name := filepath.Join(dir, "app"+[]string{".et", ".iet"}[i%2])
				stream := filepath.Join(dir, "app.iet")
				cmd := exec.Command(exe, "-test.run=^TestCrashChild$")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s", crashEnv, v, d, name))
				out, err := cmd.StdoutPipe()
				must(t, err)
				must(t, cmd.Start())
				if s := bufio.NewScanner(out); !s.Scan() || s.Text() != "ready" {
					t.Fatalf("the program said %q", s.Text())
				}
				time.Sleep(time.Duration(i*7) * time.Millisecond)
				must(t, cmd.Process.Kill())
				_ = cmd.Wait() // killed
				b := read(t, stream)
				switch i {
				case 1: // torn, but the crash buffer has the missing bytes
					b = append(b, 0, 0, 7, 'x')
					must(t, os.WriteFile(stream, b, 0o600))
				case 2: // with zeros at the end
					must(t, os.WriteFile(stream, append(b, make([]byte, 4096)...), 0o600))
				case 4: // torn, and without a crash buffer
					must(t, os.WriteFile(stream, b[:len(b)-3], 0o600))
				}
				r, err := recorder.Recover(name, "")
				must(t, err)
				if r.Entries < 50 {
					t.Errorf("%d entries were saved", r.Entries)
				}
				compare(t, v, r.Output)
			})
		}
	}
}
