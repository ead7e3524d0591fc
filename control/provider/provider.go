package provider

import "github.com/entrace-go/entrace/control"

// All returns one of each provider of this package. Use them with one control only. To use only some of them,
// select them by Provides.
func All() []control.Provider {
	return []control.Provider{
		newRuntimeProvider().provider(), newProcessProvider().provider(),
		{Provides: control.Goroutines, Dump: dumpGoroutines},
		new(cpuProfile).provider(), new(execTrace).provider(),
	}
}
