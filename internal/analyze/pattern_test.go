package analyze_test

import (
	"flag"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

var update = flag.Bool("update", false, "write the expected texts in testdata again")

// TestPattern compares patterns with the patterns in pattern.txt. The pattern of a pattern is the pattern itself.
func TestPattern(t *testing.T) {
	tracetest.Golden(t, "testdata/pattern.txt", *update, func(text string) string {
		said := analyze.Pattern(text)
		if again := analyze.Pattern(said); again != said && !strings.Contains(said, "'") {
			t.Errorf("the pattern of %q is %q", said, again)
		}
		return said
	})
}

// TestPatternOfLines: only the beginning of the first line of a text makes its pattern.
func TestPatternOfLines(t *testing.T) {
	expect.Equal(t, analyze.Pattern("first line 1\nsecond 2"), "first line <number>", "analyze.Pattern")
	long := analyze.Pattern(strings.Repeat("é", 1000))
	if len(long) > 310 || !utf8.ValidString(long) {
		t.Errorf("of a long text it has %d bytes", len(long))
	}
}
