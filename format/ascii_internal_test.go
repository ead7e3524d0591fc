package format

import (
	"strings"
	"testing"
)

func TestIsASCII(t *testing.T) {
	for n := range 40 {
		s := strings.Repeat("\x7f", n)
		if !isASCII(s) {
			t.Errorf("%d bytes of ASCII are none", n)
		}
		for i := range n {
			if isASCII(s[:i] + "\x80" + s[i+1:]) {
				t.Errorf("%d bytes with one at %d that is none are ASCII", n, i)
			}
		}
	}
}
