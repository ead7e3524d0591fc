package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/env"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// The environment variables. The comment of each one is its row in docs/environment.md: default | meaning.
const (
	// `{service}-{pid}.et` | the file, or a folder (`traces/`) for a file with the default name;
	// `{service}`, `{pid}` and `{time}` are replaced; `none`: no file.
	envPath = "OTEL_EXPORTER_ENTRACE_PATH"

	// by the extension, else `et` | `et` or `iet`: the file that Shutdown leaves.
	envFormat = "OTEL_EXPORTER_ENTRACE_FORMAT"

	// `1` | `1` or `2`: the version of ENTRACE's file format.
	envVersion = "OTEL_EXPORTER_ENTRACE_VERSION"

	// shared memory, or beside the file | the folder of the crash buffer, which keeps the newest
	// records of a killed process.
	envBufferDir = "OTEL_EXPORTER_ENTRACE_BUFFER_DIR"
	envMode      = "OTEL_EXPORTER_ENTRACE_MODE"

	// `process` | which crashes a recording survives: `process`, `writethrough`, `power`
	// ([durability.md](durability.md)).
	envDurability = "OTEL_EXPORTER_ENTRACE_DURABILITY"

	// `256MiB` | a new file begins when a file has this size; `0`: no limit.
	envMaxFileSize = "OTEL_EXPORTER_ENTRACE_MAX_FILE_SIZE"

	// `0` | a new file begins when a file has this age; `0`: no limit.
	envMaxAge = "OTEL_EXPORTER_ENTRACE_MAX_AGE"

	// `50` | when a new file begins, the oldest finished files of the service are removed until this number
	// is left; the new file does not count.
	envKeep = "OTEL_EXPORTER_ENTRACE_KEEP"

	// `2GiB` | when a new file begins, the oldest finished files are removed until the rest have at most this
	// size in all.
	envKeepBytes = "OTEL_EXPORTER_ENTRACE_KEEP_BYTES"

	// `default` | which secrets are replaced: `default`, `off`, or a file with a policy
	// ([redaction.md](redaction.md)).
	envRedact = "OTEL_EXPORTER_ENTRACE_REDACT"

	// `16384` | how many spans may wait until their parents are recorded.
	envWaitingSpans = "OTEL_EXPORTER_ENTRACE_WAITING_SPANS"

	// `64MiB` | the maximum size of the waiting spans.
	envWaitingBytes = "OTEL_EXPORTER_ENTRACE_WAITING_BYTES"

	// `60s` | the maximum time that a span waits.
	envWaitingAge = "OTEL_EXPORTER_ENTRACE_WAITING_AGE"
	envEndpoint   = "OTEL_EXPORTER_ENTRACE_ENDPOINT"
	envControl    = "OTEL_EXPORTER_ENTRACE_CONTROL"
)

// Variables returns the names of the variables that [Resolve] reads. They begin with
// OTEL_EXPORTER_ENTRACE_.
func Variables() []string {
	return []string{
		envPath, envFormat, envVersion, envBufferDir, envDurability, envMaxFileSize, envMaxAge, envKeep, envKeepBytes, envRedact,
		envWaitingSpans, envWaitingBytes, envWaitingAge,
	}
}

const defaultPath = "{service}-{pid}.et"

// defaultMaxFileSize is large because each new file repeats the open spans. It is small compared with
// retain.DefaultBytes.
const defaultMaxFileSize = 256 << 20

// environment sets the settings that no option has set, from the environment.
func (s *Settings) environment() {
	if v, ok := env.Lookup(envPath); ok && s.Path == "" {
		path, err := env.Path(v)
		if err != nil {
			env.ReportValue(envPath, v, err)
		}
		if isFolder(path) {
			path = filepath.Join(path, defaultPath)
		}
		s.Path, s.fromEnv = path, true
		oddPath(path)
	}
	if s.Path == "" {
		s.Path = defaultPath
	}
	o := &s.Recording
	if v, ok := env.Lookup(envFormat); ok && !o.Format.Valid {
		f, err := format.ParseStorageFormat(v)
		if err == nil && f == format.IETPrefix {
			err = fmt.Errorf("must be et or iet")
		}
		if err != nil {
			env.ReportValue(envFormat, v, err)
		} else {
			o.Format = format.Some(f)
		}
	}
	env.Value(envVersion, &o.Version, format.ParseVersion)
	env.Value(envDurability, &o.Durability, recorder.ParseDurability)
	if v, ok := env.Lookup(envBufferDir); ok && o.BufferDir == "" {
		o.BufferDir = v
	}
	if o.MaxFileSize == 0 && o.MaxFileAge == 0 && o.KeepFiles == 0 {
		if !env.Bytes(envMaxFileSize, &o.MaxFileSize) {
			o.MaxFileSize = defaultMaxFileSize
		}
		env.Duration(envMaxAge, &o.MaxFileAge)
		if !env.Number(envKeep, &o.KeepFiles) {
			o.KeepFiles = retain.DefaultFiles
		}
		if o.KeepBytes == 0 && !env.Bytes(envKeepBytes, &o.KeepBytes) {
			o.KeepBytes = retain.DefaultBytes
		}
	}
	if v, ok := env.Lookup(envRedact); ok && o.Redact == nil {
		var err error
		o.Redact, err = redact.Open(v)
		if err != nil {
			s.Refused = fmt.Errorf("nothing is recorded, because the policy for secrets cannot be read: %s=%q: %w", envRedact, v, err)
		}
	}
	env.Number(envWaitingSpans, &o.MaxWaitingSpans)
	env.Bytes(envWaitingBytes, &o.MaxWaitingBytes)
	env.Duration(envWaitingAge, &o.MaxWaitingAge)
}

// isFolder reports whether path is an existing folder or ends with a slash.
func isFolder(path string) bool {
	if path == "" || noFile(path) {
		return false
	}
	fi, err := os.Stat(path)
	return os.IsPathSeparator(path[len(path)-1]) || err == nil && fi.IsDir()
}

// oddPath reports a path with an unknown placeholder or a misleading extension.
func oddPath(path string) {
	if path == "" {
		return
	}
	rest := env.Expand(path, "s")
	if m := regexp.MustCompile(`\{[a-z_]*\}`).FindString(rest); m != "" {
		notice.Error(fmt.Errorf("%s=%q: unknown placeholder %s: must be {service}, {pid} or {time}", envPath, path, m))
	}
	if ext := filepath.Ext(path); ext != "" && ext != ".et" && ext != ".iet" && !noFile(path) && !strings.HasSuffix(ext, "}") {
		notice.Error(fmt.Errorf("%s=%q: the extension has no effect: the file will be an ET", envPath, path))
	}
}

// needSetup reports variables that only entrace.Setup supports. mode is the mode of the calling
// exporter or processor, "" if the caller has no mode.
func needSetup(mode string) {
	if s, ok := env.Lookup(envMode); ok && mode != "" && !strings.EqualFold(s, mode) {
		env.ReportValue(envMode, s, fmt.Errorf("this exporter supports only mode %s; entrace.Setup supports live and batch", mode))
	}
	for _, name := range []string{envEndpoint, envControl, envControl + "_CONFIG"} {
		if s, ok := env.Lookup(name); ok && !strings.EqualFold(s, "off") {
			env.ReportValue(name, s, errors.New("only entrace.Setup supports this variable"))
		}
	}
}
