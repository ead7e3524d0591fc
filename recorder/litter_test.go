package recorder_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// TestRecoverFolderLeavesNoLitter has what processes leave that die while they make a trace:
// the file of a finalizer, an IET to which nothing was written, and one whose ET is there.
func TestRecoverFolderLeavesNoLitter(t *testing.T) {
	dir := t.TempDir()
	name := func(base string) string { return filepath.Join(dir, base) }
	rec, err := recorder.Create(name("x.iet"), nil)
	must(t, err)
	_, err = rec.Append(&format.TraceEntry{Metadata: format.Metadata{Name: "entry"}})
	must(t, err)
	tracetest.Close(t, rec)
	const done = "app.20261120T212712.021Z"
	must(t, os.Rename(name("x.iet"), name(done+".iet")))
	must(t, format.Finalize(t.Context(), name(done+".iet"), name(done+".et"), nil))
	must(t, os.WriteFile(name("."+done+".et.tmp-123456"), []byte("half"), 0o600))
	for _, base := range []string{"app.20261120T212713.021Z.iet", "app.iet", "new.iet"} {
		must(t, os.WriteFile(name(base), nil, 0o600))
	}
	living, err := osfile.OpenWrite(name("new.iet"))
	must(t, err)
	defer living.Close()
	must(t, osfile.Lock(living, true))
	must(t, os.WriteFile(name("theirs.iet"), []byte("their text"), 0o600))
	must(t, recorder.RecoverFolder(context.Background(), dir, func(r *recorder.Report, err error) {
		t.Errorf("it has recovered %+v, %v", r, err)
	}))
	if got, want := dirNames(t, dir), []string{done + ".et", "new.iet", "theirs.iet"}; !slices.Equal(got, want) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
	if r, err := recorder.Inspect(name(done + ".et")); err != nil || r.Entries < 2 {
		t.Errorf("the trace is %+v, %v", r, err)
	}
}
