package redact_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/redact"
)

var placeholder = regexp.MustCompile(`\{(\d+|[hud]\d+|U|JWT|PEM)\}`)

// filled returns a line of kinds.txt with values in place of its placeholders.
func filled(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(s string) string {
		s = strings.Trim(s, "{}")
		from := "Zx9Qw7Lm3Vb5tRk2"
		switch s {
		case "U":
			return "3f2a91c7-5b0d-4e68-9a17-c4d2e8f06b35"
		case "JWT":
			return aJWT()
		case "PEM":
			return strings.ReplaceAll(aPEM("RSA "), "\n", `\n`)
		}
		switch s[0] {
		case 'h':
			from, s = "3fa91c75b0d4e682", s[1:]
		case 'u':
			from, s = "ZX9QW7LM3VB5TRK2", s[1:]
		case 'd':
			from, s = "4915723806", s[1:]
		}
		n, _ := strconv.Atoi(s)
		return strings.Repeat(from, n/len(from)+1)[:n]
	})
}

// TestKindsOfScanners: the default policy replaces the kinds of secrets that public scanners find.
// Exceptions are marked as missed in testdata/kinds.txt.
func TestKindsOfScanners(t *testing.T) {
	b := tracetest.ReadFile(t, "testdata/kinds.txt")
	r := redact.New(nil, nil)
	kinds, found := 0, 0
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if line[0] == '#' {
			continue
		}
		line, missed := strings.CutPrefix(line, "missed ")
		kind, text, _ := strings.Cut(line, " ")
		kinds++
		s := filled(text + " was refused")
		is := r.Text(s) != s
		if is {
			found++
		}
		if is == missed {
			t.Errorf("%s: replaced %v: %s", kind, is, s)
		}
	}
	t.Logf("%d of %d kinds are replaced", found, kinds)
}
