package exporter

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
)

// The variables, as the package documentation describes them.
const (
	envTracesExporter = "OTEL_TRACES_EXPORTER"
	envPath           = "OTEL_EXPORTER_ENTRACE_PATH"
	envFormat         = "OTEL_EXPORTER_ENTRACE_FORMAT"
	envVersion        = "OTEL_EXPORTER_ENTRACE_VERSION"
	envBufferDir      = "OTEL_EXPORTER_ENTRACE_BUFFER_DIR"
	envMode           = "OTEL_EXPORTER_ENTRACE_MODE"
	envDurability     = "OTEL_EXPORTER_ENTRACE_DURABILITY"
	envMaxFileSize    = "OTEL_EXPORTER_ENTRACE_MAX_FILE_SIZE"
	envMaxAge         = "OTEL_EXPORTER_ENTRACE_MAX_AGE"
	envKeep           = "OTEL_EXPORTER_ENTRACE_KEEP"
	envWaitingSpans   = "OTEL_EXPORTER_ENTRACE_WAITING_SPANS"
	envWaitingBytes   = "OTEL_EXPORTER_ENTRACE_WAITING_BYTES"
	envWaitingAge     = "OTEL_EXPORTER_ENTRACE_WAITING_AGE"
	envEndpoint       = "OTEL_EXPORTER_ENTRACE_ENDPOINT"
	envToken          = "OTEL_EXPORTER_ENTRACE_TOKEN" //nolint:gosec // the name of one
	envDisabled       = "OTEL_SDK_DISABLED"
	envPropagators    = "OTEL_PROPAGATORS"
)

const defaultPath = "{service}-{pid}.et"

// lookup returns a variable; an empty one is unset.
func lookup(name string) (string, bool) {
	s := strings.TrimSpace(os.Getenv(name))
	return s, s != ""
}

func reportValue(name, value string, err error) {
	report(fmt.Errorf("exporter: %s=%q is ignored: %w", name, value, err))
}

// environment sets what options left open.
func (c *config) environment() {
	if s, ok := lookup(envPath); ok && c.path == "" {
		path, err := filePath(s)
		if err != nil {
			reportValue(envPath, s, err)
		}
		c.path = path
	}
	if c.path == "" {
		c.path = defaultPath
	}
	o := &c.recording
	if s, ok := lookup(envFormat); ok && !o.Format.Valid {
		f, err := format.ParseStorageFormat(s)
		if err == nil && f == format.IETPrefix {
			err = fmt.Errorf("neither et nor iet")
		}
		if err != nil {
			reportValue(envFormat, s, err)
		} else {
			o.Format = format.Some(f)
		}
	}
	if s, ok := lookup(envVersion); ok && o.Version == 0 {
		v, err := format.ParseVersion(s)
		if err != nil {
			reportValue(envVersion, s, err)
		}
		o.Version = v
	}
	if s, ok := lookup(envDurability); ok && !c.durable {
		d, err := format.ParseDurability(s)
		if err != nil {
			reportValue(envDurability, s, err)
		}
		o.Durability = d
	}
	if s, ok := lookup(envBufferDir); ok && o.BufferDir == "" {
		o.BufferDir = s
	}
	number(envMaxFileSize, &o.MaxFileSize)
	milliseconds(envMaxAge, &o.MaxFileAge)
	number(envKeep, &o.KeepFiles)
	number(envWaitingSpans, &o.MaxWaitingSpans)
	number(envWaitingBytes, &o.MaxWaitingBytes)
	milliseconds(envWaitingAge, &o.MaxWaitingAge)
	c.endpointEnvironment()
}

// number sets what is zero to a variable that is a number above zero.
func number[T int | int64](name string, to *T) {
	s, ok := lookup(name)
	if !ok || *to != 0 {
		return
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
	case n < 0 || int64(T(n)) != n:
		err = strconv.ErrRange
	default:
		*to = T(n)
		return
	}
	reportValue(name, s, err)
}

// milliseconds is number for a time.
func milliseconds(name string, to *time.Duration) {
	var n int64
	if *to != 0 {
		return
	}
	if number(name, &n); n > math.MaxInt64/int64(time.Millisecond) {
		reportValue(name, strconv.FormatInt(n, 10), strconv.ErrRange)
		return
	}
	*to = time.Duration(n) * time.Millisecond
}

// setupEnvironment sets what only Setup needs.
func (c *config) setupEnvironment() {
	c.environment()
	if s, ok := lookup(envMode); ok && c.mode == "" {
		switch m := Mode(strings.ToLower(s)); m {
		case ModeLive, ModeBatch:
			c.mode = m
		default:
			reportValue(envMode, s, fmt.Errorf("neither live nor batch"))
		}
	}
	switch c.mode {
	case "":
		c.mode = ModeLive
	case ModeLive, ModeBatch:
	default:
		report(fmt.Errorf("exporter: mode %q is ignored: neither live nor batch", c.mode))
		c.mode = ModeLive
	}
}

// disabled reports whether OTEL_SDK_DISABLED says so.
func disabled() bool {
	s, ok := lookup(envDisabled)
	switch {
	case !ok || strings.EqualFold(s, "false"):
		return false
	case strings.EqualFold(s, "true"):
		return true
	}
	reportValue(envDisabled, s, fmt.Errorf("neither true nor false"))
	return false
}

// list returns the members of a comma list, each once.
func list(s string) []string {
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

// filePath returns the path that s is or, as a file:// URL, names.
func filePath(s string) (string, error) {
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

// expand fills in the placeholders of a path.
func expand(path, service string) string {
	return strings.NewReplacer(
		"{service}", fileName(service),
		"{pid}", strconv.Itoa(os.Getpid()),
		"{time}", started.UTC().Format("20060102T150405Z"),
	).Replace(path)
}

// fileName makes s safe as a part of a file's name: what is not a letter, a
// digit or one of ._- becomes %XX. Different names stay different: long ones end
// in a hash.
func fileName(s string) string {
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
