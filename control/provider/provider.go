package provider

import "github.com/entrace-go/entrace/control"

// All returns new providers, one of each kind in this package, for use by one control. To use only some of them,
// select by the field Provides.
func All() []control.Provider {
	return []control.Provider{
		newRuntimeProvider().provider(), newProcessProvider().provider(),
		{Provides: control.Goroutines, Dump: dumpGoroutines},
		new(cpuProfile).provider(), new(execTrace).provider(),
	}
}
