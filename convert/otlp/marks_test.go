package otlp_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
	"github.com/entrace-go/entrace/view"
)

// TestThereAndBack records with log/slog, and converts the trace to OTLP and back. All values must keep their
// kinds: a duration, JSON, and the source position outside the attributes. A log record without a resource must not
// get one. An open span must be marked.
func TestThereAndBack(t *testing.T) {
	rec := tracetest.CreateAt(t, hosttest.Path(t, "app.iet"), nil)
	log := slog.New(slogadapter.New(rec, nil))
	log.Info("said", "took", 24*time.Millisecond, "n", 5, "list", []int{1, 2}, "nothing", nil, slog.Group("g", "wait", -time.Second))
	s := &tracetest.Span{Span: recorder.Span{Ref: format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{2}}}}
	s.Entry.Metadata = format.Metadata{Name: "open", Level: format.LevelInfo}
	s.Entry.Attributes = tracetest.Attributes(format.AttrSpanID, "0200000000000000", format.AttrTime, uint64(5))
	must(t, tracetest.WriteSpan(rec, s))
	must(t, rec.Close(t.Context()))
	f := tracetest.OpenFile(t, rec.Path())
	v := tracetest.View(t, f)
	shown := func(v *view.View) (all []string) {
		for id := range v.Rows() {
			if r := v.Role(id); r != view.RoleLog && r != view.RoleSpan && r != view.RoleResource {
				continue
			}
			e, err := v.Entry(id)
			must(t, err)
			e.Parent = 0
			all = append(all, string(entryjson.Append(nil, 0, e)))
		}
		return all
	}
	want := shown(v)
	if len(want) != 2 || !strings.Contains(want[1], `[\"took\",\"g.wait\"]`) {
		t.Fatalf("recorded is %q", want)
	}
	for _, o := range []*otlp.EncodeOptions{nil, {Protobuf: true}} {
		first := encode(t, v, o)
		back := mustDecode(t, bytes.NewReader(first))
		expect.Equal(t, strings.Join(shown(back), "\n"), strings.Join(want, "\n"), "it comes back as")
		if again := encode(t, back, o); !bytes.Equal(again, first) {
			t.Errorf("the second time it is\n%s\nthe first time\n%s", again, first)
		}
		if !bytes.Contains(first, []byte("entrace.open")) {
			t.Error("the open span is not marked")
		}
	}
}
