// Command entrace looks at, converts and repairs trace files.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
)

// What the command ends with.
const (
	exitFine  = 0
	exitData  = 1
	exitUsage = 2
)

func main() {
	// A broken pipe is an error like others, so that temporary files go.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // the second interrupt ends what does not listen
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// An app is the command with what it reads and writes.
type app struct {
	in       io.Reader
	out, err io.Writer
	color    bool // out is a terminal that wants it
	started  bool // the command line was understood
}

func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	a := &app{in: in, out: out, err: errw, color: isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errw)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitFine
	case errors.Is(err, errQuiet):
		return exitData
	case errors.Is(err, syscall.EPIPE):
		return exitFine // whoever reads has had enough
	}
	fmt.Fprintln(errw, "entrace:", safe(err.Error()))
	if _, usage := errors.AsType[*usageError](err); usage || !a.started {
		fmt.Fprintln(errw, "entrace: see 'entrace --help'")
		return exitUsage
	}
	return exitData
}

// errQuiet ends the command with a problem that it has reported already.
var errQuiet = errors.New("reported")

// A usageError is a mistake in the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(text string, args ...any) error { return &usageError{fmt.Errorf(text, args...)} }

// thereAlready is the error for an output that must not be replaced.
func thereAlready(name string) error { return usagef("%s is there already", name) }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "entrace",
		Short: "Look at, convert and repair traces",
		Long: "entrace looks at, converts and repairs trace files in ENTRACE's formats ET and IET.\n\n" +
			"FILE may be the name that a program was given for its trace, whatever is left of\n" +
			"it: for app.et also the app.iet of one that still runs or was killed.\n\n" +
			"Exit status: 0 fine, 1 a problem with the data, 2 wrong usage.",
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRun:  func(*cobra.Command, []string) { a.started = true },
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.AddCommand(a.catCommand(), a.treeCommand(), a.infoCommand(), a.tailCommand(), a.convertCommand(),
		a.mergeCommand(), a.recoverCommand(), a.verifyCommand(), a.receiveCommand())
	return root
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// fileArgs wants n arguments and completes the names of traces.
func fileArgs(c *cobra.Command, n int) *cobra.Command {
	c.Args = cobra.ExactArgs(n)
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return []string{"et", "iet"}, cobra.ShellCompDirectiveFilterFileExt
	}
	return c
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// stdinName is what is printed as the name of the standard input.
const stdinName = "standard input"

// open returns a stream of the trace that name, "-" being the standard input,
// leads to.
func (a *app) open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.in), nil
	}
	return openRegular(format.Find(name))
}

// openRegular opens a file to read it, whatever is in it.
func openRegular(name string) (*os.File, error) {
	f, err := osfile.OpenRead(name)
	if errors.Is(err, osfile.ErrNotRegular) {
		err = fmt.Errorf("%s: %w", name, format.ErrNotRegular)
	}
	return f, err
}

// torn passes on the error with which the entries of a file ended. That one
// stops within an entry is no problem while its writer lives.
func torn(name string, err error) error {
	if errors.Is(err, format.ErrTruncated) && name != "-" && osfile.Locked(format.Find(name)) {
		return nil
	}
	return err
}

// seekable returns a file to open for name: itself, or a copy of the standard
// input that done removes.
func (a *app) seekable(name string) (path string, done func(), err error) {
	if name != "-" {
		return name, func() {}, nil
	}
	f, err := os.CreateTemp("", "entrace-*")
	if err != nil {
		return "", nil, err
	}
	_, err = io.Copy(f, a.in)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", nil, errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), func() { _ = os.Remove(f.Name()) }, nil
}
