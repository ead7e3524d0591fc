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
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// promised are the packages whose exported names do not change until v1.0, as docs/compatibility.md says.
var promised = []string{".", "exporter", "slogadapter", "recorder", "control", "convert", "entracetest", "redact", "remote"}

// TestPromisedNames compares the exported names of packages with testdata/api.txt. If a name is added or removed, run
// the test with -update.
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

// TestSignatures checks that no exported function, method or field has a type of an internal package, because a
// user cannot name such a type.
func TestSignatures(t *testing.T) {
	for _, dir := range slices.Concat(promised, []string{
		"format", "query", "view", "viewer", "control/filesource", "control/httpapi", "control/provider", "control/tracedir", "convert/chrome",
		"convert/folded", "convert/gotrace", "convert/heph", "convert/jaeger", "convert/measureme", "convert/otlp", "convert/parquet", "convert/stdouttrace", "convert/zipkin", "entracetest/otlp", "exporter/autoexport",
	}) {
		set := token.NewFileSet()
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		expect.Must(t, err)
		if len(names) == 0 {
			t.Errorf("there is no package %s", dir)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(set, name, nil, 0)
			expect.Must(t, err)
			ast.FileExports(f)
			for _, s := range internalTypes(f) {
				t.Errorf("%s: %s", name, s)
			}
		}
	}
}

// internalTypes returns the types of internal packages that f has in the signatures of functions, and in fields. f has
// only exported declarations.
func internalTypes(f *ast.File) (found []string) {
	internal := make(map[string]bool)
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err == nil && strings.Contains(path, "/internal/") {
			internal[path[strings.LastIndexByte(path, '/')+1:]] = true
		}
	}
	look := func(n ast.Node) bool {
		if x, ok := n.(*ast.SelectorExpr); ok {
			if p, ok := x.X.(*ast.Ident); ok && internal[p.Name] {
				found = append(found, p.Name+"."+x.Sel.Name)
			}
		}
		return true
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			if x.Recv == nil || ast.IsExported(receiverName(x.Recv.List[0].Type)) {
				ast.Inspect(x.Type, look)
			}
			return false
		case *ast.Field:
			if len(x.Names) > 0 { // an embedded type adds methods to the type, and is checked where it is declared
				ast.Inspect(x.Type, look)
			}
			return false
		}
		return true
	})
	return found
}

// receiverName returns the name of the type T of a receiver T or *T.
func receiverName(x ast.Expr) string {
	if p, ok := x.(*ast.StarExpr); ok {
		x = p.X
	}
	name, _ := x.(*ast.Ident)
	return name.String()
}
