package recorder_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

var update = flag.Bool("update", false, "write the fixtures of this version in testdata/earlier again")

// TestReadWhatEarlierVersionsLeft recovers journals that earlier versions wrote, also with kinds of records
// that are no longer written, and reads files of these versions.
func TestReadWhatEarlierVersionsLeft(t *testing.T) {
	if *update {
		writeFixtures(t)
	}
	tracetest.Versions(t, func(t *testing.T, dir, want string) {
		r, err := recorder.Recover(filepath.Join(dir, "app.et"), "")
		must(t, err)
		if r.Journal != nil || r.Pending == 0 {
			t.Errorf("%d pending, %v", r.Pending, r.Journal)
		}
		files, err := filepath.Glob(filepath.Join(dir, "ended*et"))
		must(t, err)
		for _, name := range append(files, r.Output) {
			want := want
			if b, err := os.ReadFile(strings.Replace(name, filepath.Ext(name), ".txt", 1)); err == nil {
				want = string(b) // version 2 of the format sorts attributes
			}
			expect.Equal(t, tracetest.Entries(t, name), want, "%s has", filepath.Base(name))
			f := tracetest.Open(t, name)
			if last, err := f.Entry(uint32(f.Len() - 1)); err != nil || !last.IsEnd() && last.Metadata.Name != mapping.NameRecovered {
				t.Errorf("%s ends with %+v, %v", filepath.Base(name), last, err)
			}
		}
	})
}

// writeFixtures writes the fixtures of this version: the files of a recorder that is killed while its
// records are only in the journal, and finished files of each format and version.
func writeFixtures(t *testing.T) {
	t.Helper()
	var file, journal []byte
	for journal == nil || bytes.Contains(file, []byte("span 1")) { // try again if the file has the records already
		dir := t.TempDir()
		rec, err := recorder.Create(filepath.Join(dir, "app.et"), &recorder.Options{BufferDir: dir})
		must(t, err)
		tracetest.Fixture(t, rec)
		journal = readFile(t, filepath.Join(dir, "app.iet.buffer"))
		file = readFile(t, filepath.Join(dir, "app.iet"))
		must(t, rec.Close(t.Context()))
	}
	tracetest.Pack(t, "app.iet", file)
	tracetest.Pack(t, "app.iet.buffer", journal)
	for name, o := range map[string]recorder.Options{
		"ended1.et": {Version: format.V1}, "ended2.et": {Version: format.V2}, "ended1.iet": {Version: format.V1}, "ended2.iet": {Version: format.V2},
	} {
		path := hosttest.Path(t, name)
		rec := tracetest.CreateAt(t, path, &o)
		tracetest.Fixture(t, rec)
		must(t, rec.Close(t.Context()))
		b := readFile(t, path)
		tracetest.Pack(t, name, b)
		if text := map[string]string{"ended1.et": "app.txt", "ended2.et": "ended2.txt"}[name]; text != "" {
			tracetest.Pack(t, text, []byte(tracetest.Entries(t, path)))
		}
	}
}
