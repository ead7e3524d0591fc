package entrace

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/env"
	"github.com/entrace-go/entrace/internal/notice"
	"github.com/entrace-go/entrace/internal/setup"
)

const envPrefix = "OTEL_EXPORTER_ENTRACE_"

// variables are all that begin with envPrefix.
var variables = slices.Concat(setup.Variables(), []string{
	envMode, envLevel, envEndpoint, envToken, envControl, envControlConfig, envControlDir, envControlBytes, envProviders,
	envOnError, envOnSlow, envOnHang,
})

// unknownVariables tells of variables that look like ours and have no effect.
func unknownVariables() {
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.TrimSpace(value) == "" || slices.Contains(variables, name) {
			continue
		}
		hint := ""
		if like := closest(name, variables); like != "" {
			hint = ": is " + like + " meant?"
		}
		notice.Error(fmt.Errorf("entrace: there is no variable %s%s", name, hint))
	}
}

// closest returns the one of names that is one or two edits from name, "" if there is none.
func closest(name string, names []string) string {
	best, least := "", 3
	for _, other := range names {
		if d := edits(name, other); d < least {
			best, least = other, d
		}
	}
	return best
}

// edits returns how many bytes have to be put in, taken out or changed to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// withoutEffect tells of variables that a flight recorder leaves without one.
func withoutEffect() {
	for _, name := range setup.Variables() {
		if strings.HasSuffix(name, "_VERSION") || strings.HasSuffix(name, "_BUFFER_DIR") {
			continue
		}
		if v, ok := env.Lookup(name); ok {
			env.ReportValue(name, v, fmt.Errorf("a flight recorder does without it; its folder is %s", envControlDir))
		}
	}
}
