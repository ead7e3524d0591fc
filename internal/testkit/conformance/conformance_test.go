//go:build conformance

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/jsontest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

var must = expect.Must

var update = flag.Bool("update", false, "let the crate make the fixtures in format/testdata again, and write the screens of TestTerminal")

// peerPath is the path of the program peer, which TestMain builds.
var peerPath string

func TestMain(m *testing.M) {
	if os.Getenv("GOLDEN") != "" {
		os.Exit(m.Run()) // this process is the program of TestGoldens
	}
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func build() error {
	dir, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, "entrace-peer")
	cmd := exec.Command("cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", "peer/Cargo.toml", "--target-dir", dir)
	cmd.Stderr = os.Stderr
	peerPath = filepath.Join(dir, "release", "entrace-peer")
	return cmd.Run()
}

// peer runs the program around the crate, and returns its output.
func peer(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := tryPeer(args...)
	if err != nil {
		t.Fatalf("peer %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func tryPeer(args ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(peerPath, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	return out.Bytes(), nil
}

var (
	versions = tracetest.BothVersions
	formats  = []format.StorageFormat{format.IET, format.IETPrefix, format.ET}
)

func each(t *testing.T, fn func(t *testing.T, v format.Version, f format.StorageFormat)) {
	for _, v := range versions {
		for _, f := range formats {
			t.Run(fmt.Sprintf("v%d/%v", v, f), func(t *testing.T) { fn(t, v, f) })
		}
	}
}

// number returns the version in the form of peer's arguments.
func number(v format.Version) string { return strconv.Itoa(int(v)) }

// TestReadTheirs reads files that the crate wrote, and compares the entries with the entries that the crate reads.
func TestReadTheirs(t *testing.T) {
	each(t, func(t *testing.T, v format.Version, f format.StorageFormat) {
		name := hosttest.Path(t, "theirs."+f.String())
		peer(t, "write", number(v), f.String(), name)
		compare(t, v, name)
		base := filepath.Join("..", "..", "..", "format", "testdata", "v"+number(v))
		for file, want := range map[string][]byte{
			base + "." + f.String(): read(t, name),
			base + ".txt":           peer(t, "dump", number(v), name),
			base + ".children.txt":  peer(t, "children", number(v), name),
		} {
			if *update {
				must(t, os.WriteFile(file, want, 0o644))
			}
			if !bytes.Equal(read(t, file), want) {
				t.Errorf("%s is not what the crate makes; make golden", file)
			}
		}
	})
}

// TestReadOurs reads a file that a service recorded with the crate. The file has values of every kind.
func TestReadOurs(t *testing.T) {
	each(t, func(t *testing.T, v format.Version, f format.StorageFormat) {
		name := record(t, v, f)
		compare(t, v, name)
	})
}

// compare reads a file with the crate and with package format, and compares the results.
func compare(t *testing.T, v format.Version, name string) {
	t.Helper()
	f := tracetest.OpenFile(t, name)
	theirs := lines(peer(t, "dump", number(v), name))
	kids := lines(peer(t, "children", number(v), name))
	if len(theirs) != f.Len() || len(kids) != f.Len() {
		t.Fatalf("the crate reads %d entries and %d lists of children, we read %d", len(theirs), len(kids), f.Len())
	}
	err := f.Walk(0, func(id uint32, e *format.TraceEntry) error {
		ours := entryjson.Append(nil, int64(id), e)
		if got, want := parse(t, ours), parse(t, theirs[id]); !reflect.DeepEqual(got, want) {
			t.Errorf("entry %d:\n we read %s\nthey read %s", id, ours, theirs[id])
		}
		var want []uint32
		if err := json.Unmarshal(kids[id], &want); err != nil {
			return err
		}
		if got := f.Children(id); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("children of %d: we read %v, they read %v", id, got, want)
		}
		return nil
	})
	must(t, err)
}

func lines(b []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

func parse(t *testing.T, b []byte) any {
	t.Helper()
	v, err := jsontest.Parse(b)
	if err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

var read = tracetest.ReadFile

// record records live spans, exported spans, log records and raw entries, and returns the path of the file.
func record(t *testing.T, v format.Version, f format.StorageFormat) string {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "ours.iet")
	if f == format.ET {
		name = filepath.Join(dir, "ours.et")
	}
	rec, err := recorder.Create(name, &recorder.Options{Version: v})
	must(t, err)
	live, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
	must(t, err)
	exp, err := exporter.New(exporter.WithRecorder(rec))
	must(t, err)
	log := slog.New(slogadapter.New(rec, nil))
	for i, o := range []sdktrace.TracerProviderOption{sdktrace.WithSpanProcessor(live), sdktrace.WithBatcher(exp)} {
		tp := sdktrace.NewTracerProvider(o)
		ctx, outer := tp.Tracer("scope").Start(t.Context(), "outer", trace.WithAttributes(attribute.Int("run", i)))
		for n := range 200 {
			_, inner := tp.Tracer("scope").Start(ctx, "inner ü \xff \x1b[31m")
			inner.SetAttributes(attribute.Int("n", n), attribute.String("bad", "\xff"), attribute.Float64("nan", math.NaN()),
				attribute.Float64Slice("floats", []float64{1, math.Inf(1)}), attribute.String("long", strings.Repeat("x", n)))
			inner.AddEvent("event", trace.WithAttributes(attribute.StringSlice("s", []string{"a", "b"})))
			inner.RecordError(errors.New("boom"))
			inner.End()
			log.InfoContext(ctx, "log\n", "n", n, "f", 2.0, slog.Group("g", "b", []byte{0, 255}))
		}
		outer.End()
		must(t, tp.Shutdown(context.WithoutCancel(ctx)))
	}
	kinds := &format.TraceEntry{
		Message:  format.Some(""),
		Metadata: format.Metadata{Name: "kinds", Level: format.LevelWarn, ModulePath: format.Some("m"), File: format.Some("f"), Line: format.Some(uint32(math.MaxUint32))},
	}
	for i, x := range []format.Value{
		format.StringValue(""), format.BytesValue(nil), format.BoolValue(true), format.BoolValue(false),
		format.FloatValue(2), format.FloatValue(math.Copysign(0, -1)), format.FloatValue(math.Inf(-1)), format.FloatValue(5e-324), format.FloatValue(1e21),
		format.U64Value(250), format.U64Value(251), format.U64Value(65535), format.U64Value(65536), format.U64Value(math.MaxUint32), format.U64Value(math.MaxUint64),
		format.I64Value(-1), format.I64Value(math.MinInt64), format.I64Value(math.MaxInt64), format.I64Value(125), format.I64Value(-126),
		format.U128Value(0, 7), format.U128Value(math.MaxUint64, math.MaxUint64), format.I128Value(math.MinInt64, 0), format.I128Value(-1, math.MaxUint64), format.I128Value(math.MaxInt64, math.MaxUint64),
	} {
		kinds.Attributes = append(kinds.Attributes, format.Attribute{Name: fmt.Sprintf("a%02d", i), Value: x})
	}
	must(t, expect.Err(rec.Append(kinds)))
	must(t, rec.Close(context.WithoutCancel(t.Context())))
	if f != format.IETPrefix {
		return name
	}
	prefixed := filepath.Join(dir, "ours.ietprefix")
	must(t, convertFile(t, name, prefixed, f, 0))
	return prefixed
}

// TestFinalizeSame compares the ETs that this module and the crate make of the same IET.
func TestFinalizeSame(t *testing.T) {
	for _, v := range versions {
		t.Run("v"+number(v), func(t *testing.T) {
			iet := record(t, v, format.IET)
			dir := t.TempDir()
			ours, theirs := filepath.Join(dir, "ours.et"), filepath.Join(dir, "theirs.et")
			must(t, format.Finalize(t.Context(), iet, ours, nil))
			peer(t, "iet2et", number(v), iet, theirs)
			if !bytes.Equal(read(t, ours), read(t, theirs)) {
				t.Error("our ET differs from the crate's")
			}
		})
	}
}

// TestUpgradeSame compares the conversion from version 1 to version 2 with the crate's conversion.
func TestUpgradeSame(t *testing.T) {
	for _, f := range []format.StorageFormat{format.IET, format.ET} {
		t.Run(f.String(), func(t *testing.T) {
			v1 := record(t, format.V1, f)
			dir := t.TempDir()
			ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
			must(t, convertFile(t, v1, ours, f, format.V2))
			peer(t, "v1to2", v1, theirs)
			if !bytes.Equal(read(t, ours), read(t, theirs)) {
				t.Error("our version 2 differs from the crate's")
			}
		})
	}
}

// TestCrateTakesBytesForOffsets documents a fault of the crate. To convert an ET to an IET, the crate skips as
// many bytes as the ET has offsets, which is correct only if each offset is one byte long. This module decodes the
// offsets, and its result equals the original IET.
func TestCrateTakesBytesForOffsets(t *testing.T) {
	for _, v := range versions {
		t.Run("v"+number(v), func(t *testing.T) {
			dir := t.TempDir()
			iet, et := filepath.Join(dir, "a.iet"), filepath.Join(dir, "a.et")
			peer(t, "write", number(v), "iet", iet)
			must(t, convertFile(t, iet, et, format.ET, 0))
			ours, theirs := filepath.Join(dir, "ours.iet"), filepath.Join(dir, "theirs.iet")
			must(t, convertFile(t, et, ours, format.IET, 0))
			if !bytes.Equal(read(t, ours), read(t, iet)) {
				t.Error("IET to ET to IET is not what it was")
			}
			if _, err := tryPeer("et2iet", number(v), et, theirs); err == nil && bytes.Equal(read(t, theirs), read(t, iet)) {
				t.Error("the crate's et_to_iet is right now: say so in the documentation")
			}
		})
	}
}

// TestCrateKeepsPrefixes documents a difference. If the crate makes an ET of an IETPrefix, the data section still
// contains the length of each entry. Such an ET can be read, because its offsets are correct. The ET of this
// module does not contain the lengths.
func TestCrateKeepsPrefixes(t *testing.T) {
	for _, v := range versions {
		t.Run("v"+number(v), func(t *testing.T) {
			dir := t.TempDir()
			prefixed, plain := filepath.Join(dir, "a.ietprefix"), filepath.Join(dir, "a.iet")
			peer(t, "write", number(v), "ietprefix", prefixed)
			peer(t, "write", number(v), "iet", plain)
			fromPrefixed, fromPlain := filepath.Join(dir, "1.et"), filepath.Join(dir, "2.et")
			for in, out := range map[string]string{prefixed: fromPrefixed, plain: fromPlain} {
				must(t, convertFile(t, in, out, format.ET, 0))
			}
			if !bytes.Equal(read(t, fromPrefixed), read(t, fromPlain)) {
				t.Error("our ET of IETPrefix differs from that of IET")
			}
			theirs := filepath.Join(dir, "theirs.et")
			peer(t, "iet2et", number(v), prefixed, theirs, "--length-prefixed")
			if bytes.Equal(read(t, theirs), read(t, fromPlain)) {
				t.Error("the crate drops the lengths now: say so in the documentation")
			}
		})
	}
}

// TestCrateTakesModuleForFile documents a fault of the crate: in the header that it returns for an entry of an ET,
// the file is the module path, and the line is the length of the file's name.
func TestCrateTakesModuleForFile(t *testing.T) {
	for _, v := range versions {
		t.Run("v"+number(v), func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "a.et")
			peer(t, "write", number(v), "et", name)
			var h struct {
				File string
				Line int
			}
			must(t, json.Unmarshal(lines(peer(t, "header", number(v), name))[1], &h))
			f := tracetest.OpenFile(t, name)
			e, err := f.Entry(1)
			must(t, err)
			m := e.Metadata
			if h.File == m.File.Value && h.Line == int(m.Line.Value) {
				t.Error("the crate's header is right now: say so in the documentation")
			}
			if h.File != m.ModulePath.Value || h.Line != len(m.File.Value) {
				t.Errorf("the crate shows file %q, line %d, want the module path %q and %d", h.File, h.Line, m.ModulePath.Value, len(m.File.Value))
			}
		})
	}
}

// TestRecoveredIsReadable reads the file that Recover makes of a torn file with the crate.
func TestRecoveredIsReadable(t *testing.T) {
	for _, v := range versions {
		t.Run("v"+number(v), func(t *testing.T) {
			iet := record(t, v, format.IET)
			whole := read(t, iet)
			dir := t.TempDir()
			for i, cut := range []int{len(whole) / 3, len(whole) / 2, len(whole) - 1} {
				name := filepath.Join(dir, fmt.Sprintf("%d.iet", i))
				must(t, os.WriteFile(name, whole[:cut], 0o600))
				must(t, expect.Err(recorder.Recover(name, "")))
				compare(t, v, name)
			}
		})
	}
}

// convertFile converts the file in to the file out, as 'entrace convert' does.
func convertFile(t *testing.T, in, out string, to format.StorageFormat, v format.Version) error {
	t.Helper()
	tr, err := convert.Open(t.Context(), []string{in}, &convert.OpenOptions{Once: true})
	if err != nil {
		return err
	}
	return errors.Join(tr.EncodeFile(t.Context(), out, convert.Format(to.String()), &convert.Options{Version: v}), tr.Close())
}
