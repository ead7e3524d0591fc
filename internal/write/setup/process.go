package setup

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

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
	found, _ := resource.New(context.Background(), detect...) // it lacks attributes whose value is unknown
	a := found.Attributes()
	if arguments {
		a = append(a, attribute.StringSlice(mapping.AttrCommand, command()))
	}
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

// maxArguments is the maximum size in bytes of the arguments that are recorded, because the size of a resource is
// limited.
const maxArguments = 4 << 10

// command returns the command line. If it is long, the last item says how many arguments are left out. No argument is
// cut, because the rules for secrets would not recognize a part of one.
func command() []string {
	size := 0
	for i, argument := range os.Args {
		size += len(argument)
		if size > maxArguments {
			return append(slices.Clone(os.Args[:i]), fmt.Sprintf("… %d more", len(os.Args)-i))
		}
	}
	return os.Args
}
