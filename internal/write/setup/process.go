package setup

import (
	"context"
	"os"
	"runtime/debug"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/entrace-go/entrace/internal/core/mapping"
)

// WithProcess makes an exporter or processor add attributes to each resource that does not have them.
func WithProcess(a []attribute.KeyValue) Option { return func(s *Settings) { s.Process = a } }

// Process returns attributes that describe this process and its build, in the names of OpenTelemetry's conventions
// where they have one. The recorder replaces secrets in the arguments.
func Process(arguments bool) []attribute.KeyValue {
	detect := []resource.Option{resource.WithHost(), resource.WithProcessPID(), resource.WithProcessRuntimeName(), resource.WithProcessRuntimeVersion()}
	if arguments {
		detect = append(detect, resource.WithProcessCommandArgs())
	}
	found, _ := resource.New(context.Background(), detect...) // what is unknown is not in it
	a := found.Attributes()
	if dir, err := os.Getwd(); err == nil {
		a = append(a, attribute.String(mapping.AttrFolder, dir))
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return a
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		a = append(a, attribute.String(mapping.AttrServiceVersion, v))
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			a = append(a, attribute.String(mapping.AttrRevision, s.Value))
		case "vcs.modified":
			a = append(a, attribute.Bool(mapping.AttrModified, s.Value == "true"))
		}
	}
	return a
}
