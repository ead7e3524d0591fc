package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestHeads: a head is found unless its init statement declares what the condition uses.
func TestHeads(t *testing.T) {
	for head, want := range map[string]int{
		"if x := f(); x > 0 {}":                      0,
		"if _, err := f(), 1; err != 0 {}":           0,
		"if x := f(); y {}":                          1,
		"if x = f(); x > 0 {}":                       1,
		"if x++; x > 0 {}":                           1,
		"if f(); y {}":                               1,
		"if y {} else if x = f(); x > 0 {}":          1,
		"switch x := f(); x {}":                      0,
		"switch x := f(); {case x > 0:}":             0,
		"switch x := f(); y {case x:}":               1,
		"switch x := f(); y := z.(type) {case int:}": 1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {"+head+"}", 0)
		expect.MustIs(t, err, nil, "%v", head)
		var got []ast.Stmt
		for init := range heads(f) {
			got = append(got, init)
		}
		expect.Equal(t, len(got), want, "such heads of %s", head)
	}
}
