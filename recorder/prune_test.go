package recorder

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// TestPruneOwnFiles checks that prune removes the files of this process in the order in which they were
// finished, even if the clock was set in between.
func TestPruneOwnFiles(t *testing.T) {
	for name, day := range map[string]time.Duration{"set back a day": -24 * time.Hour, "set forward a day": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stream := filepath.Join(dir, "app.iet")
			o := &Options{}
			f := &finisher{in: &intake{account: account{o: o}}, name: stream}
			file := func(at time.Time) string {
				path := filepath.Join(dir, "app."+at.UTC().Format(deadtrace.TimeFormat))
				must(t, os.WriteFile(path+tracename.ET, nil, 0o600))
				must(t, os.Chtimes(path+tracename.ET, at, at))
				return path
			}
			now := time.Now()
			stranger := file(now.Add(-time.Hour)) // a file of another process
			var own []string
			for i := range 6 {
				at := now.Add(time.Duration(i) * time.Second)
				if i >= 3 {
					at = at.Add(day) // after the clock was set
				}
				own = append(own, file(at))
				f.finished.ended.Add(own[i])
			}
			for keep := 6; keep > 0; keep-- {
				o.KeepFiles = keep
				must(t, f.prune(t.Context(), now.Add(day)))
				left, err := filepath.Glob(filepath.Join(dir, "*"+tracename.ET))
				must(t, err)
				for k := range left {
					left[k] = strings.TrimSuffix(left[k], tracename.ET)
				}
				want := append([]string{stranger}, own...)
				want = want[7-keep:]
				slices.Sort(left)
				slices.Sort(want)
				if !slices.Equal(left, want) {
					t.Fatal("keep", keep, "leaves", left, "want", want)
				}
			}
		})
	}
}

// TestStrangerAtOwnName checks that a file of another program with the name of the growing file is not
// treated as the file of a dead writer.
func TestStrangerAtOwnName(t *testing.T) {
	for _, final := range []string{"app.et", "app.iet"} {
		dir := t.TempDir()
		f := &finisher{in: &intake{account: account{o: &Options{}}}, name: filepath.Join(dir, "app.iet"), final: filepath.Join(dir, final)}
		must(t, os.WriteFile(f.name, nil, 0o600)) // the other program has written nothing yet
		f.finishOwn(t.Context(), nil)
		expect.Is(t, expect.Err(os.Stat(f.name)), nil, "%s", final)
	}
}

// TestMarkedFilesKeepTheirAge checks that finishing old torn files does not make them new: prune removes
// them, not younger files.
func TestMarkedFilesKeepTheirAge(t *testing.T) {
	dir := t.TempDir()
	whole := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
	file := func(at time.Time, name string, more ...byte) string {
		b := format.AppendTraceEntry(slices.Clone(whole), format.V1, &format.TraceEntry{Metadata: format.Metadata{Name: name}})
		path := filepath.Join(dir, "app."+at.UTC().Format(deadtrace.TimeFormat)+tracename.IET)
		must(t, os.WriteFile(path, append(b, more...), 0o600))
		must(t, os.Chtimes(path, at, at))
		return path
	}
	var torn, ended []string
	for i := range 4 {
		torn = append(torn, file(time.Now().Add(-time.Duration(2000-i)*time.Hour), "old", 0, 0, 1))
		ended = append(ended, file(time.Now().Add(-time.Duration(30-i)*time.Hour), mapping.NameEnd))
	}
	r, err := Create(filepath.Join(dir, "app.iet"), &Options{KeepFiles: 4})
	must(t, err)
	must(t, r.Close(t.Context()))
	for _, name := range torn {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s is kept", name)
		}
	}
	for _, name := range ended {
		expect.OK(t, expect.Err(os.Stat(name)))
	}
}
