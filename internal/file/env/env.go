// Package env reads environment variables by the rules of OpenTelemetry's specification, and fills in the
// placeholders in names of trace files.
package env

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/text/quantity"
)

// Lookup returns the value of a variable. An empty variable counts as unset.
func Lookup(name string) (string, bool) {
	s := strings.TrimSpace(os.Getenv(name))
	return s, s != ""
}

// ReportValue reports on the console that a variable is ignored because of err.
func ReportValue(name, value string, err error) {
	notice.Error(fmt.Errorf("entrace: %s=%q is ignored: %w", name, value, err))
}

// Value sets *to to the value of a variable, and returns true. If the variable is unset or invalid, it returns false.
// It calls bad with an invalid value.
func Value[T any](name string, to *T, parse func(s string) (T, error), bad func(name, value string, err error)) bool {
	s, ok := Lookup(name)
	if !ok {
		return false
	}
	v, err := parse(s)
	if err != nil {
		bad(name, s, err)
		return false
	}
	*to = v
	return true
}

// Text returns s. It is for [Value].
func Text(s string) (string, error) { return s, nil }

// Number parses a number of at least 0.
func Number[T int | int64](s string) (T, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		err = errors.New("must be a whole number")
	case n < 0 || int64(T(n)) != n:
		err = strconv.ErrRange
	}
	return T(n), err
}

// Bytes parses a size such as 1000000, 10MB or 64MiB.
func Bytes[T int | int64](s string) (T, error) {
	n, err := quantity.ParseBytes(s)
	if err == nil && int64(T(n)) != n {
		err = quantity.ErrRange
	}
	return T(n), err
}

// Duration parses a time of at least 0, in milliseconds or with a unit.
func Duration(s string) (time.Duration, error) {
	d, err := quantity.ParseTime(s)
	if err == nil && d < 0 {
		err = quantity.ErrRange
	}
	return d, err
}

// List returns the members of a comma-separated list, without duplicates.
func List(s string) []string {
	var names []string
	seen := make(map[string]bool)
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		if name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// Path returns s, or the path in s if s is a file:// URL.
func Path(s string) (string, error) {
	if len(s) < 5 || !strings.EqualFold(s[:5], "file:") {
		return s, nil
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", err
	}
	switch {
	case u.Host != "" && u.Host != "localhost":
		return "", fmt.Errorf("the URL names a file on another host, %s", u.Host)
	case u.Opaque != "": // file:app.et
		return url.PathUnescape(u.Opaque)
	case u.Path == "" || u.Path == "/":
		return "", fmt.Errorf("the URL has no path")
	}
	path := u.Path
	if runtime.GOOS == "windows" && len(path) > 2 && path[2] == ':' {
		path = path[1:] // file:///C:/app.et
	}
	return filepath.FromSlash(path), nil
}

// started is roughly the time when the process started.
var started = time.Now()

// Expand replaces placeholders in a path: {service} by the name of the service, made safe for a file name; {pid} by
// the process id; and {time} by the UTC time when the process started.
func Expand(path, service string) string {
	return strings.NewReplacer(
		"{service}", tracename.FileName(service),
		"{pid}", strconv.Itoa(os.Getpid()),
		"{time}", started.UTC().Format("20060102T150405Z"),
	).Replace(path)
}

// unique matches the part that tracename.Unique adds to a name.
const unique = `(\.[0-9A-Za-z._%~-]+-` + pid + `-[0-9a-f]{8})?`

// Family returns a pattern for the file names, without extensions, that a service makes from the template path. It
// returns nil if such names do not show the service. An example is a template with {pid} but without {service}: a
// file with another process id may belong to another service.
func Family(path, service string) *regexp.Regexp {
	dir, base := filepath.Split(path)
	base = strings.TrimSuffix(base, filepath.Ext(base))
	own := strings.Contains(path, "{service}")
	base = strings.ReplaceAll(base, "{service}", tracename.FileName(service))
	s := regexp.QuoteMeta(base)
	for placeholder, is := range map[string]string{"{pid}": pid, "{time}": `\d{8}T\d{6}Z`} {
		if strings.Contains(dir, placeholder) || !own && strings.Contains(base, placeholder) {
			return nil // the folder depends on the process, or the name does not show the service
		}
		s = strings.ReplaceAll(s, regexp.QuoteMeta(placeholder), is)
	}
	return regexp.MustCompile("^" + s + unique + "$")
}

// pid matches a process id, but not a date, which has eight digits.
const pid = `\d{1,7}`
