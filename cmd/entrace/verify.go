package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

func (a *app) verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Look for everything that is wrong or odd in a trace",
		Long: "verify looks at every byte of each FILE: whether the entries are whole and where the\n" +
			"tables say, whether the tree is one, whether other readers can read it. It prints\n" +
			"a line for each problem and exits with 1 if there is any. It cannot find a bit\n" +
			"that flipped within a text.",
		Args: someArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return each(args, func(name string) error { return a.verify(c.Context(), name) })
		},
		ValidArgsFunction: completeTraces,
	}
	return c
}

func (a *app) verify(ctx context.Context, name string) error {
	path, done, err := a.seekable(name)
	if err != nil {
		return err
	}
	defer done()
	problems := 0
	r, err := recorder.Verify(path, func(problem error) {
		if errors.Is(problem, format.ErrTruncated) && torn(name, problem) == nil {
			return
		}
		problems++
		_, _ = fmt.Fprintln(a.out, safe(problem.Error())) // the result is the number of problems
	})
	if err != nil {
		return known(name, err)
	}
	state, missing := convert.StateOf(ctx, path, problems == 0)
	a.tellJournal(r.Name, count(r.Pending, "entry is", "entries are"), r.Pending > 0, cmp.Or(r.Journal, missing))
	if name == "-" {
		r.Name = stdinName
	}
	_, err = fmt.Fprintf(a.out, "%s: %s, %s; %s\n", safe(r.Name), count(r.Entries, "entry", "entries"), count(problems, "problem", "problems"), safe(state.String()))
	if err == nil && problems > 0 {
		err = errQuiet
	}
	return err
}
