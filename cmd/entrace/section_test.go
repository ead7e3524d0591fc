package main

import (
	"bufio"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestColumnsOfWideText checks that columns are below each other on a terminal, where a Chinese character takes two
// columns, an accent none, and an escape sequence none.
func TestColumnsOfWideText(t *testing.T) {
	lines := [][]string{{"日本", "1"}, {"e\u0301te", "22"}, {"\x1b[1mbold\x1b[0m", "333"}}
	var b strings.Builder
	w := bufio.NewWriter(&b)
	printSections(w, section{sides: "lr", lines: slices.Values(lines)})
	must(t, w.Flush())
	expect.Equal(t, b.String(), "日本    1\ne\u0301te    22\n\x1b[1mbold\x1b[0m  333\n", "the table")
}
