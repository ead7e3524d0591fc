// Package env reads environment variables as OpenTelemetry's specification has them, and
// makes the names of files that they ask for.
package env

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/notice"
	"github.com/entrace-go/entrace/internal/quantity"
)

// Lookup returns a variable; an empty one is unset.
func Lookup(name string) (string, bool) {
	s := strings.TrimSpace(os.Getenv(name))
	return s, s != ""
}

// ReportValue tells the user of a variable that is not understood.
func ReportValue(name, value string, err error) {
	notice.Error(fmt.Errorf("entrace: %s=%q is ignored: %w", name, value, err))
}

var errNumber = errors.New("want a whole number")

// Number sets what is zero to a variable that is a number not below zero, and reports whether
// the variable is set and understood.
func Number[T int | int64](name string, to *T) bool {
	s, ok := Lookup(name)
	if !ok || *to != 0 {
		return false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		err = errNumber
	case n < 0 || int64(T(n)) != n:
		err = strconv.ErrRange
	default:
		*to = T(n)
		return true
	}
	ReportValue(name, s, err)
	return false
}

// Bytes is Number for a size, such as 1000000, 10MB or 64MiB.
func Bytes[T int | int64](name string, to *T) bool {
	s, ok := Lookup(name)
	if !ok || *to != 0 {
		return false
	}
	n, err := quantity.ParseBytes(s)
	if err == nil && int64(T(n)) != n {
		err = quantity.ErrRange
	}
	if err != nil {
		ReportValue(name, s, err)
		return false
	}
	*to = T(n)
	return true
}

// Duration is Number for a time: milliseconds, or one with a unit.
func Duration(name string, to *time.Duration) bool {
	s, ok := Lookup(name)
	if !ok || *to != 0 {
		return false
	}
	d, err := quantity.ParseTime(s)
	if err == nil && d < 0 {
		err = quantity.ErrRange
	}
	if err != nil {
		ReportValue(name, s, err)
		return false
	}
	*to = d
	return true
}

// List returns the members of a comma list, each once.
func List(s string) []string {
	var names []string
	seen := make(map[string]bool)
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// Path returns the path that s is or, as a file:// URL, names.
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
		return "", fmt.Errorf("the file is on host %s", u.Host)
	case u.Opaque != "": // file:app.et
		return url.PathUnescape(u.Opaque)
	case u.Path == "" || u.Path == "/":
		return "", fmt.Errorf("no path")
	}
	path := u.Path
	if runtime.GOOS == "windows" && len(path) > 2 && path[2] == ':' {
		path = path[1:] // file:///C:/app.et
	}
	return filepath.FromSlash(path), nil
}

// started is about when the process did.
var started = time.Now()

// Expand fills in the placeholders of a path: {service}, made safe for a file's name,
// {pid} and {time}, when the process started, in UTC.
func Expand(path, service string) string {
	return strings.NewReplacer(
		"{service}", FileName(service),
		"{pid}", strconv.Itoa(os.Getpid()),
		"{time}", started.UTC().Format("20060102T150405Z"),
	).Replace(path)
}

// Unique returns path with something in its name that no other process has: host, process id
// and a random part.
func Unique(path string) string {
	//nolint:gosec // G404: it is to be another one, not a secret
	random := rand.Uint32()
	host, _ := os.Hostname() // without one the rest has to do
	host, _, _ = strings.Cut(host, ".")
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%s-%d-%08x%s", strings.TrimSuffix(path, ext), FileName(cmp.Or(host, "host")), os.Getpid(), random, ext)
}

// unique matches what Unique adds.
const unique = `(\.[0-9A-Za-z._%~-]+-` + pid + `-[0-9a-f]{8})?`

// Family returns what matches the names, without extensions, that a service gives its files by
// the template path, nil if such names do not tell services apart: without {service} there may
// be those of others with other process ids.
func Family(path, service string) *regexp.Regexp {
	dir, base := filepath.Split(path)
	base = strings.TrimSuffix(base, filepath.Ext(base))
	own := strings.Contains(path, "{service}")
	base = strings.ReplaceAll(base, "{service}", FileName(service))
	s := regexp.QuoteMeta(base)
	for placeholder, is := range map[string]string{"{pid}": pid, "{time}": `\d{8}T\d{6}Z`} {
		if strings.Contains(dir, placeholder) || !own && strings.Contains(base, placeholder) {
			return nil // in such a folder each process is alone
		}
		s = strings.ReplaceAll(s, regexp.QuoteMeta(placeholder), is)
	}
	return regexp.MustCompile("^" + s + unique + "$")
}

// pid matches a process id, and no date.
const pid = `\d{1,7}`

// unknownService begins the name that OpenTelemetry gives a service without one; the program's
// follows.
const unknownService = "unknown_service:"

// FileName makes s safe as a part of a file's name: what is not a letter, a digit or one of
// ._- becomes %XX. Different names stay different: long ones end in a hash.
func FileName(s string) string {
	if program, ok := strings.CutPrefix(s, unknownService); ok && program != "" {
		s = strings.TrimSuffix(program, ".exe")
	}
	if s == "" {
		return "unknown_service"
	}
	var b strings.Builder
	device := isDevice(s)
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		digit := c >= '0' && c <= '9'
		if letter && (i > 0 || !device) || digit || c == '_' || c == '-' || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) <= maxFileName {
		return name
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))               // it never fails
	sum := fmt.Sprintf("~%016x", h.Sum64()) // "~" is in no shorter name
	return name[:maxFileName-len(sum)] + sum
}

const maxFileName = 100

// isDevice reports whether Windows takes a file of that name for a device.
func isDevice(s string) bool {
	s, _, _ = strings.Cut(strings.ToUpper(s), ".")
	switch s {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	return len(s) == 4 && (strings.HasPrefix(s, "COM") || strings.HasPrefix(s, "LPT")) && s[3] >= '0' && s[3] <= '9'
}
