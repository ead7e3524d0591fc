// Command ratios makes the table of the README from the output of benchmarks.
//
//	go run ./ratios bench.txt
//
// It reads the output of any number of runs from files or from the standard input, and compares medians. The table
// has a dash for a benchmark that was not run.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

func run(names []string, in io.Reader, out io.Writer) error {
	r := make(results)
	for _, name := range names {
		f, err := os.Open(name) //nolint:gosec // the user names it
		if err != nil {
			return err
		}
		err = r.read(f)
		_ = f.Close() // the file was only read
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
	if len(names) == 0 {
		if err := r.read(in); err != nil {
			return fmt.Errorf("read the standard input: %w", err)
		}
	}
	return write(out, table(r))
}
