// Command entrace looks at, converts and repairs trace files.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/entrace-go/entrace/internal/read/show"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/otel/replay"
	texts "github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/query"
)

// The exit codes of the command.
const (
	exitFine  = 0
	exitData  = 1
	exitUsage = 2
	// exitInterrupted is the code that shells expect from a program that an interrupt ended.
	exitInterrupted = 130
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
		a.tellTry(q.Try)
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

// isBrokenPipe reports whether err means that the reader of the output has closed the pipe.
func isBrokenPipe(err error) bool {
	if runtime.GOOS == "windows" {
		const brokenPipe, noData = syscall.Errno(109), syscall.Errno(232)
		return errors.Is(err, brokenPipe) || errors.Is(err, noData)
	}
	return errors.Is(err, syscall.EPIPE)
}

// isInterrupt reports whether err means that a signal told the command to end.
func isInterrupt(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

// errQuiet ends the command with exitData and without a message, because the command has reported the
// problem already.
var errQuiet = errors.New("reported")

// A usageError is a mistake in the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usagef(text string, args ...any) error { return &usageError{fmt.Errorf(text, args...)} }

// thereAlready returns the error if the output name exists and must not be replaced.
func thereAlready(name string) error { return usagef("%s already exists", name) }

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

// release and commit are set by `make release`. All other values of a build must not depend on the machine.
var release, commit string

// A build describes the source and tools of a binary.
type build struct {
	Version string  `json:"version"`
	Commit  *string `json:"commit"` // nil if it is not known
	Dirty   bool    `json:"dirty"`  // the source had uncommitted changes
	Go      string  `json:"go"`
	System  string  `json:"system"`
}

func (a *app) versionCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !asJSON {
				_, err := fmt.Fprintln(a.out, "entrace", version())
				return err
			}
			info, _ := debug.ReadBuildInfo()
			return a.printJSON(buildOf(info))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object, with the commit, the version of Go and the system")
	return c
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info).String()
}

