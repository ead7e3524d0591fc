// Package tracename makes the names of the files of a trace: app.et, the stream app.iet that becomes app.et when it
// is finished, and the journal of the stream, app.iet.buffer.
package tracename

import "strings"

// The extensions of a trace.
const (
	ET      = ".et"
	IET     = ".iet"    // a trace that is being written, or whose writer died
	Journal = ".buffer" // added to the name of the stream
	Broken  = ".broken" // added to the name of a file that could not be read
)

// Stream returns the name of the IET for the trace name.
func Stream(name string) string {
	if strings.HasSuffix(name, IET) {
		return name
	}
	return Base(name) + IET
}

// Base returns name without the extension ET or IET.
func Base(name string) string {
	if base, ok := strings.CutSuffix(name, IET); ok {
		return base
	}
	return strings.TrimSuffix(name, ET)
}
