//go:build unix

package recorder_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/recorder"
)

// TestCutAtEveryByte cuts an IET at each byte and recovers it in place.
func TestCutAtEveryByte(t *testing.T) {
	whole := wire.AppendMagic(nil, format.V2, format.IET)
	ends := []int{}
	for i := range 4 {
		e := named(fmt.Sprint("entry ", i))
		if i == 0 {
			e = format.Root()
		}
		e.Add("a", format.StringValue("v"))
		whole = format.AppendTraceEntry(whole, format.V2, e)
		ends = append(ends, len(whole))
	}
	name := hosttest.Path(t, "a.iet")
	for n := range len(whole) + 1 {
		must(t, os.WriteFile(name, whole[:n], 0o600))
		entries, good := 0, wire.MagicSize
		for i, end := range ends {
			if end <= n {
				entries, good = i+1, end
			}
		}
		r, err := recorder.Recover(name, "")
		if n < wire.MagicSize {
			expect.Is(t, err, format.ErrTruncated, "%d bytes", n)
			continue
		}
		must(t, err)
		reason := mapping.CutTorn
		switch {
		case good == n:
			reason = mapping.CutClean
		case len(bytes.Trim(whole[good:n], "\x00")) == 0:
			reason = mapping.CutZeroTail
		}
		if r.Entries != entries || int(r.GoodBytes) != good || entries > 0 && r.Reason != reason {
			t.Errorf("%d bytes: Recover says %+v, want %d entries in %d bytes, %s", n, r, entries, good, reason)
		}
		if got := readFile(t, name); !bytes.Equal(got, whole[:good]) {
			t.Errorf("%d bytes: %d are left, want %d", n, len(got), good)
		}
		again, err := recorder.Recover(name, "")
		must(t, err)
		if again.Size != int64(good) || again.Broken != "" || len(dirNames(t, filepath.Dir(name))) != 1 {
			t.Errorf("%d bytes: Recover again says %+v", n, again)
		}
	}
}

// TestRecoverWithoutRights recovers files behind links, which Recover must not change. It reports complete files, and
// returns an error for other files.
func TestRecoverWithoutRights(t *testing.T) {
	dir := t.TempDir()
	iet := deadStream(t, filepath.Join(dir, "stream.iet"))
	must(t, format.Finalize(t.Context(), filepath.Join(dir, "stream.iet"), filepath.Join(dir, "stream.et"), nil))
	et := readFile(t, filepath.Join(dir, "stream.et"))
	for _, x := range []struct {
		name string // of the link
		file []byte
		ask  string // the name that the user says
		want error
	}{
		{"whole.iet", iet, "whole.iet", nil},
		{"whole.et", et, "whole.et", nil},
		{"torn.iet", iet[:len(iet)-3], "torn.iet", format.ErrNotRegular},
		{"torn.et", et[:len(et)-3], "torn.et", format.ErrNotRegular},
		{"stays.iet", iet, "stays.et", format.ErrNotRegular}, // it has no mark, so an ET must be made
	} {
		target := hosttest.Path(t, "target")
		must(t, os.WriteFile(target, x.file, 0o600))
		must(t, os.Symlink(target, filepath.Join(dir, x.name)))
		was := dirNames(t, dir)
		r, err := recorder.Recover(filepath.Join(dir, x.ask), "")
		if !errors.Is(err, x.want) || err == nil && (r.Reason != mapping.CutClean || r.Output != r.Name) {
			t.Errorf("%s: %+v, %v, want %v", x.name, r, err, x.want)
		}
		if !bytes.Equal(readFile(t, target), x.file) || !slices.Equal(dirNames(t, dir), was) {
			t.Errorf("%s: Recover has changed files", x.name)
		}
	}
}
