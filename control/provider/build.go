package provider

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/entrace-go/entrace/format"
)

// buildEntry returns the entry "build", which describes the program, its build and the settings of the runtime. Of
// the arguments and the environment, the entry has only the program's name and GODEBUG, because other values may be
// secret.
func buildEntry() *format.TraceEntry {
	a := []format.Attribute{
		text("go.version", runtime.Version()),
		text("os.type", runtime.GOOS),
		text("host.arch", runtime.GOARCH),
		u64("process.pid", uint64(os.Getpid())),
		text("GODEBUG", os.Getenv("GODEBUG")),
	}
	if len(os.Args) > 0 {
		a = append(a, text("process.executable.name", filepath.Base(os.Args[0])))
	}
	if b, ok := debug.ReadBuildInfo(); ok {
		a = append(a, text("build.path", b.Path), text("build.main.path", b.Main.Path), text("build.main.version", b.Main.Version))
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision", "vcs.time":
				a = append(a, text("build."+s.Key, s.Value))
			case "vcs.modified":
				a = append(a, format.Attribute{Name: "build." + s.Key, Value: format.BoolValue(s.Value == "true")})
			}
		}
	}
	samples := []metrics.Sample{{Name: "/sched/gomaxprocs:threads"}, {Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			a = append(a, u64(s.Name, s.Value.Uint64()))
		}
	}
	return &format.TraceEntry{
		Metadata:   format.Metadata{Name: "build", Target: "runtime/debug", Level: format.LevelDebug},
		Attributes: a,
	}
}
