//go:build unix

package recorder_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestFinalizeRenamed renames the folder of an open IET and makes it again, as can happen before a rotation has
// finished a file. An ET in the new folder would be a second trace.
func TestFinalizeRenamed(t *testing.T) {
	dir := hosttest.Path(t, "traces")
	must(t, os.Mkdir(dir, 0o700))
	iet := filepath.Join(dir, "a.iet")
	deadStream(t, iet)
	f, err := os.OpenFile(iet, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	folder, err := os.Stat(dir)
	must(t, err)
	must(t, errors.Join(os.Rename(dir, dir+"2"), os.Mkdir(dir, 0o700)))
	if err := format.Finalize(t.Context(), iet, filepath.Join(dir, "a.et"), &format.FinalizeOptions{File: f, RemoveSource: true, Folder: folder}); err == nil {
		t.Error("Finalize returns no error")
	}
	expect.Slice(t, append(dirNames(t, dir), dirNames(t, dir+"2")...), []string{"a.iet"}, "the folders have")
}
