// Package crashtext saves the text that the Go runtime writes when the process dies: the reason and the
// stacks of the goroutines.
package crashtext

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/redact"
)

// Ext is the extension that is added to the name of a trace file for the crash text of its process.
const Ext = ".crash"

// maxSize is the largest number of bytes that Read returns.
const maxSize = 1 << 20

// An Output is the file to which the Go runtime writes the crash text of this process.
type Output struct{ name string }

// current is the output of this process, or nil.
var current atomic.Pointer[Output]

// logFatal begins the crash text of a process that log.Fatal ended.
const logFatal = "log.Fatal: "

// Fatal writes the crash text of a process that log.Fatal is about to end. It returns false if the process has no
// output. The stack is that of the calling goroutine, as the runtime formats it.
func Fatal(message, stack string) bool {
	o := current.Load()
	if o == nil {
		return false
	}
	return Add(o.name, logFatal+message+"\n\n"+stack) == nil
}

// Add writes a text that says how a process ended to the file called name, unless the file has a text already.
func Add(name, text string) error {
	f, err := osfile.OpenWrite(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = osfile.CreateNew(name)
	}
	if err != nil {
		return err
	}
	if fi, serr := f.Stat(); serr != nil || fi.Size() > 0 {
		return errors.Join(serr, f.Close())
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Open makes the runtime write its crash text to a new file called name, which must not exist. It replaces an
// earlier crash output.
func Open(name string) (*Output, error) {
	f, err := osfile.CreateNew(name)
	if err != nil {
		return nil, err
	}
	err = errors.Join(debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close()) // the runtime has its own descriptor
	if err != nil {
		return nil, errors.Join(err, os.Remove(name))
	}
	o := &Output{name}
	current.Store(o)
	return o, nil
}

// Close ends the crash output and removes the file. On a nil Output it does nothing.
func (o *Output) Close() {
	if o == nil {
		return
	}
	current.CompareAndSwap(o, nil)
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{}) // cannot fail
	_ = os.Remove(o.name)                               // if this fails, a later process removes the empty file
}

// Read returns the crash text in the file called name, and when it was written. The text begins with the reason. The time
// may be some milliseconds late, because the kernel uses a coarse clock for it. If the file does not exist or the
// runtime wrote nothing, the text is empty. Read replaces secrets by the default policy of package redact, because
// it does not know the policy of the dead process.
func Read(name string) (text string, at time.Time, err error) {
	f, err := osfile.OpenWrite(name) // OpenWrite does not follow symbolic links
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, osfile.ErrNotRegular) {
		return "", time.Time{}, nil // the runtime cannot have written to it
	}
	if err != nil { // another user's file, or a read-only file system
		f, err = osfile.OpenRead(name)
	}
	if err != nil {
		return "", time.Time{}, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxSize))
	if err != nil {
		return "", time.Time{}, err
	}
	fi, err := f.Stat()
	if err != nil {
		return "", time.Time{}, err
	}
	text = strings.ToValidUTF8(strings.TrimSpace(string(b)), "\uFFFD")
	if first, _, _ := strings.Cut(text, "\n"); startsWithStack(first) {
		text = Reason(text) + "\n\n" + text
	}
	return redact.New(redact.Default(), nil).Text(text), fi.ModTime(), nil
}

// These expressions match the first goroutine of a crash text, which is the one that was running, and its labels.
// The runtime writes labels if GODEBUG has tracebacklabels=1.
var (
	firstGoroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*$`)
	runningLabels  = regexp.MustCompile(`^goroutine \d+ [^\[]*\[running.* labels:(\{.*\})\]:$`)
	traceLabel     = regexp.MustCompile(`[{ ]"trace_id": "([0-9a-f]{32})"`)
	spanLabel      = regexp.MustCompile(`[{ ]"span_id": "([0-9a-f]{16})"`)
)

// Span returns the trace id and the span id, in hexadecimal digits, from the labels of the goroutine that ended the
// process by a panic or a fatal error. If the text has no such labels, they are "".
func Span(text string) (trace, span string) {
	if !namesGoroutine(text) && !strings.HasPrefix(text, "goroutine ") {
		return "", ""
	}
	m := runningLabels.FindStringSubmatch(firstGoroutine.FindString(text))
	if m == nil {
		return "", ""
	}
	return idsIn(m[1])
}

// namesGoroutine reports whether the first stack of a text is that of the goroutine that ended the process. A signal
// may have come to any goroutine.
func namesGoroutine(text string) bool {
	return strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") || strings.HasPrefix(text, logFatal)
}

// idsIn returns the ids in the labels of a goroutine, or "" if the labels do not name a span.
func idsIn(labels string) (trace, span string) {
	t, s := traceLabel.FindStringSubmatch(labels), spanLabel.FindStringSubmatch(labels)
	if t == nil || s == nil {
		return "", ""
	}
	return t[1], s[1]
}
