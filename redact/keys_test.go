package redact

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestQuickCheckRejectsNoSecret makes keys of all pairs of words that keys.go knows. The quick check must accept each
// key that names a secret.
func TestQuickCheckRejectsNoSecret(t *testing.T) {
	source, err := os.ReadFile("keys.go")
	expect.Must(t, err)
	var known []string
	for _, list := range regexp.MustCompile(`"[a-z ]+"`).FindAllString(string(source), -1) {
		known = append(known, strings.Fields(strings.Trim(list, `"`))...)
	}
	for _, a := range known {
		for _, b := range known {
			for _, key := range []string{a, a + "_" + b, a + "." + b + ".raw", strings.ToUpper(a) + "-" + b + "_2"} {
				if secret, _ := isSecret(key); secret && !maybeSecret(key) {
					t.Fatalf("%s is a secret, but the quick check rejects it", key)
				}
			}
		}
	}
}
