// Command entrace looks at, converts and repairs trace files.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/otel/replay"
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

func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	c := &console{in: in, out: out, err: errw, exit: os.Exit, args: args}
	root := rootCommand(c)
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
			c.say("%s", s)
		}
		return s.code
	}
	switch {
	case isBrokenPipe(err):
		return exitFine // the reader has closed the pipe
	case isInterrupt(ctx, err):
		c.say("interrupted")
		return exitInterrupted
	}
	for line := range strings.SplitSeq(err.Error(), "\n") { // joined errors have one line each
		c.say("%s", line)
	}
	if q, ok := errors.AsType[*query.Error](err); ok {
		c.sayTry(q.Try)
		if q.Try == "" {
			c.say("'{ span:failed && duration > 100ms }' is a query, for example")
		}
	}
	if cmd == root && !c.started && len(args) > 0 {
		var names []string
		for _, other := range root.Commands() {
			names = append(names, other.Name())
		}
		if like := texts.Nearest(args[0], names, 2); like != "" {
			c.say("did you mean %s?", like)
		}
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var have []string
		for _, other := range root.Commands() {
			if other.Flags().Lookup(unknown.GetSpecifiedName()) != nil {
				have = append(have, other.Name())
			}
		}
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if like := texts.Nearest(unknown.GetSpecifiedName(), flags, 2); like != "" {
			c.say("did you mean --%s?", like)
		} else if len(have) > 0 {
			c.say("these commands have the flag: %s", strings.Join(have, ", "))
		}
	}
	if _, usage := errors.AsType[*usageError](err); usage || !c.started {
		c.say("see '%s --help'", cmd.CommandPath())
		return exitUsage
	}
	if _, check := errors.AsType[*checkError](err); check || errors.Is(err, replay.ErrUnreachable) {
		return exitUsage
	}
	return exitData
}

// rootCommand returns the command with all subcommands.
func rootCommand(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:   "entrace",
		Short: "Look at, convert and repair traces",
		Long: `entrace looks at, converts and repairs trace files in ENTRACE's formats ET and IET.

  entrace view app.et        requests, spans and log records in the browser
  entrace explain app.et     the service to blame for slow or failed requests
  entrace recover .          finish the traces of killed programs in this folder

FILE can be the name that you gave a program for its trace: if the program still runs or
was killed, app.et stands for its app.iet. FILE#ID is a row of FILE, with the rows below it:
entrace tree app.et#812.

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
			c.color = true
		case "auto":
			c.color = isTerminal(c.out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		case "never":
		default:
			return usagef("--color is %q: must be always, never or auto", *color)
		}
		c.started = true
		return nil
	}
	root.SetVersionTemplate("entrace {{.Version}}\n")
	root.AddCommand(versionCommand().cobra(c), hiddenCommand(drainCommand, passOn), hiddenCommand(witnessCommand, bearWitness))
	for _, group := range []struct {
		title    string
		commands []*command
	}{
		{"Look", []*command{viewCommand(), uiCommand(), runsCommand(), topCommand(), explainCommand(), treeCommand(), tailCommand(), criticalCommand(), diffCommand()}},
		{"Ask", []*command{grepCommand(), statsCommand(), fieldsCommand(), checkCommand(), catCommand(), infoCommand()}},
		{"Record", []*command{runCommand(), receiveCommand()}},
		{"Convert", []*command{convertCommand(), exportCommand(), mergeCommand(), redactCommand(), replayCommand(), archiveCommand()}},
		{"Repair", []*command{recoverCommand(), verifyCommand()}},
		{"Agents", []*command{mcpCommand(), skillCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, x := range group.commands {
			child := x.cobra(c)
			child.GroupID = group.title
			root.AddCommand(child)
		}
	}
	return root
}
