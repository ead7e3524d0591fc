package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A listed is a package in the output of go list.
type listed struct {
	ImportPath, Dir, Export, Name string
	GoFiles                       []string
	Module                        *struct{ Path, Dir string }
	Standard, DepOnly             bool
}

// measure measures all folders, and the packages of the module as built for Linux on amd64.
func measure() (map[string]*row, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,Name,GoFiles,Module,Standard,DepOnly", "./...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := make(map[string]string)
	var own []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if exports[p.ImportPath] = p.Export; !p.DepOnly {
			own = append(own, p)
		}
	}
	files := token.NewFileSet()
	imports := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	rows, err := texts(".")
	if err != nil {
		return nil, err
	}
	for _, p := range own {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
		if name == "" {
			name = "."
		}
		if err := rows[name].types(files, imports, &p); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// types measures the columns for which a package must be type-checked.
func (r *row) types(files *token.FileSet, imports types.Importer, p *listed) error {
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object)}
	pkg, err := (&types.Config{Importer: imports}).Check(p.ImportPath, files, parsed, info)
	if err != nil {
		return err
	}
	for _, object := range info.Defs {
		if t, ok := object.(*types.TypeName); ok {
			if s, ok := t.Type().Underlying().(*types.Struct); ok {
				*r.at("struct") = max(*r.at("struct"), s.NumFields())
			}
		}
	}
	*r.at("upward") = upward(references(files, pkg, info))
	if p.Name == "main" {
		return nil
	}
	for _, name := range pkg.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		*r.at("names")++
		t, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok {
			continue
		}
		if n, ok := types.Unalias(t.Type()).(*types.Named); ok && n.Obj().Pkg() != nil && !strings.HasPrefix(n.Obj().Pkg().Path(), p.Module.Path) {
			continue // a type of another module
		}
		of := t.Type()
		if !types.IsInterface(of) {
			of = types.NewPointer(of)
		}
		for m := range types.NewMethodSet(of).Methods() {
			if m.Obj().Exported() {
				*r.at("names")++
			}
		}
		*r.at("fields") += len(fields(t.Type(), make(map[string]bool)))
	}
	return nil
}

// fields adds the exported fields of a struct, and of the structs that it embeds, to names.
func fields(t types.Type, names map[string]bool) map[string]bool {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	if s, ok := t.Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			if f.Embedded() {
				fields(f.Type(), names)
			} else if f.Exported() {
				names[f.Name()] = true
			}
		}
	}
	return names
}

// references returns pairs of files of a package: the first file uses a name that the second declares.
func references(files *token.FileSet, pkg *types.Package, info *types.Info) map[[2]string]bool {
	found := make(map[[2]string]bool)
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		from, to := files.Position(ident.Pos()).Filename, files.Position(object.Pos()).Filename
		if from != to {
			found[[2]string{from, to}] = true
		}
	}
	return found
}

// upward sorts the files so that few references go up, and returns how many still do. It stops at an
// order that no move of a single file improves, which need not be the best.
func upward(found map[[2]string]bool) int {
	var order []string
	for pair := range found {
		for _, name := range pair {
			if !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
	}
	slices.Sort(order)
	for {
		best, from, to := 0, 0, 0
		for i, name := range order {
			for _, step := range []int{1, -1} {
				gain := 0
				for k := i + step; k >= 0 && k < len(order); k += step {
					before, behind := name, order[k] // in the current order
					if step < 0 {
						before, behind = behind, before
					}
					if found[[2]string{before, behind}] {
						gain-- // this reference would go up
					}
					if found[[2]string{behind, before}] {
						gain++
					}
					if gain > best {
						best, from, to = gain, i, k
					}
				}
			}
		}
		if best == 0 {
			break
		}
		name := order[from]
		order = slices.Insert(slices.Delete(order, from, from+1), to, name)
	}
	n := 0
	for i := range order {
		for k := range i {
			if found[[2]string{order[i], order[k]}] {
				n++
			}
		}
	}
	return n
}
