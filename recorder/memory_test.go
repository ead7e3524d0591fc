package recorder_test

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// names returns the names of the entries of an IET.
func names(t *testing.T, stream []byte) (all []string) {
	t.Helper()
	r, err := format.NewReader(bytes.NewReader(stream), nil)
	must(t, err)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		all = append(all, strings.Clone(e.Metadata.Name)) // the memory of the entry is reused
	}
}

// TestMemory checks that the stream is a complete IET at any time, in both versions, and that the recorder
// refuses the same calls as other recorders.
func TestMemory(t *testing.T) {
	for _, v := range tracetest.BothVersions {
		rec, stream := recorder.Memory(&recorder.Options{Version: v})
		e := tracetest.Entry("a")
		id, err := rec.Append(e)
		must(t, err)
		for want := range 3 {
			if got := names(t, stream()); len(got) != 3 || got[1] != "a" || got[2] != "entrace.end" {
				t.Errorf("after %d streams there is %v", want, got)
			}
		}
		e.Parent = id
		for range 20_000 { // enough for several pieces
			_, err = rec.Append(e)
			must(t, err)
		}
		e.Parent = 1 << 20
		expect.Is(t, expect.Err(rec.Append(e)), format.ErrInvalid, "a parent that is not there")
		_, err = rec.Resource(tracetest.Entry("resource"))
		must(t, err)
		must(t, rec.Close(t.Context()))
		expect.Is(t, expect.Err(rec.Append(&format.TraceEntry{})), recorder.ErrClosed, "after Close")
		expect.Equal(t, len(names(t, stream())), 20_004, "entries")
		s := rec.Stats()
		if c := s.Entries; c.Offered != 20_005 || c.Written != 20_003 || c.Dropped.Total() != 2 || c.Waiting != 0 || s.Bytes == 0 {
			t.Errorf("got %+v", s)
		}
	}
}

func TestHugeAttributes(t *testing.T) {
	const size, attributes = 4 << 20, 150_000
	for _, v := range tracetest.BothVersions {
		rec := tracetest.Create(t, "app.et", &recorder.Options{Version: v, MaxEntrySize: 1 << 20})
		e := named("large")
		e.Attributes = tracetest.Attributes("x", strings.Repeat("ü", size/2))
		must(t, rec.Log(format.SpanRef{}, e))
		e = named("many")
		for i := range attributes {
			e.Add("a"+strconv.Itoa(i), format.BoolValue(true))
		}
		must(t, rec.Log(format.SpanRef{}, e))
		tracetest.Close(t, rec)
		must(t, expect.Err(recorder.Verify(rec.Path(), func(problem error) { t.Errorf("version %d: %v", v, problem) })))
		f := tracetest.Open(t, rec.Path())
		for id := uint32(1); id <= 2; id++ {
			raw, err := entrybytes.Of(f).Append(nil, id)
			must(t, err)
			mark, ok, err := f.Attribute(id, mapping.AttrTruncated)
			if len(raw) > 1<<20 || err != nil || !ok || !mark.Bool() {
				t.Errorf("version %d: entry %d has %d bytes, mark %v, %v", v, id, len(raw), ok, err)
			}
		}
	}
}
