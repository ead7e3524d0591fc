// Package tracename has the names that belong to one trace: app.et, the stream app.iet that
// becomes it, and the journal app.iet.buffer of that.
package tracename

import "strings"

// The extensions of a trace.
const (
	ET      = ".et"
	IET     = ".iet"    // of one that grows, or whose writer died
	Journal = ".buffer" // behind the name of the stream
	Broken  = ".broken" // behind the name of what could not be read
)

// Stream returns the name of the IET that is written for the trace name.
func Stream(name string) string {
	if strings.HasSuffix(name, IET) {
		return name
	}
	return Base(name) + IET
}

// Base returns name without its extension if it has one of a trace.
func Base(name string) string {
	if base, ok := strings.CutSuffix(name, IET); ok {
		return base
	}
	return strings.TrimSuffix(name, ET)
}