// buildOf describes a binary with the given build information, which may be nil.
func buildOf(info *debug.BuildInfo) build {
	b := build{Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		b.Version = info.Main.Version
		for i := range info.Settings {
			switch s := &info.Settings[i]; s.Key {
			case "vcs.revision":
				b.Commit = &s.Value
			case "vcs.modified":
				b.Dirty = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(release, b.Version, "(devel)")
	if commit != "" {
		b.Commit = &commit
	}
	return b
}

// String returns the version, followed by the commit if the version does not contain it.
func (b build) String() string {
	text := b.Version
	if b.Commit != nil && len(*b.Commit) >= 12 && release == "" && !strings.Contains(text, (*b.Commit)[:12]) {
		text += " " + (*b.Commit)[:12]
	}
	if b.Dirty && !strings.Contains(text, "dirty") {
		text += " (modified)"
	}
	return text
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

// stdinName is the printed name of the standard input.
const stdinName = "standard input"

// content opens the bytes of the trace name, or of the standard input for "-". It reports on stderr which entries
// come from a crash buffer and which are missing.
func (a *app) content(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.in), nil
	}
	src, err := deadtrace.OpenSource(format.Find(name), false)
	if err != nil {
		return nil, known(name, err)
	}
	n := 0
	if src.Size() > src.Stored {
		n = -1
	}
	a.tellJournal(src.Name, n, src.Missing)
	return struct {
		io.Reader
		io.Closer
	}{src.Reader(), src}, nil
}

// known explains two errors. To [convert.ErrNoTrace], it adds the name of another folder that has a trace. For
// [format.ErrNotEntrace], it returns an error that names the kind of the file, if it recognizes the kind. It
// returns other errors unchanged.
func known(name string, err error) error {
	if errors.Is(err, convert.ErrNoTrace) {
		return fmt.Errorf("%w%s", err, otherFolder(name))
	}
	if !errors.Is(err, format.ErrNotEntrace) {
		return err
	}
	if _, ring := knownRing(name); ring != nil {
		return ring
	}
	switch kind, _, unknown, ferr := convert.FormatOf(name); {
	case ferr != nil:
	case unknown != "":
		return fmt.Errorf("%s %s", name, unknown)
	case kind != "":
		return fmt.Errorf("%s looks like %s: convert it to a trace with 'entrace convert %s x.et'", name, kind, name)
	}
	return err
}

// knownRing returns an error that says what to do with a ring or a crash buffer. died reports
// whether it is the ring of a process that died. For other files, err is nil.
func knownRing(name string) (died bool, err error) {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return false, nil //nolint:nilerr // that it cannot be opened was said already
	}
	defer f.Close()
	head := make([]byte, 4<<10)
	n, _ := io.ReadFull(f, head) // the file may be shorter
	head = head[:n]
	journal := name
	if rest, ok := bytes.CutPrefix(head, []byte("entrace journal\npath ")); ok { // in shared memory
		path, _, _ := bytes.Cut(rest, []byte("\n"))
		journal, head = string(path), []byte("ENTRACEB")
	}
	if !bytes.HasPrefix(head, []byte("ENTRACEB")) {
		return false, nil
	}
	state, pid := osfile.LockHolder(journal)
	switch {
	case state == osfile.LockHeld && pid > 0:
		return false, fmt.Errorf("%s is the ring of process %d, which is running: 'kill -USR1 %d' makes the process write a trace", name, pid, pid)
	case state == osfile.LockHeld && runtime.GOOS == "windows":
		return false, fmt.Errorf("%s is the ring of a running process, which writes a trace when a trigger fires", name)
	case state == osfile.LockHeld:
		return false, fmt.Errorf("%s is the ring of a running process: SIGUSR1 makes the process write a trace", name)
	case strings.HasSuffix(name, ".buffer"):
		return false, fmt.Errorf("%s is the crash buffer of %s: name that file instead", name, strings.TrimSuffix(name, ".buffer"))
	}
	return true, fmt.Errorf("%s is the ring of a process that died: 'entrace recover %s' makes a trace from it", name, filepath.Dir(name))
}

// tellJournal prints notes about the journal of the file name on stderr. The first says that n entries come from
// the journal; if n is -1, their number is not known. If missing is not nil, the second says why entries are
// missing.
func (a *app) tellJournal(name string, n int, missing error) {
	if n != 0 {
		what := "the last entries are"
		if n > 0 {
			what = count(n, "entry is", "entries are")
		}
		a.say("%s: %s from the crash buffer; 'entrace recover' puts all entries into one file", name, what)
	}
	switch {
	case missing == nil:
	case errors.Is(missing, format.ErrLocked):
		by := ""
		if _, pid := osfile.LockHolder(format.Find(name)); pid > 0 {
			by = fmt.Sprintf(" (pid %d)", pid)
		}
		a.say("%s: a process%s is still writing the file: run the command again for newer entries", name, by)
	case errors.Is(missing, fs.ErrPermission):
		a.say("%s: the last entries are missing, because the crash buffer belongs to another user: %s", name, missing)
	default:
		a.say("%s: the last entries are missing: %s", name, missing)
	}
}

// count returns n with the singular noun one or the plural noun more.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// plural returns n with a noun whose plural has an s.
func plural(n int, noun string) string { return count(n, noun, noun+"s") }

// torn filters err, the error after the last entry of a file. It returns nil if the file ends within an entry and
// its writer is alive, because the writer still completes that entry. Otherwise it returns err.
func torn(name string, err error) error {
	if errors.Is(err, format.ErrTruncated) && name != "-" && osfile.Locked(format.Find(name)) {
		return nil
	}
	return err
}

// maxCopied is the maximum size of a temporary file.
const maxCopied = 8 << 30

// seekable returns the path of a file with the content of name, for random access. For "-" and for a compressed
// file, it copies the content to a temporary file, which done removes. cut is the reason why a compressed file
// could not be read to its end.
func (a *app) seekable(name string) (path string, done func(), cut, err error) {
	in := a.in
	if name != "-" {
		f, err := osfile.OpenRead(format.Find(name))
		if err != nil {
			return name, func() {}, nil, nil //nolint:nilerr // whoever opens the path is told
		}
		defer f.Close()
		in = f
	}
	plain, compressed, err := convert.Plain(in)
	if name != "-" && !compressed {
		return name, func() {}, nil, nil
	}
	if err != nil {
		return "", nil, nil, err
	}
	f, err := os.CreateTemp("", "entrace-*")
	if err != nil {
		return "", nil, nil, err
	}
	n, err := io.Copy(f, io.LimitReader(plain, maxCopied))
	if n == maxCopied && err == nil {
		err = fmt.Errorf("the content is larger than %d GiB: the rest is not read", maxCopied>>30)
	}
	if compressed {
		cut, err = err, nil
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return "", nil, nil, errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), func() { _ = os.Remove(f.Name()) }, cut, nil
}
