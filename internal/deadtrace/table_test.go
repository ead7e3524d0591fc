package deadtrace_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/deadtrace"
)

// TestTableIsInTheDocs: docs/durability.md has the table of states, and each of their tests exists.
func TestTableIsInTheDocs(t *testing.T) {
	var tests strings.Builder
	for _, dir := range []string{"../../recorder", "../../control"} {
		must(t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			b, err := os.ReadFile(name)
			tests.Write(b)
			return err
		}))
	}
	var want strings.Builder
	want.WriteString("| what there is | what is done | it is | test |\n| --- | --- | --- | --- |\n")
	for _, r := range deadtrace.Table {
		want.WriteString("| " + r.Is + " | " + r.Done + " | " + r.Word + " | `" + r.Test + "` |\n")
		if !strings.Contains(tests.String(), "\nfunc "+r.Test+"(") {
			t.Errorf("there is no test %s", r.Test)
		}
	}
	doc, err := os.ReadFile("../../docs/durability.md")
	must(t, err)
	if !strings.Contains(strings.ReplaceAll(string(doc), "\r\n", "\n"), want.String()) {
		t.Errorf("docs/durability.md lacks this table:\n%s", want.String())
	}
}
