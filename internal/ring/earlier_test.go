package ring_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/record"
	"github.com/entrace-go/entrace/internal/ring"
	"github.com/entrace-go/entrace/internal/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// TestOpenRingOfEarlierVersion: records of a kind that is not written any more are still there.
func TestOpenRingOfEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	tracetest.Unpack(t, dir)
	d, err := ring.Open(filepath.Join(dir, "app.ring"))
	must(t, err)
	defer d.Close()
	sn := d.Snapshot(ring.SnapshotOptions{Providers: ^record.Providers(0)})
	rec, err := sn.Create(filepath.Join(dir, "app.et"), &recorder.Options{})
	must(t, err)
	must(t, sn.Copy(rec))
	must(t, rec.Close(t.Context()))
	want, err := os.ReadFile("testdata/earlier/app.txt")
	must(t, err)
	got, _, _ := strings.Cut(tracetest.Entries(t, rec.Path()), "16 below 0: ")
	if got != string(want) || string(d.Note) != "a note" {
		t.Errorf("a note of %q, got\n%swant\n%s", d.Note, got, want)
	}
}

// TestRingWholeSpanEndsOpenOne: the ring does not take a span for open whose end came as a whole span,
// and a snapshot of before that and after it has it once.
func TestRingWholeSpanEndsOpenOne(t *testing.T) {
	g := newRing(t, &ring.Options{Bytes: 4 << 20}, allProviders)
	s := play(t, g.Recorder())
	ref := ringRef(1, 1)
	s.start(ref, format.SpanRef{}, "span", 0)
	if open := g.Stats().Open; open != 1 {
		t.Errorf("%d open spans, want 1", open)
	}
	e := ringEntry("span", 0)
	e.Attributes = append(e.Attributes, format.Attribute{Name: format.AttrDuration, Value: format.U64Value(5)})
	must(t, tracetest.WriteSpan(s.rec, &tracetest.Span{Entry: *e, Span: recorder.Span{Ref: ref, Resource: s.res, Time: s.at}}))
	if open := g.Stats().Open; open != 0 {
		t.Errorf("%d open spans, want none", open)
	}
	if got, want := rawOutline(t, writeSnapshot(t, g.Snapshot(ring.SnapshotOptions{Providers: allProviders}))), "span(span end)"; !strings.Contains(got, want) {
		t.Errorf("the snapshot is %s, want %s in it", got, want)
	}
}
