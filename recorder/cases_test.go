package recorder_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestCases runs the cases in testdata/cases.txt in both versions of the format.
func TestCases(t *testing.T) {
	tracetest.Golden(t, "testdata/cases.txt", *update, func(lines string) (said string) {
		t.Run(lines, func(t *testing.T) {
			var trees [2]string
			for i, version := range tracetest.BothVersions {
				top := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					s := newScript(t, top, version)
					s.run(strings.Split(lines, "\n"))
					trees[i] = s.show()
				})
			}
			said = trees[0]
			if trees[0] != trees[1] {
				said = "version 1:\n" + trees[0] + "version 2:\n" + trees[1]
			}
		})
		return said
	})
}

var timeInName = regexp.MustCompile(`\.\d{8}T\d{6}\.\d{3}Z`)

// show returns the account, and for each file in the folder the entries as they are in the file and the rows of a view.
func (s *script) show() string {
	var b strings.Builder
	st := s.rec.Stats()
	fmt.Fprintf(&b, "entries: %d offered, %d written, %d dropped; spans: %d offered, %d written\n", st.Entries.Offered, st.Entries.Written, st.Entries.Dropped.Total(), st.Spans.Offered, st.Spans.Written)
	for _, name := range dirNames(s.T, s.top) {
		f := tracetest.Open(s.T, filepath.Join(s.top, name))
		fmt.Fprintf(&b, "%s as %v: %s\n%s", timeInName.ReplaceAllString(name, ".TIME"), f.Format(), tracetest.Outline(s.T, f), tracetest.ViewTree(s.T, tracetest.View(s.T, f), nil))
	}
	return b.String()
}
