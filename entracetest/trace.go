package entracetest

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
	"github.com/entrace-go/entrace/slogadapter"
	"github.com/entrace-go/entrace/view"
)

// A Trace holds the spans and log records of a test.
type Trace struct {
	t        testing.TB
	recorder *recorder.Recorder
	stream   func() []byte
	spans    *sdktrace.TracerProvider
	logs     *sdklog.LoggerProvider
	logger   *slog.Logger
}

// An Option changes the Trace that [New] makes.
type Option func(*options)

type options struct {
	redact *redact.Policy
	spans  []sdktrace.TracerProviderOption
}

// WithRedact sets the policy that decides which values are secrets. The default is [redact.Default].
func WithRedact(p *redact.Policy) Option { return func(o *options) { o.redact = p } }

// WithTracerProviderOptions adds options for the TracerProvider, such as a sampler or an id generator.
func WithTracerProviderOptions(list ...sdktrace.TracerProviderOption) Option {
	return func(o *options) { o.spans = append(o.spans, list...) }
}

// New returns a Trace for the test t. The Trace is closed when t and its subtests have ended. If t has failed,
// the Trace then writes its file.
func New(t testing.TB, list ...Option) *Trace {
	t.Helper()
	o := options{redact: redact.Default()}
	for _, option := range list {
		option(&o)
	}
	tr := &Trace{t: t}
	tr.recorder, tr.stream = recorder.Memory(&recorder.Options{Redact: o.redact})
	res := resource.NewSchemaless(attribute.String("service.name", t.Name()))
	to := exporter.WithRecorder(tr.recorder)
	spans, err := exporter.NewSpanProcessor(to)
	if err == nil {
		var logs *exporter.LogProcessor
		logs, err = exporter.NewLogProcessor(to)
		tr.logs = sdklog.NewLoggerProvider(sdklog.WithProcessor(logs), sdklog.WithResource(res))
	}
	if err != nil {
		t.Fatalf("entracetest: %v", err)
	}
	tr.spans = sdktrace.NewTracerProvider(append([]sdktrace.TracerProviderOption{
		sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(spans), sdktrace.WithResource(res),
	}, o.spans...)...)
	tr.logger = slog.New(slogadapter.New(tr.recorder, &slogadapter.Options{Level: slog.LevelDebug - 4}))
	t.Cleanup(tr.end)
	return tr
}

// TracerProvider returns a provider whose spans are recorded.
func (tr *Trace) TracerProvider() *sdktrace.TracerProvider { return tr.spans }

// LoggerProvider returns a provider whose log records are recorded.
func (tr *Trace) LoggerProvider() *sdklog.LoggerProvider { return tr.logs }

// Logger returns a logger that records all levels. A record becomes a child of the span in its context.
func (tr *Trace) Logger() *slog.Logger { return tr.logger }

// Recorder returns the recorder of the trace. The Trace closes the recorder.
func (tr *Trace) Recorder() *recorder.Recorder { return tr.recorder }

// View returns a view of the data recorded so far.
func (tr *Trace) View() *view.View {
	tr.t.Helper()
	b := tr.stream()
	f, err := entrybytes.OpenMapped(mapfile.Memory(b), tr.t.Name(), int64(len(b)), nil, new(format.OpenOptions))
	var v *view.View
	if err == nil {
		v, err = view.New(context.Background(), []*format.File{f.(*format.File)}, &view.Options{Workers: 1})
	}
	if err != nil {
		tr.t.Fatalf("entracetest: %v", err)
	}
	return v
}

// end reports the trace if the test has failed, and closes it.
func (tr *Trace) end() {
	ctx := context.Background() // the context of the test is done
	if tr.t.Failed() {
		tr.report()
	}
	_ = tr.spans.Shutdown(ctx) // these three calls cannot fail
	_ = tr.logs.Shutdown(ctx)
	_ = tr.recorder.Close(ctx)
}

// maxTree is the maximum number of lines of the tree in a log.
const maxTree = 200

// report writes the trace to a file, and its tree to the log of the test.
func (tr *Trace) report() {
	out := tr.t.Output()
	lines := tr.tree(false, nil)
	for i, line := range lines {
		if i == maxTree {
			fmt.Fprintf(out, "… %d more lines\n", len(lines)-maxTree)
			break
		}
		fmt.Fprintln(out, line)
	}
	path, err := tr.write()
	if err != nil {
		fmt.Fprintf(out, "entracetest: keep the trace: %v\n", err)
		return
	}
	tr.t.Attr("entrace.trace", path)
	fmt.Fprintf(out, "entrace view %s\n", path)
}

// dirEnv is the environment variable with the folder for the traces of failed tests.
const dirEnv = "ENTRACE_TEST_DIR"

// write writes the trace to a file of its own.
func (tr *Trace) write() (path string, err error) {
	var dir string
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		dir = tr.t.ArtifactDir()
	} else {
		dir = os.Getenv(dirEnv)
		if dir != "" {
			err = os.MkdirAll(dir, 0o700) //nolint:gosec // the user of the test names it
		} else {
			dir = os.TempDir() // not a fixed folder in os.TempDir, which could belong to another user
		}
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", err
	}
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, tr.t.Name())
	f, err := os.CreateTemp(dir, "entrace-"+name[:min(len(name), 100)]+"-*.iet") // only the user can read the file
	if err != nil {
		return "", err
	}
	_, err = f.Write(tr.stream())
	if err != nil {
		_ = f.Close()
		return "", err
	}
	return f.Name(), f.Close()
}
