// Command sizes keeps the packages of the module from growing unnoticed. It measures each package
// without its tests, and compares the numbers with sizes.txt in the same folder. It fails if a number is
// larger than the one in sizes.txt. `make sizes` runs it, `make sizes UPDATE=-update` rewrites the file.
//
// The columns (a smaller number is always better):
//
//   - code: lines with code, without blank lines and comments
//   - names: exported names, with the methods of exported types and their promoted methods
//   - fields: exported fields of exported structs
//   - file: lines of code of the largest file
//   - struct: fields of the largest struct
//   - upward: pairs of files in which a lower file uses a name from a higher file, if the files of
//     the package are sorted so that few such pairs exist
//   - wording: sentences of comments and errors in a pattern that needs a second reading
//
// A row in which a number is raised needs a new reason after a #. The command checks this in the git
// history of sizes.txt.
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

const file = "internal/sizes/sizes.txt"

// columns are the names of the columns of sizes.txt.
var columns = [...]string{"code", "names", "fields", "file", "struct", "upward", "wording"}

// A row has the numbers of one package, or of a sum of packages.
type row struct {
	numbers [len(columns)]int
	reason  string // why a number was last raised
}

// The names of the rows with sums: of the core, which is all that a recording service links, and of all
// packages.
const (
	sumCore = "core"
	sumAll  = "all"
)

// inCore reports whether a package is a part of the core. A package below internal is a part of the
// core unless it is listed here as an exception.
func inCore(name string) bool {
	switch name {
	case "format", "recorder", "exporter", "slogadapter":
		return true
	case "internal/hosttest", "internal/jsontest", "internal/metrictest", "internal/querytest", "internal/tracetest", // test kits
		"internal/callstack", "internal/timeline", "internal/columns", "internal/execbatch", "internal/gotrace", "internal/interest", "internal/ports", "internal/sizes",
		"internal/archive", "internal/intake", "internal/otlp/codec", "internal/receive", "internal/replay": // used only by the command
		return false
	}
	return strings.HasPrefix(name, "internal/") && !strings.HasPrefix(name, "internal/conformance") && !strings.HasPrefix(name, "internal/bench")
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
	if err != nil && (!update || !errors.Is(err, os.ErrNotExist)) {
		return err
	}
	allowed, err := parse(text)
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
	for name, r := range now {
		if old := allowed[name]; old != nil {
			r.reason = old.reason
		}
	}
	out := printed(now)
	if update {
		return os.WriteFile(file, out, 0o600)
	}
	if _, err := os.Stdout.Write(out); err != nil {
		return err
	}
	errs := larger(now, allowed)
	if len(errs) == 0 && !bytes.Equal(out, text) {
		errs = append(errs, fmt.Errorf("%s is out of date: make sizes UPDATE=-update", file))
	}
	return errors.Join(append(errs, unexplained()...)...)
}

// larger returns an error for each number that is larger than allowed.
func larger(now, allowed map[string]*row) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		old := allowed[name]
		if old == nil {
			errs = append(errs, fmt.Errorf("%s is new: it needs a row in %s", name, file))
			continue
		}
		for i, n := range now[name].numbers {
			if n > old.numbers[i] {
				errs = append(errs, fmt.Errorf("%s: %s is %d, and may be %d: make it smaller, or raise it in %s with a reason", name, columns[i], n, old.numbers[i], file))
			}
		}
	}
	return errs
}

// unexplained returns an error for each row that a commit has added or raised without a reason.
func unexplained() (errs []error) {
	commits, err := git("log", "--format=%h", "--", file)
	if err != nil {
		return []error{err}
	}
	versions := []string{""} // the newest commit first; "" before it is the working tree
	for commit := range strings.FieldsSeq(commits) {
		versions = append(versions, commit)
	}
	read := func(commit string) (map[string]*row, error) {
		if commit == "" {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			return parse(text)
		}
		text, err := git("show", commit+":"+file)
		if err != nil {
			return nil, err
		}
		return parse([]byte(text))
	}
	for i := range len(versions) - 1 {
		later, err := read(versions[i])
		if err != nil {
			return append(errs, err)
		}
		before, err := read(versions[i+1])
		if err != nil {
			return append(errs, err)
		}
		for _, name := range slices.Sorted(maps.Keys(later)) {
			r, old := later[name], before[name]
			if old == nil {
				old = &row{}
			}
			for k := range columns {
				if r.numbers[k] > old.numbers[k] && (r.reason == "" || r.reason == old.reason) {
					errs = append(errs, fmt.Errorf("%s: commit %s raised %s from %d to %d without a reason of its own", name, versions[i], columns[k], old.numbers[k], r.numbers[k]))
					break
				}
			}
		}
	}
	return errs
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output() //nolint:gosec // the arguments are ours
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), nil
}

// parse reads the text of sizes.txt, as printed writes it.
func parse(text []byte) (map[string]*row, error) {
	rows := make(map[string]*row)
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, reason, _ := strings.Cut(strings.TrimSpace(line), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 || n == 1 {
			continue // a blank line, or the heading
		}
		if len(fields) != 1+len(columns) {
			return nil, fmt.Errorf("%s:%d: want %d columns, have %d", file, n, 1+len(columns), len(fields))
		}
		r := &row{reason: strings.TrimSpace(reason)}
		for i := range columns {
			var err error
			if r.numbers[i], err = strconv.Atoi(fields[1+i]); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, n, err)
			}
		}
		rows[fields[0]] = r
	}
	return rows, nil
}

// printed returns the text of sizes.txt for rows, with the sums first.
func printed(rows map[string]*row) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "package\t%s\t\n", strings.Join(columns[:], "\t"))
	names := slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		return strings.Compare(place(a), place(b))
	})
	for _, name := range names {
		r := rows[name]
		fmt.Fprintf(w, "%s\t", name)
		for _, n := range r.numbers {
			fmt.Fprintf(w, "%d\t", n)
		}
		if r.reason != "" {
			fmt.Fprintf(w, "  # %s", r.reason)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // writing to memory cannot fail
	return b.Bytes()
}

// place returns the sort key of a row: sums come first, then the core, then the rest.
func place(name string) string {
	switch {
	case name == sumAll || name == sumCore:
		return "0" + name
	case inCore(name):
		return path.Join("1", name)
	}
	return path.Join("2", name)
}
