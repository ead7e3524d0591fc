package recorder

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/deadtrace"
	"github.com/entrace-go/entrace/internal/tracename"
)

// TestPruneOwnFiles checks that prune removes the files of this process in the order in
// which they were rotated out, even if the clock was set in between.
func TestPruneOwnFiles(t *testing.T) {
	for name, day := range map[string]time.Duration{"set back a day": -24 * time.Hour, "set forward a day": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stream := filepath.Join(dir, "app.iet")
			w := &writer{o: &Options{}, name: stream}
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
					at = at.Add(day) // the clock was set
				}
				own = append(own, file(at))
				w.finished.ended.Add(own[i])
			}
			for keep := 6; keep > 0; keep-- {
				w.o.KeepFiles = keep
				must(t, w.prune(t.Context(), now.Add(day)))
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

// TestStrangerAtOwnName checks that a file which another program puts at the name of the growing file
// is not treated as the file of a dead writer.
func TestStrangerAtOwnName(t *testing.T) {
	for _, final := range []string{"app.et", "app.iet"} {
		dir := t.TempDir()
		w := &writer{o: &Options{}, name: filepath.Join(dir, "app.iet"), final: filepath.Join(dir, final)}
		must(t, os.WriteFile(w.name, nil, 0o600)) // the file is still empty
		w.finishOwn(t.Context(), nil)
		if _, err := os.Stat(w.name); err != nil {
			t.Errorf("%s: %v", final, err)
		}
	}
}
