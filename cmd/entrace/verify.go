package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/secrets"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

func verifyCommand() *command {
	secretsOnly := false
	return &command{
		use:   "verify FILE...",
		short: "Check a trace for errors and oddities",
		long: `verify checks a trace for errors and oddities.

  entrace verify app.et
  entrace verify --secrets app.et        print the places of secrets, but not the secrets
  entrace verify traces/*.et

verify reads every byte. It checks that the entries are intact and at the offsets in the tables, that the parents
form a tree, and that other readers can read the file and the Go execution traces in it. It prints a line for
each problem, and exits with 1 if there is any. It cannot find a flipped bit in the content of a string.

With --secrets, verify looks only for secrets that a recorder replaces by default, in files of all formats, and
exits with 1 if there is any. 'entrace redact' removes them.`,
		flags: func(flags *pflag.FlagSet) {
			flags.BoolVar(&secretsOnly, "secrets", false, "look only for secrets")
		},
		newest: true,
		run: func(ctx context.Context, c *console, args []string) error {
			return each(args, func(name string) error {
				if secretsOnly {
					return verifySecrets(ctx, c, name)
				}
				return verify(ctx, c, name)
			})
		},
	}
}

// verifySecrets prints where a trace has secrets.
func verifySecrets(ctx context.Context, c *console, name string) error {
	t, err := open(ctx, c, []string{name}, &inputFlags{})
	if err != nil {
		return err
	}
	defer t.Close()
	found, entries := 0, 0
	for file, f := range t.View().Files() {
		entries += f.Len()
		for id := range uint32(f.Len()) {
			if id%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			e, err := f.Entry(id)
			if err != nil {
				return fmt.Errorf("%s: entry %d: %w", name, id, err)
			}
			var fields []string
			r := redact.New(nil, nil)
			if !secrets.Replace(r, e, func(field string) { fields = append(fields, field) }) {
				continue
			}
			n, rules := replaced(r)
			found += n
			if _, err := fmt.Fprintf(c.out, "%s: entry %d: %s (%s)\n", show.Safe(t.Name(file)), id, show.Safe(strings.Join(fields, ", ")), rules); err != nil {
				return err
			}
		}
	}
	_, err = fmt.Fprintf(c.out, "%s: %s, %s\n", show.Safe(name), count(entries, "entry", "entries"), plural(found, "secret"))
	if err == nil && found > 0 {
		err = errQuiet
	}
	return errors.Join(err, t.Damage())
}

// verifyExecTraces reads the execution traces in a file, and calls found for each of them that cannot be read to
// its end.
func verifyExecTraces(ctx context.Context, path string, found func(problem error)) {
	t, err := convert.Open(ctx, []string{path}, nil)
	if err != nil {
		return // the entries have problems, which are reported elsewhere
	}
	defer t.Close()
	states, err := spanstates.Of(ctx, t.View())
	if err != nil {
		return // ctx has ended
	}
	for _, problem := range states.Problems() {
		found(problem)
	}
}

func verify(ctx context.Context, c *console, name string) error {
	path, done, cut, err := seekable(c, name)
	if err != nil {
		return err
	}
	defer done()
	problems := 0
	// tell ignores an error of c.out, because the result of the command is the number of problems.
	tell := func(problem error) { _, _ = fmt.Fprintln(c.out, show.Safe(problem.Error())) }
	if cut != nil {
		problems++
		tell(cut)
	}
	r, err := recorder.Verify(path, func(problem error) {
		if errors.Is(problem, format.ErrTruncated) && torn(name, problem) == nil {
			return
		}
		if !errors.Is(problem, format.ErrNumbered) { // an application may have attributes with such names
			problems++
		}
		tell(problem)
	})
	if path != name && errors.Is(err, format.ErrNotEntrace) {
		err = fmt.Errorf("%s: %w", name, format.ErrNotEntrace) // do not name the temporary file
	}
	if err != nil {
		return known(name, err)
	}
	verifyExecTraces(ctx, path, func(problem error) {
		problems++
		tell(problem)
	})
	state, missing := convert.StateOf(ctx, path, problems == 0)
	tellJournal(c, r.Name, r.Pending, cmp.Or(r.Journal, missing))
	if name == "-" {
		r.Name = stdinName
	} else if path != name {
		r.Name = name
	}
	_, err = fmt.Fprintf(c.out, "%s: %s, %s; %s\n", show.Safe(r.Name), count(r.Entries, "entry", "entries"), plural(problems, "problem"), show.Safe(state.String()))
	if err == nil && problems > 0 {
		err = errQuiet
	}
	return err
}
