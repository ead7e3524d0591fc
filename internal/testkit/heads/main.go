// Command heads finds the heads of if and switch statements whose init statement is not a declaration that the
// condition uses. An assignment, a call or a counter in such a place is easily read over. It reads the Go files that are
// its arguments, prints the place of each such head, and exits with 1 if there is one.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
)

func main() {
	found := false
	for _, name := range os.Args[1:] {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if ast.IsGenerated(f) {
			continue
		}
		for init := range heads(f) {
			found = true
			fmt.Printf("%s: give the statement before the condition a line of its own\n", files.Position(init.Pos()))
		}
	}
	if found {
		os.Exit(1)
	}
}

// heads yields the init statements in f that declare nothing that their condition uses.
func heads(f *ast.File) func(yield func(init ast.Stmt) bool) {
	return func(yield func(init ast.Stmt) bool) {
		for node := range ast.Preorder(f) {
			var init ast.Stmt
			var condition ast.Node
			switch s := node.(type) {
			case *ast.IfStmt:
				init, condition = s.Init, s.Cond
			case *ast.TypeSwitchStmt:
				init, condition = s.Init, s.Assign
			case *ast.SwitchStmt:
				init, condition = s.Init, s.Body // without a tag, the cases are the conditions
				if s.Tag != nil {
					condition = s.Tag
				}
			}
			if init != nil && !declares(init, condition) && !yield(init) {
				return
			}
		}
	}
}

// declares reports whether init declares a variable that the condition uses.
func declares(init ast.Stmt, condition ast.Node) bool {
	a, is := init.(*ast.AssignStmt)
	if !is || a.Tok != token.DEFINE {
		return false
	}
	names := make(map[string]bool)
	for _, x := range a.Lhs {
		if name, is := x.(*ast.Ident); is {
			names[name.Name] = true
		}
	}
	for node := range ast.Preorder(condition) {
		if name, is := node.(*ast.Ident); is && names[name.Name] {
			return true
		}
	}
	return false
}
