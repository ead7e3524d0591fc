package entrace_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// promised are the packages whose exported names stay until v1.0, as docs/compatibility.md says.
var promised = []string{".", "exporter", "slogadapter", "recorder", "control", "convert", "entracetest", "redact", "remote"}

// TestPromisedNames compares the exported names of packages with testdata/api.txt. A name that comes or goes is a line there,
// which -update writes.
func TestPromisedNames(t *testing.T) {
	var names []string
	for _, dir := range promised {
		names = append(names, exported(t, dir)...)
	}
	have := strings.Join(names, "\n") + "\n"
	name := filepath.Join("testdata", "api.txt")
	if *update {
		must(t, os.WriteFile(name, []byte(have), 0o600))
	}
	want := strings.Split(string(tracetest.ReadFile(t, name)), "\n")
	for _, n := range names {
		if !slices.Contains(want, n) {
			t.Errorf("%s is new: go test -run TestPromisedNames . -update", n)
		}
	}
	for _, n := range want {
		if n != "" && !slices.Contains(names, n) {
			t.Errorf("%s is gone", n)
		}
	}
}

// exported returns the exported names of the package in a folder.
func exported(t *testing.T, dir string) (names []string) {
	t.Helper()
	set := token.NewFileSet()
	packages, err := parser.ParseDir(set, dir, func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.ParseComments) //nolint:staticcheck // the names of all systems
	expect.Must(t, err)
	for _, p := range packages {
		of := doc.New(p, dir, 0)
		add := func(kind string, list ...string) {
			for _, n := range list {
				if ast.IsExported(n[strings.LastIndexByte(n, '.')+1:]) {
					names = append(names, of.Name+" "+kind+" "+n)
				}
			}
		}
		values := func(kind string, list []*doc.Value) {
			for _, v := range list {
				add(kind, v.Names...)
			}
		}
		functions := func(list []*doc.Func, of string) {
			for _, f := range list {
				add("func", of+f.Name)
			}
		}
		values("const", of.Consts)
		values("var", of.Vars)
		functions(of.Funcs, "")
		for _, x := range of.Types {
			add("type", x.Name)
			values("const", x.Consts)
			values("var", x.Vars)
			functions(x.Funcs, "")
			functions(x.Methods, x.Name+".")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
