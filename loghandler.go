package entrace

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/slogadapter"
)

// LogHandler returns a handler that writes each log record to the recorder and then passes it to console. The caller
// waits for console, but the record is recorded before console gets it. If nothing can be recorded, LogHandler returns
// console itself. A nil console means text on stderr. From then on, the warnings and notices of this module, for
// example about a full disk, also go to console, at level WARN or INFO and with the prefix "entrace: ". They are never
// recorded.
//
// If the handler becomes slog's default, it also gets the lines of package log. The lines of log.Fatal and log.Panic,
// and the lines of net/http about handlers that panicked, are recorded at level ERROR, with their stack. The text of
// log.Fatal is the reason why the program ended.
//
// The handler console must not pass records to the default handler that slog has when a program
// starts. That default handler writes through package log. Package log would pass the records to the
// new handler again, while it holds its own lock, and wait for ever. If console is the default
// handler, or a struct that contains it, LogHandler writes text to stderr instead.
//
// The recorder gets records of the level in OTEL_EXPORTER_ENTRACE_LEVEL and of higher levels. The
// default is INFO, or DEBUG with a flight recorder. The handler console uses its own level.
func (p *Pipeline) LogHandler(console slog.Handler) slog.Handler {
	if console == nil || hasDefaultHandler(reflect.ValueOf(console), maxHandlers) {
		console = notice.Stderr()
	}
	notice.SetConsole(console)
	r := p.Recorder()
	if r.Discards() {
		return console
	}
	// The recorder is first in the list, so that no record is lost if the console blocks or panics.
	h := slogadapter.New(r, &slogadapter.Options{Level: p.level})
	places := log.Flags()&(log.Lshortfile|log.Llongfile) != 0
	return &logHandler{slog.NewMultiHandler(h, console), h, console, inside.Of(r).RedactedText, places}
}

// hasDefaultHandler reports whether v is the handler that slog has when a program starts, or a handler or a logger
// that has it in a field. It follows at most depth nested handlers.
func hasDefaultHandler(v reflect.Value, depth int) bool {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if depth == 0 || !v.IsValid() || !v.Type().Implements(reflect.TypeFor[slog.Handler]()) && v.Type() != reflect.TypeFor[*slog.Logger]() {
		return false
	}
	if v.Type().String() == "*slog.defaultHandler" {
		return true
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct {
		for _, field := range v.Fields() {
			if hasDefaultHandler(field, depth-1) {
				return true
			}
		}
	}
	return false
}

const maxHandlers = 8

// A logHandler passes log records to the recorder and then to the console. It recognizes records that
// come through package log.
type logHandler struct {
	slog.Handler // recorder and console

	recorder, console slog.Handler
	text              func(string) string // replaces secrets
	places            bool                // records of package log have a program counter
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.NumAttrs() > 0 || r.PC != 0 && !h.places {
		return h.Handler.Handle(ctx, r)
	}
	by, caller := outside("log.")
	message, stack := r.Message, ""
	_, served := ring.ServedPanic(message)
	fatal := strings.Contains(by, "Fatal")
	switch {
	case served:
		if i := strings.Index(message, "\ngoroutine "); i >= 0 {
			message, stack = message[:i], stackBelow("panic(", message[i+1:])
		}
		_, caller = outside("runtime.")
	case fatal, strings.Contains(by, "Panic"):
		stack = stackBelow("log.", string(debug.Stack()))
	default:
		return h.Handler.Handle(ctx, r)
	}
	var err error
	if h.recorder.Enabled(ctx, slog.LevelError) && (!fatal || !crashtext.Fatal(h.text(message), stack)) {
		e := slog.NewRecord(r.Time, slog.LevelError, message, caller.PC)
		e.AddAttrs(slog.String("exception.stacktrace", stack))
		err = h.recorder.Handle(ctx, e)
	}
	if h.console.Enabled(ctx, r.Level) {
		err = errors.Join(err, h.console.Handle(ctx, r))
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(h.recorder.WithAttrs(attrs), h.console.WithAttrs(attrs))
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return h.with(h.recorder.WithGroup(name), h.console.WithGroup(name))
}

func (h *logHandler) with(recorder, console slog.Handler) slog.Handler {
	return &logHandler{slog.NewMultiHandler(recorder, console), recorder, console, h.text, h.places}
}

// outside looks in the stack of this goroutine for calls of functions whose names begin with prefix. The result
// function is the name of the outermost such function, and caller is the function that called it. The PC of caller is
// as in slog.Record.
func outside(prefix string) (function string, caller runtime.Frame) {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for more := true; more; {
		caller, more = frames.Next()
		if strings.HasPrefix(caller.Function, prefix) {
			function = caller.Function
		} else if function != "" {
			caller.PC++ // slog.Record has the PC after the call, Frame the PC of the call
			return function, caller
		}
	}
	return "", runtime.Frame{}
}

// stackBelow returns a stack without the functions whose names begin with prefix and without the functions that they
// called.
func stackBelow(prefix, stack string) string {
	i := strings.LastIndex(stack, "\n"+prefix)
	if i < 0 {
		return stack
	}
	head, _, _ := strings.Cut(stack, "\n")
	lines := strings.SplitN(stack[i+1:], "\n", 3) // the call, its place, and the rest
	return head + "\n" + lines[len(lines)-1]
}
