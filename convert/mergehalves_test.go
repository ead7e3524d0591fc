package convert_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// TestMergeHalves merges files of a recorder in which spans are open when a new file begins. Each span must be
// there once, with its end and everything below it, in any order of the files, and even if one file is missing.
func TestMergeHalves(t *testing.T) {
	dir := t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{MaxFileEntries: 30})
	p, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
	must(t, err)
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("t")
	ctx, outer := tracer.Start(t.Context(), "outer")
	_, never := tracer.Start(ctx, "never")
	_ = never
	for i := range 40 {
		c, s := tracer.Start(ctx, fmt.Sprint("inner ", i))
		_, leaf := tracer.Start(c, fmt.Sprint("leaf ", i))
		leaf.End()
		s.End()
		must(t, rec.Flush(t.Context())) // so that a new file may begin
	}
	outer.End()
	want := trace.SpanContextFromContext(ctx).SpanID()
	must(t, p.Shutdown(t.Context()))
	must(t, rec.Close(t.Context()))
	names, err := filepath.Glob(filepath.Join(dir, "*.et"))
	must(t, err)
	if len(names) < 4 {
		t.Fatalf("there are %d files", len(names))
	}
	for _, order := range []string{"as they are", "the other way round", "without one"} {
		list := slices.Clone(names) // app.et, the last file, is sorted after the files with a time in their name
		total := 82
		switch order {
		case "the other way round":
			slices.Reverse(list)
		case "without one":
			list = list[1:]
		}
		tr, err := convert.Open(t.Context(), list, nil)
		must(t, err)
		defer tr.Close()
		out := filepath.Join(dir, "all"+fmt.Sprint(len(order))+".et")
		must(t, tr.EncodeFile(t.Context(), out, convert.ET, nil))
		f, err := format.Open(out, nil)
		must(t, err)
		v := tracetest.View(t, f)
		spans, open, outers := make(map[string]int), []string{}, 0
		for id := range v.Rows() {
			if v.Role(id) != view.RoleSpan {
				continue
			}
			e, err := v.Entry(id)
			must(t, err)
			spans[e.Metadata.Name]++
			if _, ended := v.Duration(id); !ended {
				open = append(open, e.Metadata.Name)
			}
			if ref := v.Ref(id); ref.SpanID == want {
				outers++
				if e.Metadata.Name != "outer" || len(v.Children(id)) < 30 {
					t.Errorf("%s: the span is %q with %d children", order, e.Metadata.Name, len(v.Children(id)))
				}
			} else if strings.HasPrefix(e.Metadata.Name, "inner") && v.Ref(v.Parent(id)).SpanID != want {
				t.Errorf("%s: %s is elsewhere", order, e.Metadata.Name)
			}
		}
		for name, n := range spans {
			if n != 1 {
				t.Errorf("%s: %s is there %d times", order, name, n)
			}
		}
		if outers != 1 || order != "without one" && (len(spans) != total || !slices.Equal(open, []string{"never"})) {
			t.Errorf("%s: %d spans, want %d; %d of outer; not ended: %q", order, len(spans), total, outers, open)
		}
		must(t, f.Close())
		must(t, os.Remove(out))
	}
}

// TestMergeHalvesInARing merges two hostile files. Each has one half of two spans, below the other span.
func TestMergeHalvesInARing(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i, ids := range [][2]string{{"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"}, {"bbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaa"}} {
		x := tracetest.New(t, 0, format.IET, format.Root())
		for level, id := range ids {
			x.Add(tracetest.Below(uint32(level), tracetest.Entry(id,
				format.AttrTime, uint64(1),
				format.AttrTraceID, strings.Repeat("01", 16),
				format.AttrSpanID, id,
				mapping.AttrContinued, level == 0,
			)))
		}
		names = append(names, x.Save(filepath.Join(dir, fmt.Sprint(i, ".iet"))))
	}
	done := make(chan error, 1)
	go func() {
		tr, err := convert.Open(t.Context(), names, nil)
		if err == nil {
			err = errors.Join(tr.EncodeFile(t.Context(), filepath.Join(dir, "out.et"), convert.ET, nil), tr.Close())
		}
		done <- err
	}()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("Merge does not end")
	}
}
