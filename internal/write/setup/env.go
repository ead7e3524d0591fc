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

// The variables that messages name.
const (
	envPath     = "OTEL_EXPORTER_ENTRACE_PATH"
	envRedact   = "OTEL_EXPORTER_ENTRACE_REDACT"
	envMode     = "OTEL_EXPORTER_ENTRACE_MODE"
	envEndpoint = "OTEL_EXPORTER_ENTRACE_ENDPOINT"
	envControl  = "OTEL_EXPORTER_ENTRACE_CONTROL"
)

const defaultPath = "{service}-{pid}.et"

// defaultMaxFileSize is large because each new file repeats the open spans. It is small compared with
// retain.DefaultBytes.
const defaultMaxFileSize = 256 << 20

// A variable is an environment variable that sets an option.
type variable struct {
	name string
	read func() // sets the option, if it is not set yet
}

// variables returns the variables that set options of s. The comment of each variable is its row in
// docs/environment.md and in the package comment of exporter: option in the code | default | meaning.
func (s *Settings) variables() []variable {
	o := &s.Recording
	list := []variable{
		// WithPath, WithRecorder | `{service}-{pid}.et` | the path or the `file://` URL of the file, or of a folder
		// (`traces/`), in which the file gets the default name. entrace replaces `{service}` by the percent-encoded name of
		// the service, `{pid}` by the process id, and `{time}` by the UTC time of the start. `none` or `-`: no file. Then no
		// record survives the process, and without an endpoint, entrace records nothing.
		set(envPath, &s.Path, parsePath, defaultPath),
		// Format | by the extension, else `et` | `et` or `iet`: the format of the file after Shutdown.
		set("OTEL_EXPORTER_ENTRACE_FORMAT", &o.Format, parseFormat),
		// Version | `1` | `1` or `2`: the version of ENTRACE's file format.
		set("OTEL_EXPORTER_ENTRACE_VERSION", &o.Version, format.ParseVersion),
		// BufferDir | shared memory, or the folder of the file | the folder of the crash buffer, which has the newest records
		// of a killed process.
		set("OTEL_EXPORTER_ENTRACE_BUFFER_DIR", &o.BufferDir, env.Text),
		// Durability | `process` | which failures a record survives once the recording call has returned: `process`,
		// `writethrough`, `power` ([durability.md](durability.md)).
		set("OTEL_EXPORTER_ENTRACE_DURABILITY", &o.Durability, recorder.ParseDurability),
		// Redact | `default` | which secrets entrace replaces: `default`, `off`, or a file with a policy
		// ([redaction.md](redaction.md)).
		set(envRedact, &o.Redact, s.openPolicy),
		// MaxWaitingSpans | `16384` | the maximum number of spans that wait for their parents.
		set("OTEL_EXPORTER_ENTRACE_WAITING_SPANS", &o.MaxWaitingSpans, env.Number),
		// MaxWaitingBytes | `64MiB` | the maximum size of the waiting spans.
		set("OTEL_EXPORTER_ENTRACE_WAITING_BYTES", &o.MaxWaitingBytes, env.Bytes),
		// MaxWaitingAge | `60s` | the maximum time that a span waits for its parent.
		set("OTEL_EXPORTER_ENTRACE_WAITING_AGE", &o.MaxWaitingAge, env.Duration),
	}
	if o.MaxFileSize != 0 || o.MaxFileAge != 0 || o.KeepFiles != 0 {
		return list // options have set limits of files: a limit that is zero means no limit
	}
	return append(
		list,
		// MaxFileSize | `256MiB` | the recorder begins a new file when a file reaches this size; `0`: no limit.
		set("OTEL_EXPORTER_ENTRACE_MAX_FILE_SIZE", &o.MaxFileSize, env.Bytes, defaultMaxFileSize),
		// MaxFileAge | `0` | the recorder begins a new file when a file reaches this age; `0`: no limit.
		set("OTEL_EXPORTER_ENTRACE_MAX_AGE", &o.MaxFileAge, env.Duration),
		// KeepFiles | `50` | when the recorder begins a new file, it removes the oldest finished files of the service in the
		// folder until this number is left; the new file does not count. A line on stderr names the removed files. `0`: no
		// limit.
		set("OTEL_EXPORTER_ENTRACE_KEEP", &o.KeepFiles, env.Number, retain.DefaultFiles),
		// KeepBytes | `2GiB` | when the recorder begins a new file, it removes the oldest finished files until the total size
		// of the rest is at most this size; `0`: no limit.
		set("OTEL_EXPORTER_ENTRACE_KEEP_BYTES", &o.KeepBytes, env.Bytes, retain.DefaultBytes),
	)
}

// set returns a variable that sets *to. If the variable is unset, *to gets the default, or stays zero if the recorder
// has the default.
func set[T comparable](name string, to *T, parse func(string) (T, error), byDefault ...T) variable {
	return variable{name, func() {
		if *to == *new(T) && !env.Value(name, to, parse, env.ReportValue) && len(byDefault) > 0 {
			*to = byDefault[0]
		}
	}}
}

// Variables returns the names of the variables that [Resolve] reads. They begin with
// OTEL_EXPORTER_ENTRACE_.
func Variables() (names []string) {
	for _, v := range new(Settings).variables() {
		names = append(names, v.name)
	}
	return names
}

// environment sets the options that are not set yet, from the environment.
func (s *Settings) environment() {
	given := s.Path
	for _, v := range s.variables() {
		v.read()
	}
	s.fromEnv = given == "" && s.Path != defaultPath
}

func parsePath(value string) (string, error) {
	path, err := env.Path(value)
	if err != nil {
		return "", err
	}
	if isFolder(path) {
		path = filepath.Join(path, defaultPath)
	}
	oddPath(path)
	return path, nil
}

func parseFormat(name string) (format.Optional[format.StorageFormat], error) {
	f, err := format.ParseStorageFormat(name)
	if err == nil && f == format.IETPrefix {
		err = errors.New("must be et or iet")
	}
	return format.Some(f), err
}

// openPolicy opens the policy for secrets. Without its policy, a recorder must not record.
func (s *Settings) openPolicy(name string) (*redact.Policy, error) {
	p, err := redact.Open(name)
	if err != nil {
		s.Refused = fmt.Errorf("nothing is recorded, because the policy for secrets cannot be read: %s=%q: %w", envRedact, name, err)
	}
	return p, nil
}

// isFolder reports whether path is an existing folder or ends with a slash.
func isFolder(path string) bool {
	if noFile(path) {
		return false
	}
	fi, err := os.Stat(path)
	return os.IsPathSeparator(path[len(path)-1]) || err == nil && fi.IsDir()
}

// oddPath reports a path with an unknown placeholder or a misleading extension.
func oddPath(path string) {
	rest := env.Expand(path, "s")
	if m := regexp.MustCompile(`\{[a-z_]*\}`).FindString(rest); m != "" {
		notice.Error(fmt.Errorf("%s=%q: unknown placeholder %s: must be {service}, {pid} or {time}", envPath, path, m))
	}
	if ext := filepath.Ext(path); ext != "" && ext != ".et" && ext != ".iet" && !noFile(path) && !strings.HasSuffix(ext, "}") {
		notice.Error(fmt.Errorf("%s=%q: the extension has no effect: the file will be an ET", envPath, path))
	}
}

// needSetup reports variables that only entrace.Setup supports. The parameter mode is the mode of
// the calling exporter or processor, or "" if the caller has no mode.
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
