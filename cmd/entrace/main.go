// Command entrace looks at, converts and repairs trace files.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/entrace-go/entrace/internal/otel/replay"
	"github.com/entrace-go/entrace/internal/read/show"
	texts "github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/query"
)

func main() {
	collectAt(10) // frequent collections cost little: the large blocks of memory hold no pointers
	// Make a broken pipe an ordinary error, so that temporary files are removed. Do not ignore the signal: the
	// command that 'entrace run' starts would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second interrupt kills a process that ignores ctx
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// collectAt sets the percentage by which the heap may grow before the next garbage collection. GOGC in the
// environment has precedence.
func collectAt(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// An app is the command with its input and outputs.
type app struct {
	in       io.Reader
	out, err io.Writer
	color    bool // print colors to out
	started  bool // the command line was understood
	width    int  // columns of out; if 0, ask the terminal

	exit func(code int) // ends the process
}

// say prints a line on stderr.
func (a *app) say(text string, args ...any) {
	fmt.Fprintln(a.err, "entrace:", show.Safe(fmt.Sprintf(text, args...)))
}

func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	a := &app{in: in, out: out, err: errw, exit: os.Exit}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errw)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitFine
	case errors.Is(err, errQuiet):
		return exitData
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		if s.err != nil {
			a.say("%s", s)
		}
		return s.code
	}
	switch {
	case isBrokenPipe(err):
		return exitFine // the reader has closed the pipe
	case isInterrupt(ctx, err):
		a.say("interrupted")
		return exitInterrupted
	}
	for line := range strings.SplitSeq(err.Error(), "\n") { // joined errors have one line each
		a.say("%s", line)
	}
	if q, ok := errors.AsType[*query.Error](err); ok {
		a.sayTry(q.Try)
	}
	if cmd == root && !a.started && len(args) > 0 {
		var names []string
		for _, c := range root.Commands() {
			names = append(names, c.Name())
		}
		if like := texts.Nearest(args[0], names, 2); like != "" {
			a.say("did you mean %s?", like)
		}
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var have []string
		for _, c := range root.Commands() {
			if c.Flags().Lookup(unknown.GetSpecifiedName()) != nil {
				have = append(have, c.Name())
			}
		}
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if like := texts.Nearest(unknown.GetSpecifiedName(), flags, 2); like != "" {
			a.say("did you mean --%s?", like)
		} else if len(have) > 0 {
			a.say("these commands have the flag: %s", strings.Join(have, ", "))
		}
	}
	if _, usage := errors.AsType[*usageError](err); usage || !a.started {
		a.say("see '%s --help'", cmd.CommandPath())
		return exitUsage
	}
	if _, check := errors.AsType[*checkError](err); check || errors.Is(err, replay.ErrUnreachable) {
		return exitUsage
	}
	return exitData
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "entrace",
		Short: "Look at, convert and repair traces",
		Long: `entrace looks at, converts and repairs trace files in ENTRACE's formats ET and IET.

  entrace view app.et        requests, spans and log records in the browser
  entrace explain app.et     which service is to blame for what is slow or fails
  entrace recover .          finish what killed programs have left here

FILE may be the name that a program was given for its trace: app.et then also means the
app.iet of a program that still runs or was killed.

Only you can read the files that entrace writes (mode 0600).

Exit status: 0 fine, 1 a problem with the data, 2 wrong usage.`,
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},

		DisableSuggestions: true, // cobra prints a suggestion on several lines; run prints its own on one line
	}
	color := root.PersistentFlags().String("color", "auto", "color the output: always, never, or auto: on a terminal, unless NO_COLOR is set")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		switch *color {
		case "always":
			a.color = true
		case "auto":
			a.color = isTerminal(a.out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		case "never":
		default:
			return usagef("--color is %q: must be always, never or auto", *color)
		}
		a.started = true
		return nil
	}
	root.SetVersionTemplate("entrace {{.Version}}\n")
	root.AddCommand(a.versionCommand())
	for _, c := range []*cobra.Command{
		a.catCommand(), a.treeCommand(), a.infoCommand(), a.statsCommand(), a.topCommand(), a.explainCommand(), a.criticalCommand(),
		a.checkCommand(), a.viewCommand(), a.verifyCommand(),
	} {
		a.takesNewest(c, 0)
		c.ValidArgsFunction = completeTraces
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{a.grepCommand(), a.luaCommand()} {
		a.takesNewest(c, 1) // the query or script comes before the files
		root.AddCommand(c)
	}
	root.AddCommand(a.tailCommand(), a.convertCommand(), a.exportCommand(), a.redactCommand(), a.diffCommand(), a.mergeCommand(), a.recoverCommand(), a.receiveCommand(), a.replayCommand(), a.runCommand(), hiddenCommand(drainCommand, passOn), hiddenCommand(witnessCommand, bearWitness), a.archiveCommand())
	for _, group := range []string{
		"Look: view top explain tree tail critical diff", "Ask: grep stats check lua cat info", "Record: run receive",
		"Convert: convert export merge redact replay archive", "Repair: recover verify",
	} {
		title, names, _ := strings.Cut(group, ": ")
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		for _, c := range root.Commands() {
			if slices.Contains(strings.Fields(names), c.Name()) {
				c.GroupID = title
			}
		}
	}
	return root
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

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
