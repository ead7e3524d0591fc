package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

type runFlags struct {
	output, protocol, redact string
	against                  []string
	policy                   *redact.Policy // the policy that --redact names
	view, console            bool
	noConfigFile             bool
}

func runCommand() *command {
	f := &runFlags{protocol: "http/protobuf"}
	return &command{
		use:    "run [flags] -- COMMAND ARGS...",
		before: math.MaxInt,
		short:  "Run a program and record its spans and log records",
		long: `run starts a program in any language, and records the data that its OpenTelemetry SDK sends.

  entrace run -- python app.py
  entrace run -o app.et --view -- java -jar app.jar      and open the web viewer at the end
  entrace run --console -- ./build.sh                    record the printed lines; no SDK is needed

run sets OpenTelemetry's environment variables for COMMAND, and records to one file. COMMAND is a span in it,
with its arguments and its exit status. If a program reads TRACEPARENT, its spans are below that span. A Go
program that uses entrace itself records to a second file, STEM.self.et.

With --console, run parses the lines that COMMAND prints as entrace parses log files, and records them as log
records.

Only COMMAND writes to the standard output, and run passes signals on to COMMAND. run exits as COMMAND does:
with 128 plus the number of a signal that ended it, 126 or 127 if it cannot be started, and 125 if run itself
fails.`,
		args: someArgs,
		flags: func(flags *pflag.FlagSet) {
			flags.SetInterspersed(false)
			flags.StringVarP(&f.output, "output", "o", "", "the file, by default COMMAND-PID.et with the id of this process")
			flags.StringVar(&f.protocol, "protocol", f.protocol, "the protocol that SDKs use: http/protobuf, http/json or grpc")
			flags.BoolVar(&f.console, "console", false, "record the lines that the command prints as log records")
			redactFlag(flags, &f.redact, "replace secrets in the recording")
			flags.BoolVar(&f.view, "view", false, "show the trace in the browser when the command has ended")
			flags.StringArrayVar(&f.against, "against", nil, "at the end, compare with the run in this `FILE`, as explain does")
			flags.BoolVar(&f.noConfigFile, "no-config-file", false, "unset OTEL_CONFIG_FILE, because SDKs with it ignore other variables")
		},
		run: func(ctx context.Context, c *console, args []string) error {
			if f.protocol != "http/protobuf" && f.protocol != "http/json" && f.protocol != "grpc" {
				return usagef("--protocol is %q: must be http/protobuf, http/json or grpc", f.protocol)
			}
			var err error
			f.policy, err = policyOf(f.redact)
			if err != nil {
				return err
			}
			return f.run(ctx, c, args)
		},
	}
}

// The exit codes of run if the command did not run to its end.
const (
	exitOwnFailure   = 125
	exitNotStartable = 126
	exitNotFound     = 127
	exitSignaled     = 128 // plus the number of the signal
)

func (f *runFlags) run(ctx context.Context, c *console, args []string) error {
	ctx = context.WithoutCancel(ctx) // signals go to the command, which may ignore them
	c = c.locked()
	r := &running{console: c, flags: f, args: args}
	if err := r.start(ctx); err != nil {
		return err
	}
	state, err := r.wait()
	r.end(ctx, state)
	if err != nil {
		return err
	}
	if code := statusOf(state); code != 0 {
		return &statusError{code: code}
	}
	return nil
}

// A running holds the command that run has started, and the server that records its spans.
type running struct {
	*console

	flags *runFlags
	args  []string

	listener net.Listener
	server   *receive.Server
	rec      *recorder.Recorder
	stop     context.CancelFunc
	served   chan error
	file     string // the trace

	cmd     *exec.Cmd
	span    otel.Span
	ref     format.SpanRef
	printed *consoleLog // nil without --console
	kills   int         // how many processes the kernel had killed for lack of memory when the command started
	signals chan os.Signal
	passing sync.WaitGroup // the goroutine that passes signals on to the command
	asked   int64          // when a signal first asked the command to end; 0: never
}

// passOn implements drainCommand.
func passOn() error {
	_, err := io.Copy(os.Stdout, os.Stdin)
	return err
}

