package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A command is a subcommand of entrace.
type command struct {
	use, short, long string

	args   cobra.PositionalArgs
	fits   bool // the answer fits a budget
	newest bool // without a FILE, the command reads the newest trace in the current folder
	before int  // how many arguments come before the files

	flags    func(flags *pflag.FlagSet)
	values   map[string][]string  // the values of flags, for the completion in shells
	complete cobra.CompletionFunc // the completion of arguments; of traces if the command has fits or newest

	run func(ctx context.Context, c *console, args []string) error
}

// cobra returns the command in the form that package cobra runs.
func (x *command) cobra(c *console) *cobra.Command {
	if x.complete == nil && (x.fits || x.newest) {
		x.complete = completeTraces
	}
	budget := ""
	made := &cobra.Command{
		Use: x.use, Short: x.short, Long: x.long, Args: x.args, ValidArgsFunction: x.complete,
		RunE: func(made *cobra.Command, args []string) error {
			return c.fitAnswer(budget, made.Flags(), func(c *console) error {
				if err := x.named(made.Context(), c, made.Flags(), args); err != nil {
					return err
				}
				return x.run(made.Context(), c, args)
			})
		},
	}
	if x.flags != nil {
		x.flags(made.Flags())
	}
	if x.fits {
		made.Flags().StringVar(&budget, "budget", os.Getenv(envBudget), "limit the answer to this `SIZE`, such as 4KiB, and leave out the least important parts; by default, "+envBudget)
	}
	if len(c.args) > 0 && strings.HasPrefix(c.args[0], cobra.ShellCompRequestCmd) { // cobra never forgets these functions
		for flag, values := range x.values {
			err := made.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
			if err != nil {
				panic(err) // the flag does not exist
			}
		}
	}
	if x.newest {
		takesNewest(c, made, x.before)
	}
	return made
}

// named replaces names such as @last in the arguments, and in the flags that take files.
func (x *command) named(ctx context.Context, c *console, flags *pflag.FlagSet, args []string) error {
	replace := func(names []string) (err error) {
		for i := range names {
			names[i], err = traceNamed(ctx, c, ".", names[i])
			if err != nil {
				return err
			}
		}
		return nil
	}
	errs := []error{replace(args[min(x.before, len(args)):])}
	flags.Visit(func(f *pflag.Flag) {
		if files, ok := f.Value.(pflag.SliceValue); ok && slices.Contains([]string{"against", "before", "after"}, f.Name) {
			names := files.GetSlice()
			errs = append(errs, replace(names), files.Replace(names))
		}
	})
	return errors.Join(errs...)
}

// hiddenCommand returns a command for a process that run starts itself.
func hiddenCommand(name string, do func() error) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return do() }}
}

// completeTraces completes an argument with the names of trace files.
func completeTraces(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"et", "iet"}, cobra.ShellCompDirectiveFilterFileExt
}

// takes returns a check that the number of arguments is from least to most.
func takes(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			_, want, _ := strings.Cut(c.Use, " ")
			return usagef("%s expects %s, found %s", c.CommandPath(), want, plural(len(args), "argument"))
		}
		return nil
	}
}

var someArgs = takes(1, math.MaxInt)

// each calls fn for every name, and joins the errors. If there are several names, each error begins with its name.
func each(names []string, fn func(name string) error) error {
	var errs []error
	for _, name := range names {
		err := fn(name)
		if len(names) > 1 && err != nil && !errors.Is(err, errQuiet) && !strings.Contains(err.Error(), name) {
			err = fmt.Errorf("%s: %w", name, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// takesNewest makes the command x use the newest trace of the current folder if its command line names no file. The
// command has as many arguments before the files as others says.
func takesNewest(c *console, x *cobra.Command, others int) {
	most := math.MaxInt
	if strings.HasSuffix(x.Use, " FILE") {
		most = others + 1
	}
	x.Args = takes(others, most)
	x.Use = strings.Replace(strings.Replace(x.Use, "FILE|DIR...", "[FILE|DIR]...", 1), " FILE", " [FILE]", 1)
	x.Long = strings.TrimSpace(x.Long + "\n\nWithout a FILE, the command reads the newest trace in the current folder.")
	do := x.RunE
	x.RunE = func(x *cobra.Command, args []string) error {
		if len(args) > others {
			return do(x, args)
		}
		if others > 0 {
			if last := args[others-1]; isTraceName(last) {
				return usagef("%s is missing before the file %s", strings.Fields(x.Use)[others], last)
			}
		}
		newest, err := newestHere(c)
		if err != nil {
			return err
		}
		return do(x, append(args, newest))
	}
}

// newestHere returns the newest trace in the current folder, and says that it is used.
func newestHere(c *console) (string, error) {
	newest, err := newestTrace(".")
	if err != nil {
		return "", err
	}
	if newest == "" {
		return "", usagef("no FILE was given, and the current folder has no trace%s", otherFolder("."))
	}
	c.say("using the newest trace, %s", newest)
	return newest, nil
}
