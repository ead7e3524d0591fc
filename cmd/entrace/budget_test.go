package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

var (
	leftRows   = regexp.MustCompile(`^left out: (\d+) of (\d+) rows`)
	leftFolded = regexp.MustCompile(`; (\d+) of these rows are in folded lines, (\d+)`)
	leftLines  = regexp.MustCompile(`(?:: |; )(\d+) of (\d+) lines`)
	foldedLine = regexp.MustCompile(`(?m)^(?:.* )?(\d+) × (.*) first .+$`)
)

// numbersOf returns the numbers in the groups of a pattern, or zeros.
func numbersOf(t *testing.T, pattern *regexp.Regexp, text string) (a, b int) {
	t.Helper()
	m := pattern.FindStringSubmatch(text)
	if m == nil {
		return 0, 0
	}
	return number(m[1]), number(m[2])
}

// TestBudget runs the commands with budgets. No answer may be larger than its budget, and the numbers of the last line
// must agree with what other commands say. With ENTRACE_SOAK it also runs all forms on a million rows.
func TestBudget(t *testing.T) {
	t.Parallel()
	if tracetest.Race {
		t.Skip("it runs four hundred commands, whose goroutines other tests have")
	}
	sizes, few := []int{10, 2_000, 20_000}, []int{1, 300, 1500}
	if hosttest.Soak() {
		sizes, few = append(sizes, 1_000_000), []int{1, 100, 300, 700, 1500}
	}
	for _, n := range sizes {
		t.Logf("%d rows", n)
		budgets, forms := []int{1 << 10, 4 << 10, 16 << 10}, budgetForms
		if n == 20_000 {
			if testing.Short() {
				continue
			}
			budgets, forms = budgets[1:2], []string{"tree", "grep '' --json", "cat", "tail -n -1", "top", "stats --every 10ms"}
		}
		name := ended(t, "busy", strconv.Itoa(n))
		all := len(strings.Split(fine(t, nil, "tree", "--json", name), "\n")) - 1 // with the resource and the end
		failed := number(strings.TrimSpace(fine(t, nil, "grep", "-c", "level >= info", name)))
		testBudgets(t, name, forms, budgets, map[string]int{
			"tree": all - 1, "tree --time offset": all - 1, "tree --json": all, "grep ''": n, "grep '' --json": n, "grep level>=info": failed,
			"cat": all + 1, "cat --json": all + 1, "tail -n -1": n - 1, "check -q level>=info --limit 0": failed,
		})
		_, out, _ := entrace(t, nil, "grep", "", name, "--budget", "4k")
		queries := 0
		for line := range strings.Lines(out) {
			if m := foldedLine.FindStringSubmatch(line); m != nil && strings.HasPrefix(m[2], "SELECT orders ") {
				queries += number(m[1])
			} else if strings.Contains(line, " SELECT orders ") {
				queries++
			}
		}
		expect.Equal(t, fmt.Sprintln(queries), fine(t, nil, "grep", "-c", `name = "SELECT orders"`, name), "queries")
	}
	for _, kind := range []string{"sample", "requests", "hang", "odd", "loop", "models", "empty"} {
		testBudgets(t, ended(t, kind), budgetForms, few, nil)
	}
}

// budgetForms are the commands that have budgets, with their forms of output.
var budgetForms = []string{
	"tree", "tree --time offset", "tree --json", "tree -q level>=info --descendants", "grep ''", "grep '' --json", "grep level>=info",
	"grep level>=info --tree", "cat", "cat --json", "cat --conversation", "tail -n -1", "tail -n -1 --json", "check -q level>=info --limit 0",
	"top", "top --json", "explain", "explain --json", "critical", "critical --json", "stats", "stats --json", "stats --csv", "stats --every 10ms",
	"stats --histogram", "info", "info --json", "runs", "runs --json", "fields", "fields --json", "diff --allow-partial FILE", "diff --allow-partial --json FILE",
}

