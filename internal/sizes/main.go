// Command sizes prints how large each package of the module is, without its tests:
// lines, its largest file, exported names (at package level, and methods and fields
// of exported types), and its struct with most fields. `make sizes` runs it.
//
// A name is counted where a user reads it: each constant of a group is one.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// size is what is counted of one package.
type size struct {
	folder                  string
	lines, largest          int
	largestFile             string
	names, methods, members int // exported: at package level, on types, fields of structs
	fields                  int
	fieldsOf                string
}

func main() {
	log.SetFlags(0)
	sizes := make(map[string]*size)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		folder := filepath.ToSlash(filepath.Dir(name))
		s := sizes[folder]
		if s == nil {
			s = &size{folder: folder}
			sizes[folder] = s
		}
		return s.add(name)
	})
	if err != nil {
		log.Fatal(err)
	}
	all := make([]*size, 0, len(sizes))
	for _, s := range sizes {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *size) int { return cmp.Compare(a.folder, b.folder) })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "folder\tlines\tlargest file\t\tnames\tmethods\tfields\tmost fields in")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t%s %d\n",
			s.folder, s.lines, s.largestFile, s.largest, s.names, s.methods, s.members, s.fieldsOf, s.fields)
	}
	if err := w.Flush(); err != nil {
		log.Fatal(err)
	}
}

func (s *size) add(name string) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := files.File(f.FileStart).LineCount()
	s.lines += lines
	if lines > s.largest {
		s.largest, s.largestFile = lines, filepath.Base(name)
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			switch {
			case !d.Name.IsExported():
			case d.Recv == nil:
				s.names++
			case ast.IsExported(receiver(d.Recv.List[0].Type)):
				s.methods++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				s.spec(spec)
			}
		}
	}
	return nil
}

func (s *size) spec(spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		s.names += exported(spec.Names)
	case *ast.TypeSpec:
		if spec.Name.IsExported() {
			s.names++
		}
		switch t := spec.Type.(type) {
		case *ast.StructType:
			n := 0
			for _, f := range t.Fields.List {
				n += max(len(f.Names), 1)
				if spec.Name.IsExported() {
					s.members += exported(f.Names)
				}
			}
			if n > s.fields {
				s.fields, s.fieldsOf = n, spec.Name.Name
			}
		case *ast.InterfaceType:
			for _, m := range t.Methods.List {
				if spec.Name.IsExported() {
					s.methods += exported(m.Names)
				}
			}
		}
	}
}

func exported(names []*ast.Ident) int {
	n := 0
	for _, name := range names {
		if name.IsExported() {
			n++
		}
	}
	return n
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
