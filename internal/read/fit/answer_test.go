package fit_test

import (
	"io"
	"testing"

	"github.com/entrace-go/entrace/internal/read/fit"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestFinish(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		json     bool
		most     int
		in, want string
	}{
		{false, 100, "a\n\nb\n", "a\n\nb\n"},
		{false, 10, "title\n\na1\na2\n\nb1\nb2\n", "title\n\na1\nleft out: 3 of 5 lines; all: x\n"},
		{false, 12, "title\n\nlong line\nb\n", "title\nleft out: 2 of 3 lines; all: x\n"}, // b would hide the gap
		{true, 100, "", "{\"rows\":[],\n\"complete\":true}\n"},
		{true, 29, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n", "{\"rows\":[{\"n\":1},{\"n\":2}],\n\"complete\":false,\"left_out\":{\"rows\":1},\"all\":\"x\"}\n"},
		{true, 38, "{\n\"pair\":[1,2],\"l\":[{\"of\":1},{\"of\":2}]}\n", "{\"pair\":[1,2],\"l\":[{\"of\":1}],\n\"complete\":false,\"left_out\":{\"l\":1},\"all\":\"x\"}\n"},
		{true, 90, "{\n\"complete\":false,\"n\":1}\n", "{\"n\":1,\n\"complete\":false,\"left_out\":{},\"all\":\"x\"}\n"},
		{true, 9, "{\n\"number\":1}\n", "{\"complete\":false,\"left_out\":{\"objects\":1},\"all\":\"x\"}\n"},
	} {
		a := fit.Answer{Most: test.most, JSON: test.json}
		_, err := io.WriteString(&a, test.in)
		expect.Must(t, err)
		expect.Equal(t, string(a.Finish("x")), test.want, "%q", test.in)
	}
}
