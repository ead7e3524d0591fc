package setup

import (
	"os"
	"runtime"
	"runtime/debug"

	"go.opentelemetry.io/otel/attribute"

	"github.com/entrace-go/entrace/internal/core/mapping"
)

// WithProcess makes an exporter or processor add attributes to each resource that does not have them.
func WithProcess(a []attribute.KeyValue) Option { return func(s *Settings) { s.Process = a } }

// Process returns attributes that describe this process and its build, in the names of OpenTelemetry's conventions
// where they have one. The recorder replaces secrets in the arguments.
func Process(arguments bool) (a []attribute.KeyValue) {
	text := func(name, value string) {
		if value != "" {
			a = append(a, attribute.String(name, value))
		}
	}
	host, _ := os.Hostname() // "" if unknown
	dir, _ := os.Getwd()
	text(mapping.AttrHostName, host)
	a = append(a, attribute.Int(mapping.AttrProcessID, os.Getpid()))
	if arguments {
		a = append(a, attribute.StringSlice(mapping.AttrCommand, os.Args))
	}
	text(mapping.AttrFolder, dir)
	text("process.runtime.name", "go")
	text("process.runtime.version", runtime.Version())
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return a
	}
	if v := info.Main.Version; v != "(devel)" {
		text(mapping.AttrServiceVersion, v)
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			text(mapping.AttrRevision, s.Value)
		case "vcs.modified":
			a = append(a, attribute.Bool(mapping.AttrModified, s.Value == "true"))
		}
	}
	return a
}
