package viewer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

// writeLogs writes a trace of log records. The file gets its name when it is complete.
func writeLogs(t *testing.T, name string, texts ...string) {
	t.Helper()
	f, err := os.Create(name + ".part")
	must(t, err)
	w, err := format.NewWriter(f, format.V2, format.IET, nil)
	must(t, err)
	_, err = w.Write(format.Root())
	must(t, err)
	for i, text := range texts {
		_, err := w.Write(tracetest.Log(text, format.AttrTime, uint64(1+i)))
		must(t, err)
	}
	must(t, w.Close())
	must(t, f.Close())
	must(t, os.Rename(name+".part", name))
}

// TestFollowGoesOnWithOtherFiles follows a folder while files are added and replaced. Rows keep their
// numbers as long as the generation is the same.
func TestFollowGoesOnWithOtherFiles(t *testing.T) {
	dir := t.TempDir()
	writeLogs(t, filepath.Join(dir, "b.iet"), "one")
	open := func() *convert.Trace {
		c, err := convert.Open(t.Context(), []string{dir}, nil)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	now := open()
	h := viewer.New(now.View(), &viewer.Options{
		Hosts: []string{"127.0.0.1:7"}, Follow: true, Names: func(i int) string { return filepath.Base(now.Name(i)) },
		Reopen: func(context.Context) (*view.View, error) {
			if !now.Outdated() {
				return nil, nil //nolint:nilnil // as the option wants it
			}
			now = open()
			return now.View(), nil
		},
	})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = "127.0.0.1:7"
		h.ServeHTTP(w, r)
	}))
	s.Start()
	t.Cleanup(s.Close)
	answer, err := s.Client().Get(s.URL + "/api/events")
	must(t, err)
	defer answer.Body.Close()
	type news struct{ Entries, Generation int }
	lines := bufio.NewScanner(answer.Body)
	next := func() (n news) {
		for lines.Scan() {
			if line, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				must(t, json.Unmarshal([]byte(line), &n))
				return n
			}
		}
		t.Fatal(lines.Err())
		return n
	}
	last := next()
	for _, step := range []struct {
		name  string
		texts []string
		rows  string
		files int
		anew  bool // rows get other numbers
	}{
		{"c.iet", []string{"two"}, "one, two", 2, false},
		{"a.iet", []string{"zero"}, "zero, one, two", 3, true},
		{"c.iet", []string{"three"}, "zero, one, three", 3, true},
	} {
		if step.texts[0] == "three" && runtime.GOOS == "windows" {
			break // Windows cannot replace a file that is mapped
		}
		writeLogs(t, filepath.Join(dir, step.name), step.texts...)
		n := next()
		for n == last {
			n = next()
		}
		expect.Equal(t, n.Generation > last.Generation, step.anew, "after %s there is another generation", step.name)
		last = n
		expect.Equal(t, rowsOf(t, h, "").text(), step.rows, "after %s the rows", step.name)
		expect.Len(t, jsonOf[struct{ Files []struct{ Name string } }](t, h, "/api/meta").Files, step.files, "after %s there are the files", step.name)
	}
}