// testBudgets runs forms of commands with budgets. rows says how many rows some forms print without a budget.
func testBudgets(t *testing.T, name string, forms []string, budgets []int, rows map[string]int) {
	t.Helper()
	for _, form := range forms {
		var args []string
		for _, word := range append(strings.Fields(form), name) {
			args = append(args, strings.ReplaceAll(strings.Trim(word, "'"), "FILE", name))
		}
		_, full, _ := entrace(t, nil, args...)
		for _, budget := range budgets {
			code, out, errs := entrace(t, nil, append(args, "--budget", strconv.Itoa(budget))...)
			checkBudget(t, fmt.Sprintf("%s %s with %d bytes: exit %d, %s", form, name, budget, code, errs), full, out, budget, rows[form])
		}
	}
}

// checkBudget compares out, the answer under a budget, with full, the answer without one.
func checkBudget(t *testing.T, what, full, out string, budget, rows int) {
	t.Helper()
	at := strings.LastIndexByte(strings.TrimSuffix(out, "\n"), '\n') + 1
	last, kept := out[at:], out[:at]
	if out == "" && full == "" {
		return // an error
	}
	isJSON := strings.Contains(what, "--json")
	if isJSON {
		checkJSONBudget(t, what, full, out, rows)
	} else if !strings.HasPrefix(last, "left out: ") {
		expect.Equal(t, out, full, "%s: the answer", what)
		last, kept = "", out
	}
	if len(kept) > budget || len(last) > 300 {
		t.Errorf("%s: %d bytes, and %d in the last line", what, len(kept), len(last))
	}
	if last == "" || isJSON {
		return
	}
	lines := strings.Split(strings.TrimSuffix(kept, "\n"), "\n")
	left, of := numbersOf(t, leftRows, last)
	folded, folds := numbersOf(t, leftFolded, last)
	sum := 0
	matches := foldedLine.FindAllStringSubmatch(kept, -1)
	for _, m := range matches {
		sum += number(m[1])
	}
	if sum != folded || len(matches) != folds {
		t.Errorf("%s: %d rows in %d folded lines, but the last line has %s", what, sum, len(matches), last)
	}
	if rows > 0 && left > 0 {
		expect.Equal(t, of, rows, "%s: the number of all rows", what)
		head := 0
		if strings.Contains(lines[0], " ended: ") {
			head = 1
		}
		expect.Equal(t, len(lines)-len(matches)-head, of-left, "%s: printed rows", what)
	}
	if lines, of := numbersOf(t, leftLines, last); lines > 0 && left == 0 {
		nonempty := regexp.MustCompile(`(?m)^.+$`)
		expect.Equal(t, of, len(nonempty.FindAllString(full, -1)), "%s: the number of all lines", what)
		expect.Equal(t, len(nonempty.FindAllString(kept, -1)), of-lines, "%s: printed lines", what)
	}
}

// checkJSONBudget checks an answer in JSON.
func checkJSONBudget(t *testing.T, what, full, out string, rows int) {
	t.Helper()
	var got struct {
		Rows     []json.RawMessage
		Folds    []string
		Complete *bool
		LeftOut  map[string]int `json:"left_out"`
		Slowest  []json.RawMessage
	}
	must(t, json.Unmarshal([]byte(out), &got))
	sampled := regexp.MustCompile(`"complete": ?false`).MatchString(full) // explain reads not all requests of a large trace
	if got.Complete == nil || *got.Complete != (len(got.LeftOut) == 0 && !sampled) {
		t.Errorf("%s: complete is wrong in\n%s", what, out)
	}
	if got.LeftOut["objects"] > 0 {
		return // the budget is too small for any of them
	}
	if !strings.HasPrefix(full, "{\n") {
		expect.Equal(t, len(got.Rows)+got.LeftOut["rows"], strings.Count(full, "\n"), "%s: rows and rows that are left out", what)
	}
	if rows > 0 {
		expect.Equal(t, len(got.Rows)+got.LeftOut["rows"], rows, "%s: all rows", what)
	}
	sum := 0
	for _, fold := range got.Folds {
		of, _, _ := strings.Cut(fold, " × ") // the end can be missing
		sum += number(of)
	}
	expect.Equal(t, sum, got.LeftOut["folded_rows"], "%s: folded rows", what)
	var whole struct{ Slowest []json.RawMessage }
	if json.Unmarshal([]byte(full), &whole) == nil {
		expect.Equal(t, len(got.Slowest)+got.LeftOut["slowest"], len(whole.Slowest), "%s: slowest", what)
	}
}
