package entrace

import (
	"errors"
	"go/version"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/entrace-go/entrace/internal/file/env"
)

// labelCrashes makes the runtime write the labels of goroutines into the text of a crash. The labels
// name the spans of the goroutines.
func labelCrashes() {
	if v, ok := env.Lookup(envCrashLabels); ok && !strings.EqualFold(v, "on") {
		if !strings.EqualFold(v, "off") {
			env.ReportValue(envCrashLabels, v, errors.New("must be on or off"))
		}
		return
	}
	const name = "tracebacklabels="
	given := os.Getenv("GODEBUG")
	if strings.Contains(given, name) || labelsCrashes() {
		return
	}
	if given != "" {
		given += ","
	}
	_ = os.Setenv("GODEBUG", given+name+"1") // if this fails, a crash names no spans
}

// labelsCrashes reports whether the runtime writes the labels of goroutines into the text of a crash by default: from
// Go 1.27 on, unless go.mod of the main module has an earlier Go version.
func labelsCrashes() bool {
	if version.Compare(runtime.Version(), "go1.27") < 0 {
		return false
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return true
	}
	for _, s := range info.Settings {
		if s.Key == "DefaultGODEBUG" {
			return !strings.Contains(s.Value, "tracebacklabels=0")
		}
	}
	return true
}
