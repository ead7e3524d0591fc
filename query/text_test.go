package query

import (
	"regexp/syntax"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestTextsThatARegularExpressionNeeds(t *testing.T) {
	for _, c := range []struct {
		regex string
		want  []string
	}{
		{"timeout", []string{"timeout"}},
		{"(?i:TimeOut)", []string{"timeout"}},
		{"^GET /cart$", []string{"get /cart"}},
		{"(cart|payment)", []string{"cart", "payment"}},
		{"cart|pay.*", []string{"cart", "pay"}},
		{"cart|.*", nil},
		{"a.+timeout[0-9]x", []string{"timeout"}},
		{"(timeout)+", []string{"timeout"}},
		{"(timeout){2,}", []string{"timeout"}},
		{"(timeout)*", nil},
		{"(timeout)?x", []string{"x"}},
		{"[ab]c", []string{"c"}},
		{"", nil},
		{"ab|cd|ef|gh|ij|kl|mn|op|qr", nil},
	} {
		re, err := syntax.Parse(c.regex, syntax.Perl)
		expect.Must(t, err)
		expect.Slice(t, required(re.Simplify()), c.want, "%q needs", c.regex)
	}
}