// start opens the file and the port and starts the command.
func (r *running) start(ctx context.Context) (err error) {
	own := func(err error) error { return &statusError{exitOwnFailure, err} }
	r.file = r.flags.output
	if r.file == "" {
		r.file = fmt.Sprintf("%s-%d.et", tracename.FileName(filepath.Base(r.args[0])), os.Getpid())
	}
	path, err := exec.LookPath(r.args[0])
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return &statusError{exitNotFound, err}
	case err != nil:
		return &statusError{exitNotStartable, err}
	}
	r.listener, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil { //nolint:noctx // it does not wait
		return own(err)
	}
	collectAt(100) // each request allocates memory, and little of it stays in use
	r.rec, err = recorder.Create(r.file, &recorder.Options{
		Redact:  cmp.Or(r.flags.policy, redact.Off),
		OnError: func(err error) { r.tellOf(r.file, err) },
	})
	if err != nil {
		return own(errors.Join(err, r.listener.Close()))
	}
	r.server = receive.NewServer(receive.ToFile(r.rec), receive.Options{Local: true})
	serve, stop := context.WithCancel(ctx)
	r.stop, r.served = stop, make(chan error, 1)
	go func() { r.served <- r.server.Serve(serve, r.listener) }()

	r.begin()
	r.cmd = exec.Command(path, r.args[1:]...) //nolint:gosec,noctx // G204: it is what the user asks for; nothing ends it but itself
	r.cmd.Args[0] = r.args[0]
	r.cmd.Env = r.environment(os.Environ())
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if r.flags.console {
		r.printed = &consoleLog{rec: r.rec, ref: r.ref}
		stdout, err := r.printed.stream(os.Stdout, "stdout")
		stderr, err2 := r.printed.stream(os.Stderr, "stderr")
		if err := errors.Join(err, err2); err != nil {
			return own(err)
		}
		r.cmd.Stdout, r.cmd.Stderr = stdout, stderr
		defer r.printed.started()
	}
	r.kills = memoryKills()
	witness := newWitness()
	r.signals = make(chan os.Signal, 16)
	signal.Notify(r.signals, forwarded...)
	if err := r.cmd.Start(); err != nil {
		signal.Stop(r.signals)
		witness.close()
		r.end(ctx, nil)
		return &statusError{exitNotStartable, err}
	}
	r.passing.Go(func() {
		defer witness.close()
		for s := range r.signals {
			if r.asked == 0 && asksToEnd(s) {
				r.asked = time.Now().UnixNano()
			}
			if !witness.saw(s) {
				_ = r.cmd.Process.Signal(s) // the command may have ended just now
			}
		}
	})
	return nil
}

// asksToEnd reports whether a program that gets s is expected to send the remaining data of its SDK and then end.
func asksToEnd(s os.Signal) bool {
	return s == os.Interrupt || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// wait waits for the command.
func (r *running) wait() (*os.ProcessState, error) {
	err := r.cmd.Wait()
	if r.printed != nil {
		r.printed.finish()
	}
	signal.Stop(r.signals)
	close(r.signals)
	r.passing.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		err = nil
	}
	if err != nil {
		err = &statusError{exitOwnFailure, err}
	}
	return r.cmd.ProcessState, err
}

// statusOf returns the exit status that a shell reports for a process.
func statusOf(state *os.ProcessState) int {
	if n := signalOf(state); n > 0 {
		return exitSignaled + n
	}
	return state.ExitCode()
}

// environment returns the environment of the command. It is made from own, the environment of this process.
func (r *running) environment(own []string) []string {
	kept := make(map[string]string)
	for _, kv := range own {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") {
			kept[name] = value
		}
	}
	for _, name := range []string{"OTEL_CONFIG_FILE", "OTEL_EXPERIMENTAL_CONFIG_FILE"} {
		if kept[name] == "" {
			continue
		}
		if r.flags.noConfigFile {
			delete(kept, name)
			continue
		}
		r.say("SDKs read %s and ignore other variables: write the endpoint http://%s into that file, or use --no-config-file", name, r.listener.Addr())
	}
	self, err := filepath.Abs(r.self())
	if err != nil {
		self = r.self()
	}
	set := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.listener.Addr().String(),
		"OTEL_EXPORTER_OTLP_PROTOCOL": r.flags.protocol,
		"OTEL_EXPORTER_ENTRACE_PATH":  self,
		"OTEL_EXPORTER_ENTRACE_RUN":   "1",
		"TRACEPARENT":                 fmt.Sprintf("00-%x-%x-01", r.ref.TraceID, r.ref.SpanID),
	}
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none",
		"OTEL_BSP_SCHEDULE_DELAY": "500", "OTEL_BLRP_SCHEDULE_DELAY": "500",
	} {
		was := kept[name]
		if was == "" || was == "none" && value == "otlp" {
			set[name] = value
		}
	}
	maps.Copy(kept, set)
	list := make([]string, 0, len(kept))
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		list = append(list, name+"="+kept[name])
	}
	return list
}

