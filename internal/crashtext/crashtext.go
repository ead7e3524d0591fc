// Package crashtext keeps what the runtime writes when the process dies: why, and the stacks.
package crashtext

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/osfile"
)

// Ext is added to the name of a file for the text of its process.
const Ext = ".crash"

// maxSize is how much of what the runtime wrote is kept.
const maxSize = 1 << 20

// An Output is where the runtime writes when the process dies.
type Output struct{ name string }

// Open has the runtime write to the file name, which must not exist, in place of what was set
// before.
func Open(name string) (*Output, error) {
	f, err := osfile.CreateNew(name)
	if err != nil {
		return nil, err
	}
	err = errors.Join(debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close()) // it has a descriptor of its own
	if err != nil {
		return nil, errors.Join(err, os.Remove(name))
	}
	return &Output{name}, nil
}

// Close ends that, and removes the file. A nil Output has none.
func (o *Output) Close() {
	if o == nil {
		return
	}
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{}) // which cannot fail
	_ = os.Remove(o.name)                               // an empty one is removed by the next
}

// Read returns what the runtime wrote to the file name when the process died, if anything, and
// when.
func Read(name string) (text string, at time.Time, err error) {
	f, err := osfile.OpenWrite(name) // which follows no link
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, osfile.ErrNotRegular) {
		return "", time.Time{}, nil // the runtime wrote nothing there
	}
	if err != nil { // it is another's, or the file system is read only
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
	return strings.ToValidUTF8(strings.TrimSpace(string(b)), "\uFFFD"), fi.ModTime(), nil
}

// Reason returns the first line of a text. Of a fatal error of its own the runtime writes the
// name elsewhere, before it writes where that was.
func Reason(text string) string {
	first, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(first, "goroutine ") {
		return first
	}
	where, _, _ := strings.Cut(rest, "\n")
	return "fatal error of the runtime in " + where
}

// The goroutine that is told of first, which runs, with its labels: the runtime writes them if
// GODEBUG has tracebacklabels=1.
var (
	firstGoroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*$`)
	runningLabels  = regexp.MustCompile(`^goroutine \d+ [^\[]*\[running.* labels:(\{.*\})\]:$`)
	traceLabel     = regexp.MustCompile(`[{ ]"trace_id": "([0-9a-f]{32})"`)
	spanLabel      = regexp.MustCompile(`[{ ]"span_id": "([0-9a-f]{16})"`)
)

// Span returns the ids of the span whose work the goroutine did that ended the process by a panic
// or a fatal error, in hexadecimal digits; "" if the text does not say.
func Span(text string) (trace, span string) {
	if !strings.HasPrefix(text, "panic: ") && !strings.HasPrefix(text, "fatal error: ") && !strings.HasPrefix(text, "goroutine ") {
		return "", "" // a signal, which any goroutine may get
	}
	m := runningLabels.FindStringSubmatch(firstGoroutine.FindString(text))
	if m == nil {
		return "", ""
	}
	t, s := traceLabel.FindStringSubmatch(m[1]), spanLabel.FindStringSubmatch(m[1])
	if t == nil || s == nil {
		return "", ""
	}
	return t[1], s[1]
}
