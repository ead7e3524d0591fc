package provider

import "github.com/entrace-go/entrace/control"

// All returns one of each provider of this package. They are for one control only. To use only some of
// them, select by the field Provides.
func All() []control.Provider {
	return []control.Provider{
		newRuntimeProvider().provider(), newProcessProvider().provider(),
		{Provides: control.Goroutines, Dump: dumpGoroutines},
		new(cpuProfile).provider(), new(execTrace).provider(),
	}
}