// self returns the name of the file to which the command records if its own code uses this module.
func (r *running) self() string { return tracename.Base(r.file) + ".self.et" }

// begin records that the command starts.
func (r *running) begin() {
	rec := r.rec
	var parent format.SpanRef
	var flags uint32 = 1
	if up := os.Getenv("TRACEPARENT"); up != "" {
		parent, flags = parseTraceparent(up)
	}
	if parent.IsValid() {
		r.ref.TraceID = parent.TraceID
	} else {
		_, _ = rand.Read(r.ref.TraceID[:]) // Read never fails
	}
	_, _ = rand.Read(r.ref.SpanID[:])
	host, _ := os.Hostname() // "" if unknown
	resource := otel.Resource{Attributes: []otel.Attribute{
		otel.Text("service.name", mapping.RunService), otel.Text("host.name", host), otel.Number("process.pid", int64(os.Getpid())),
	}}
	res, err := rec.Resource(resource.Entry())
	r.tell(err)
	args := otel.Any{Kind: otel.List}
	for _, a := range r.args {
		args.List = append(args.List, otel.TextAny(a))
	}
	dir, _ := os.Getwd() // "" if unknown
	r.span = otel.Span{
		Name: filepath.Base(r.args[0]), TraceID: r.ref.TraceID, SpanID: r.ref.SpanID, Flags: flags, Kind: otel.KindInternal,
		Start: time.Now().UnixNano(), TraceState: os.Getenv("TRACESTATE"),
		Attributes: []otel.Attribute{otel.NewAttribute(mapping.AttrCommand, &args), otel.Text(mapping.AttrFolder, dir)},
	}
	if !parent.IsValid() {
		r.span.TraceState = ""
	}
	b := rec.Batch()
	b.Span(&recorder.Span{Ref: r.ref, Parent: parent, Remote: true, Resource: res, Time: r.span.Start, Open: true})
	r.span.Write(inside.OfBatch(b), otel.Where{Trace: true, Parent: true}, &r.span.Attributes)
	r.tell(b.Write())
}

// parseTraceparent reads a W3C traceparent header. It returns no parent if it does not understand the header.
func parseTraceparent(s string) (r format.SpanRef, flags uint32) {
	var version byte
	var trace, span []byte
	if len(s) < 55 {
		return r, 1
	}
	if n, err := fmt.Sscanf(s[:55], "%02x-%32x-%16x-%02x", &version, &trace, &span, &flags); err != nil || n != 4 || len(trace) != 16 || len(span) != 8 {
		return format.SpanRef{}, 1
	}
	copy(r.TraceID[:], trace)
	copy(r.SpanID[:], span)
	return r, flags & 0xff
}

// end records the end of the command, finishes the file and prints a summary.
func (r *running) end(ctx context.Context, state *os.ProcessState) {
	if r.printed != nil {
		r.printed.close()
	}
	rec := r.rec
	now := time.Now().UnixNano()
	end := r.span
	end.Ended, end.Duration, end.Attributes = true, now-r.span.Start, nil
	if state == nil {
		end.Status, end.Description = otel.StatusError, "the command cannot be started"
	} else {
		how := r.how(state)
		r.tell(r.completeSelf(how))
		end.Attributes = append(end.Attributes, otel.Number("process.pid", int64(state.Pid())), otel.Number("process.exit.code", int64(state.ExitCode())))
		if n := signalOf(state); n > 0 {
			end.Attributes = append(end.Attributes, otel.Text("process.exit.signal", syscall.Signal(n).String()))
		}
		if !state.Success() && r.asked == 0 { // if a signal stopped the command, that is not an error of the command
			end.Status, end.Description = otel.StatusError, how
		}
	}
	b := rec.Batch()
	b.EndSpan(r.ref, now)
	end.WriteEnd(inside.OfBatch(b), false, &end.Attributes)
	r.tell(b.Write())
	r.stop()
	r.tell(<-r.served)
	r.tellOf(format.Find(r.file), rec.Close(ctx))
	if state == nil {
		return
	}
	// An SDK that still sends after such a signal ends in an orderly way. A command that sent nothing has no SDK.
	n, last := signalOf(state), r.server.Last()
	if orderly := asksToEnd(syscall.Signal(n)) && r.asked > 0 && last > r.asked; n > 0 && last > 0 && !orderly {
		r.say("a signal ended the command: spans and log records that its SDK had not sent may be lost")
	}
	r.report(ctx)
}

