package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// release and commit are set by `make release`. All other values of a build must not depend on the machine.
var release, commit string

// A build describes the source and tools of a binary.
type build struct {
	Version string  `json:"version"`
	Commit  *string `json:"commit"` // nil if it is not known
	Dirty   bool    `json:"dirty"`  // the source had uncommitted changes
	Go      string  `json:"go"`
	System  string  `json:"system"`
}

func versionCommand() *command {
	asJSON := false
	return &command{
		use: "version", short: "Print the version", args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			flags.BoolVar(&asJSON, "json", false, "print one JSON object, with the commit, the version of Go and the system")
		},
		run: func(_ context.Context, c *console, _ []string) error {
			if !asJSON {
				_, err := fmt.Fprintln(c.out, "entrace", version())
				return err
			}
			info, _ := debug.ReadBuildInfo()
			return c.printJSON(buildOf(info))
		},
	}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info).String()
}

// buildOf describes a binary with the given build information, which may be nil.
func buildOf(info *debug.BuildInfo) build {
	b := build{Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		b.Version = info.Main.Version
		for i := range info.Settings {
			switch s := &info.Settings[i]; s.Key {
			case "vcs.revision":
				b.Commit = &s.Value
			case "vcs.modified":
				b.Dirty = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(release, b.Version, "(devel)")
	if commit != "" {
		b.Commit = &commit
	}
	return b
}

// String returns the version, followed by the commit if the version does not contain it.
func (b build) String() string {
	text := b.Version
	if b.Commit != nil && len(*b.Commit) >= 12 && release == "" && !strings.Contains(text, (*b.Commit)[:12]) {
		text += " " + (*b.Commit)[:12]
	}
	if b.Dirty && !strings.Contains(text, "dirty") {
		text += " (modified)"
	}
	return text
}
