package provider

import (
	"errors"
	"fmt"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
)

// target is that of entries with values of several sources.
const target = "github.com/entrace-go/entrace/control/provider"

var errRunning = errors.New("already running")

// attrInterval is the time that the deltas of an entry are over.
const attrInterval = "interval_nano"

func u64(name string, n uint64) format.Attribute {
	return format.Attribute{Name: name, Value: format.U64Value(n)}
}

func float(name string, f float64) format.Attribute {
	return format.Attribute{Name: name, Value: format.FloatValue(f)}
}

func text(name, s string) format.Attribute {
	return format.Attribute{Name: name, Value: format.StringValue(s)}
}

// All returns one of each provider that is here. They are for one control. To have only some of them,
// choose by Provides.
func All() []control.Provider {
	return []control.Provider{
		new(runtimeProvider).provider(), new(processProvider).provider(),
		{Provides: control.Goroutines, Dump: dumpGoroutines},
		new(cpuProfile).provider(), new(execTrace).provider(),
	}
}

// duration returns a parameter that is a time, def if it is not set. Below least it is least.
func duration(s *control.Session, name string, def, least time.Duration) (time.Duration, error) {
	text := s.Params[name]
	if text == "" {
		return def, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return def, fmt.Errorf("%s: %w", name, err)
	}
	return max(d, least), nil
}