// how says how the command ended.
func (r *running) how(state *os.ProcessState) string {
	text := state.String()
	if signalOf(state) == int(syscall.SIGKILL) && memoryKills() > r.kills {
		text += ", and the kernel has killed a process for lack of memory"
	}
	return text
}

// completeSelf adds how the command ended to the file to which the command recorded itself, if the command did not
// finish the file, and the runtime wrote no crash text.
func (r *running) completeSelf(how string) error {
	stream := tracename.Stream(r.self())
	if lock, _ := osfile.LockHolder(stream); lock != osfile.LockFree || deadtrace.IsFinished(stream) {
		return nil // there is no such file, or another process writes it
	}
	return crashtext.Add(stream+crashtext.Ext, filepath.Base(r.args[0])+": "+how)
}

// memoryKills returns how many processes the kernel has killed for lack of memory since the start of the machine, or
// 0 if it does not say.
func memoryKills() (n int) {
	b, _ := os.ReadFile("/proc/vmstat") // only Linux has it
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "oom_kill %d", &n); err == nil {
			break
		}
	}
	return n
}

// report prints a summary of the trace to stderr. Depending on the flags, it also compares the trace and shows it.
func (r *running) report(ctx context.Context) {
	own := r.to(r.err)
	names := []string{format.Find(r.file)} // the files that the run has written
	self := format.Find(r.self())
	if _, err := os.Stat(self); err == nil {
		names = append(names, self)
	}
	r.tell(topLines(ctx, own, names))
	if n := r.server.Metrics(); n > 0 {
		r.say("%s with metrics ignored: only spans and log records are recorded", plural(int(n), "request"))
	}
	if len(r.flags.against) > 0 {
		var b strings.Builder
		o := explainOptions{rowFlags: rowFlags{time: timeLocal, inputFlags: inputFlags{corrects: true}}, against: r.flags.against}
		r.tell(o.run(ctx, r.to(&b), names))
		_, verdict, _ := strings.Cut(b.String(), "\n\n") // below the title
		lines := slices.Collect(strings.FieldsFuncSeq(verdict, func(c rune) bool { return c == '\n' }))
		for _, line := range lines[:min(len(lines), againstLines)] {
			_, _ = fmt.Fprintln(r.err, line) // stderr may be closed
		}
	}
	if r.flags.view {
		shown, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		o := viewOptions{listen: "127.0.0.1:0"}
		err := o.run(shown, own, names)
		if shown.Err() == nil {
			r.tell(err)
		}
	}
}

// againstLines is the maximum number of lines that --against prints.
const againstLines = 3

// topLines prints a summary like that of top, in at most five lines.
func topLines(ctx context.Context, c *console, names []string) error {
	o := &rowFlags{time: timeLocal}
	l, err := openRows(ctx, c, names, o)
	if err != nil {
		return err
	}
	defer l.Close()
	found, err := analyze.Top(ctx, l.v, l.result.Rows, 2, nil)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%s: %s, %s", strings.Join(names, " "), plural(found.Spans, "span"), plural(found.Logs, "log record"))
	if found.Errors > 0 {
		title += ", " + failures(found)
	}
	c.say("%s", title)
	if found.Spans == 1 && found.Logs == 0 {
		c.say("no OpenTelemetry SDK has sent anything; --console records the lines that the command prints")
	}
	for _, p := range found.Patterns[:min(1, len(found.Patterns))] {
		c.say("most frequent error: %s, %s", p.Pattern, plural(p.Count, "time"))
	}
	for _, row := range found.NeverEnded[:min(1, len(found.NeverEnded))] {
		c.say("never ended: %s", l.v.Name(row))
	}
	t := found.Self
	if found.Spans > 1 {
		name, n, self := slices.Index(t.Columns, "name"), slices.Index(t.Columns, "count"), slices.Index(t.Columns, "self")
		x := t.Lines[0]
		c.say("most self time: %s, of %s (count %s)", cell(x[self], o.time), cell(x[name], o.time), cell(x[n], o.time))
	}
	c.say("'entrace view %s' shows it", strings.Join(names, " "))
	return nil
}
