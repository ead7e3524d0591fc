package entrace

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/file/env"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/write/setup"
)

const envPrefix = "OTEL_EXPORTER_ENTRACE_"

// variables are all known variables that begin with envPrefix.
var variables = slices.Concat(setup.Variables(), []string{
	envMode, envLevel, envEndpoint, envToken, envControl, envControlConfig, envControlDir, envControlBytes, envProviders, envExecTrace,
	envOnError, envOnSlow, envOnHang, envCrashLabels, envRun,
})

// unknownVariables reports the environment variables that begin with envPrefix but
// are not known.
func unknownVariables() {
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.TrimSpace(value) == "" || slices.Contains(variables, name) {
			continue
		}
		hint := ""
		if like := text.Nearest(name, variables, 2); like != "" {
			hint = ": did you mean " + like + "?"
		}
		notice.Error(fmt.Errorf("entrace: unknown variable %s%s", name, hint))
	}
}

// configFiles reports the variables that name a configuration file of OpenTelemetry. By the specification, the file
// replaces all other variables, but Setup does not read the file.
func configFiles() {
	if _, run := env.Lookup(envRun); run {
		return // entrace run has reported these variables
	}
	for _, name := range []string{"OTEL_CONFIG_FILE", "OTEL_EXPERIMENTAL_CONFIG_FILE"} {
		if file, ok := env.Lookup(name); ok {
			env.ReportValue(name, file, errors.New("Setup reads only variables and options; the package otelconf reads the file, see docs/switching.md"))
		}
	}
}

// withoutEffect reports the set variables that have no effect with a flight recorder.
func withoutEffect() {
	for _, name := range setup.Variables() {
		if strings.HasSuffix(name, "_VERSION") || strings.HasSuffix(name, "_BUFFER_DIR") || strings.HasSuffix(name, "_REDACT") {
			continue
		}
		if v, ok := env.Lookup(name); ok {
			env.ReportValue(name, v, fmt.Errorf("a flight recorder does not use this variable; set its folder with %s", envControlDir))
		}
	}
}
