package entraceexporter

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// A Config is the configuration of the exporter.
type Config struct {
	// Path is the file, such as /var/lib/otelcol/trace.et. Its folder is created if it does not exist. The file grows
	// as trace.iet and becomes trace.et when the Collector ends. If Path ends with .iet, the file keeps its name.
	Path string `mapstructure:"path"`
	// Durability determines which records survive a failure after the exporter has accepted them: "process", which is
	// the default, "writethrough" or "power". See package recorder.
	Durability string `mapstructure:"durability"`
	// BufferDir is the folder of the crash buffer, which holds the newest records until they are in the file. The
	// default is /dev/shm, or, in a container, the folder of Path.
	BufferDir string `mapstructure:"buffer_dir"`
	// MaxFileSize and MaxFileAge limit the growing file. When the file reaches one of the limits, a new file begins.
	// 0 means no limit. The defaults are 256 MiB and 0.
	MaxFileSize Size          `mapstructure:"max_file_size"`
	MaxFileAge  time.Duration `mapstructure:"max_file_age"`
	// KeepFiles and KeepBytes limit the finished files. When a new file begins, the oldest finished files are
	// removed. 0 means no limit. The defaults are 50 and 2 GiB.
	KeepFiles int  `mapstructure:"keep_files"`
	KeepBytes Size `mapstructure:"keep_bytes"`
	// Redact determines which values are replaced as secrets: "off", which is the default, "default", or the name of
	// a file with a policy. See package redact.
	Redact string `mapstructure:"redact"`
}

// Validate returns an error that names the wrong field and says what to write instead.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	ext := filepath.Ext(c.Path)
	if c.Path == "" {
		wrong("path", "must name the file to write, such as /var/lib/otelcol/trace.et")
	} else if ext != ".et" && ext != ".iet" {
		wrong("path", "must end with .et or .iet, not %q", c.Path)
	}
	if _, err := c.durability(); err != nil {
		wrong("durability", "must be process, writethrough or power, not %q", c.Durability)
	}
	if _, err := c.policy(); err != nil {
		wrong("redact", "must be off, default, or the name of a policy file: %v", err)
	}
	for name, n := range map[string]int64{
		"max_file_size": int64(c.MaxFileSize), "keep_bytes": int64(c.KeepBytes), "max_file_age": int64(c.MaxFileAge), "keep_files": int64(c.KeepFiles),
	} {
		if n < 0 {
			wrong(name, "must not be negative; 0 means no limit")
		}
	}
	return errors.Join(errs...)
}

func (c *Config) policy() (*redact.Policy, error) {
	if c.Redact == "" {
		return redact.Off, nil
	}
	return redact.Open(c.Redact)
}

// oldDurability is a former value of Durability. It is taken as process.
const oldDurability = "buffered"

func (c *Config) durability() (recorder.Durability, error) {
	if c.Durability == "" || c.Durability == oldDurability {
		return recorder.DurabilityProcess, nil
	}
	return recorder.ParseDurability(c.Durability)
}

// A Size is a number of bytes. A configuration has a number, or a text with a unit, such as 256MiB.
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := quantity.ParseBytes(string(text))
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	*s = Size(n)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(s), 10), nil }
