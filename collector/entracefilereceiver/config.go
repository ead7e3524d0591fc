package entracefilereceiver

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Config is the configuration of the receiver.
type Config struct {
	// Paths are files and folders. Each trace in a folder is read, but not traces in its subfolders. Files that do
	// not exist yet are read when they appear.
	Paths []string `mapstructure:"paths"`
	// StartAt selects the records to send from files that exist at the start: "beginning" means all records, and
	// "end", the default, means records written later. Files that appear later are sent completely.
	StartAt string `mapstructure:"start_at"`
	// PollInterval is the time between two scans of the files and folders. The default is half a second.
	PollInterval time.Duration `mapstructure:"poll_interval"`
}

// The values of StartAt.
const (
	atBeginning = "beginning"
	atEnd       = "end"
)

// Validate returns an error that names the wrong field and says what to write instead.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Paths) == 0 || slices.Contains(c.Paths, "") {
		errs = append(errs, errors.New("paths: must list at least one file or folder, such as [/var/lib/app/traces], and must not have an empty name"))
	}
	if c.StartAt != atBeginning && c.StartAt != atEnd {
		errs = append(errs, fmt.Errorf("start_at: must be beginning or end, not %q", c.StartAt))
	}
	if c.PollInterval <= 0 {
		errs = append(errs, fmt.Errorf("poll_interval: must be above zero, such as 500ms, not %v", c.PollInterval))
	}
	return errors.Join(errs...)
}
