package ring_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

var update = flag.Bool("update", false, "write the fixtures of this version in testdata/earlier again")

// TestOpenRingsOfEarlierVersions checks that rings of earlier versions can be read, also if they have kinds
// of records that are no longer written.
func TestOpenRingsOfEarlierVersions(t *testing.T) {
	copied := func(name string) string {
		d, err := ring.Open(name)
		must(t, err)
		defer d.Close()
		expect.Equal(t, string(d.Note), "a note", "the note")
		sn := d.Snapshot(ring.SnapshotOptions{Providers: ^record.Providers(0)})
		rec, err := sn.Create(hosttest.Path(t, "app.et"), &recorder.Options{})
		must(t, err)
		must(t, sn.Copy(rec))
		must(t, rec.Close(t.Context()))
		return tracetest.Entries(t, rec.Path())
	}
	if *update {
		path := hosttest.Path(t, "app.ring")
		g := newRing(t, &ring.Options{Path: path, Dir: filepath.Dir(path), Bytes: 4 << 20, Note: []byte("a note")}, allProviders)
		tracetest.Fixture(t, g.Recorder())
		b := tracetest.ReadFile(t, path)
		tracetest.Pack(t, "app.ring", b)
		left := hosttest.Path(t, "left.ring")
		must(t, os.WriteFile(left, b, 0o600))
		tracetest.Pack(t, "app.txt", []byte(copied(left)))
	}
	tracetest.Versions(t, func(t *testing.T, dir, want string) {
		expect.Equal(t, copied(filepath.Join(dir, "app.ring")), want, "copied")
	})
}
