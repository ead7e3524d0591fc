package safecall_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/write/safecall"
)

// TestFirstPanicIsTold checks that functions are called after one that panics, and that only the first
// panic is reported.
func TestFirstPanicIsTold(t *testing.T) {
	var told []error
	called := 0
	g := safecall.Guard{Tell: func(err error) { told = append(told, err); panic("again") }}
	for range 3 {
		g.Call("OnLog", func() { panic(errors.New("no luck")) })
		g.Call("OnLog", func() { called++ })
	}
	if called != 3 || len(told) != 1 || !strings.Contains(told[0].Error(), "OnLog panicked") || !strings.Contains(told[0].Error(), "no luck") {
		t.Errorf("%d calls, %v is told", called, told)
	}
	new(safecall.Guard).Call("OnLog", func() { panic(0) })
}

type bad int

func (*bad) String() string { panic("in String") }

// TestTextOfAnyPanic checks that any value of a panic has a text, whatever its methods and fields are.
func TestTextOfAnyPanic(t *testing.T) {
	ring := map[string]any{}
	ring["self"] = ring
	for want, p := range map[string]any{
		"no luck": errors.New("no luck"), "text": "text", "5": 5, "{5 a}": struct {
			n int
			s string
		}{5, "a"}, "%!v(PANIC=String method: in String)": new(bad), "map[string]interface {}": ring, "<nil>": nil,
	} {
		expect.Equal(t, safecall.Text(p), want, "safecall.Text")
	}
}
