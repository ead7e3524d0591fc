// Command sizes measures each folder, so that the project does not grow unnoticed. It compares the numbers with
// sizes.txt in its own folder. `make sizes` runs it, and `make sizes UPDATE=-update` rewrites sizes.txt.
//
// The columns (a smaller number is always better):
//
//   - code: tokens of code and of the data files beside it
//   - tests: tokens of tests, and of folders with code only for tests
//   - names: exported names, with the methods of exported types and their promoted methods
//   - fields: exported fields of exported structs
//   - file: tokens of the largest file with code
//   - struct: fields of the largest struct
//   - upward: pairs of files of a package in which the lower file uses a name from the higher one, if the files are
//     sorted so that there are few such pairs
//   - wording: sentences of comments, errors and documents in a form that must be read twice
//
// The sums of code, tests, upward and wording must not rise: a commit that adds something must remove as much
// elsewhere. A budget is an exception: a line "budget NAME CODE TESTS" in sizes.txt grants a number of tokens, and
// a commit that adds tokens must lower a budget by as many. The command checks this in the git history of
// sizes.txt.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

const (
	file    = "internal/testkit/sizes/sizes.txt"
	earlier = "internal/sizes/sizes.txt" // the earlier path of sizes.txt
)

// columns are the names of the columns of sizes.txt.
var columns = [...]string{"code", "tests", "names", "fields", "file", "struct", "upward", "wording"}

// falling are the columns whose sums must not rise.
var falling = [...]string{"code", "tests", "upward", "wording"}

// A row has the numbers of one folder, or of a sum of folders.
type row struct{ numbers [len(columns)]int }

func (r *row) at(column string) *int { return &r.numbers[slices.Index(columns[:], column)] }

// A table is the content of sizes.txt.
type table struct {
	rows    map[string]*row
	budgets map[string]*row // the tokens that may still be added
}

// The names of two rows with sums: of the core, which contains all code that a recording service links, and of all
// packages.
const (
	sumCore = "core"
	sumAll  = "all"
)

// inCore reports whether a package is a part of the core.
func inCore(name string) bool {
	switch name {
	case "format", "recorder", "exporter", "slogadapter", "internal/otel":
		return true
	}
	street, _, _ := strings.Cut(strings.TrimPrefix(name, "internal/"), "/")
	return strings.HasPrefix(name, "internal/") && slices.Contains([]string{"core", "file", "write", "text"}, street)
}

func main() {
	log.SetFlags(0)
	update := flag.Bool("update", false, "write "+file+" anew")
	flag.Parse()
	if err := run(*update); err != nil {
		log.Fatal(err)
	}
}

func run(update bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, err := parse(text)
	if err != nil {
		return err
	}
	now, err := measure()
	if err != nil {
		return err
	}
	core, all := &row{}, &row{}
	for name, r := range now {
		for i, n := range r.numbers {
			if all.numbers[i] += n; inCore(name) {
				core.numbers[i] += n
			}
		}
	}
	now[sumCore], now[sumAll] = core, all
	out := printed(&table{now, before.budgets})
	if update {
		return os.WriteFile(file, out, 0o600)
	}
	if _, err := os.Stdout.Write(out); err != nil {
		return err
	}
	if !bytes.Equal(out, text) {
		return fmt.Errorf("%s is out of date: run make sizes UPDATE=-update", file)
	}
	return grown()
}

// grown returns an error for each commit that let a sum rise, and for the working tree if it does.
func grown() error {
	commits, err := git("log", "--format=%h", "--", file, earlier)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	later, err := parse(text)
	var errs []error
	name := "the working tree"
	for commit := range strings.FieldsSeq(commits) {
		if err != nil {
			break
		}
		text, gerr := git("show", commit+":"+file)
		if gerr != nil {
			text, gerr = git("show", commit+":"+earlier)
		}
		if gerr != nil {
			return gerr
		}
		before, perr := parse([]byte(text))
		if errors.Is(perr, errColumns) {
			break // older versions of sizes.txt have numbers of lines
		}
		errs = append(errs, growth(name, before, later))
		later, err, name = before, perr, "commit "+commit
	}
	return errors.Join(append(errs, err)...)
}

// growth returns an error if a sum in the table later exceeds the sum in the table before by more than the budgets
// were lowered in all.
func growth(name string, before, later *table) error {
	var errs []error
	for _, column := range falling {
		most := *before.rows[sumAll].at(column)
		for name, b := range before.budgets {
			if l := later.budgets[name]; l != nil {
				most += max(0, *b.at(column)-*l.at(column))
			}
		}
		if n := *later.rows[sumAll].at(column); n > most {
			errs = append(errs, fmt.Errorf("%s: the sum of the column %s is %d, but the limit is %d: remove as much as you add, or lower a budget in %s by the difference", name, column, n, most, file))
		}
	}
	return errors.Join(errs...)
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output() //nolint:gosec // the arguments are ours
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), nil
}

var errColumns = errors.New("other columns")

// parse reads the text of sizes.txt in the form that printed writes. The error is errColumns for an old version of
// the file, which counts lines instead of tokens.
func parse(text []byte) (*table, error) {
	t := &table{make(map[string]*row), make(map[string]*row)}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		fields := strings.Fields(line)
		if n == 1 {
			if !slices.Equal(fields, append([]string{"folder"}, columns[:]...)) {
				return nil, fmt.Errorf("%s:%d: %w", file, n, errColumns)
			}
			continue
		}
		if len(fields) == 0 {
			continue
		}
		rows, name, numbers := t.rows, fields[0], fields[1:]
		want := len(columns)
		if name == "budget" && len(fields) > 1 {
			rows, name, numbers = t.budgets, fields[1], fields[2:]
			want = 2 // a budget has only the first two columns, code and tests
		}
		if len(numbers) != want {
			return nil, fmt.Errorf("%s:%d: expected %d numbers, found %d", file, n, want, len(numbers))
		}
		r := new(row)
		for i := range numbers {
			var err error
			if r.numbers[i], err = strconv.Atoi(numbers[i]); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, n, err)
			}
		}
		rows[name] = r
	}
	if t.rows[sumAll] == nil {
		t.rows[sumAll] = new(row)
	}
	return t, nil
}

// printed returns the text of sizes.txt, with the sums first and the budgets last.
func printed(t *table) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "folder\t%s\t\n", strings.Join(columns[:], "\t"))
	names := slices.SortedFunc(maps.Keys(t.rows), func(a, b string) int {
		return strings.Compare(place(a), place(b))
	})
	for _, name := range names {
		fmt.Fprintf(w, "%s\t", name)
		for _, n := range t.rows[name].numbers {
			fmt.Fprintf(w, "%d\t", n)
		}
		fmt.Fprintln(w)
	}
	for _, name := range slices.Sorted(maps.Keys(t.budgets)) {
		fmt.Fprintf(w, "budget %s\t%d\t%d\t\n", name, *t.budgets[name].at("code"), *t.budgets[name].at("tests"))
	}
	_ = w.Flush() // writing to memory cannot fail
	return b.Bytes()
}

// place returns the sort key of a row: sums are first, followed by the core and then by all other packages.
func place(name string) string {
	switch {
	case name == sumAll || name == sumCore:
		return "0" + name
	case inCore(name):
		return path.Join("1", name)
	}
	return path.Join("2", name)
}
