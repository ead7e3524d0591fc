package ring_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
