package recorder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// TestRecoverJournalOfEarlierVersion: records of a kind that is not written any more are still
// brought in.
func TestRecoverJournalOfEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	tracetest.Unpack(t, dir)
	r, err := recorder.Recover(filepath.Join(dir, "app.et"), "")
	must(t, err)
	if r.Journal != nil || r.Pending == 0 {
		t.Errorf("%d pending, %v", r.Pending, r.Journal)
	}
	want, err := os.ReadFile("testdata/earlier/app.txt")
	must(t, err)
	got, last, _ := strings.Cut(tracetest.Entries(t, r.Output), "16 below 0: ")
	if got != string(want) || !strings.HasPrefix(last, "entrace.recovered") {
		t.Errorf("got\n%slast %s\nwant\n%s", got, last, want)
	}
}
