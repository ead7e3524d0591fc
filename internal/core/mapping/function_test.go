package mapping

import (
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestPackage(t *testing.T) {
	for function, want := range map[string]string{
		"main.main":                             "main",
		"main.main.func1":                       "main",
		"example.com/a/b.F":                     "example.com/a/b",
		"example.com/a/b.(*T).M":                "example.com/a/b",
		"gopkg.in/yaml%2ev3.Unmarshal":          "gopkg.in/yaml.v3",
		"example.com/a.F[example.com/c/d.T]":    "example.com/a",
		"example.com/a.(*L[example.com/c.T]).M": "example.com/a",
		"example.com/a%zz.F":                    "example.com/a%zz",
		"F":                                     "F",
		"net/http.(*Server).Serve":              "net/http",
		"example.org/a.b/c.init.0":              "example.org/a.b/c",
		"":                                      "",
	} {
		expect.Equal(t, Package(function), want, "Package(%q)", function)
	}
}
