package deadtrace

import (
	"slices"

	"github.com/entrace-go/entrace/internal/file/tracename"
)

// A Rotation finds the files of a stream that its writers have renamed since the last call of New. A slow reader can
// then read these files before the file that now has the name of the stream.
type Rotation struct {
	stream string
	known  map[string]bool // the names that New has returned, and the names of older files
}

// RotationOf returns a Rotation of the files that are renamed from now on. The parameter name is the name of the stream
// or of its ET.
func RotationOf(name string) *Rotation {
	r := &Rotation{stream: tracename.Stream(name), known: make(map[string]bool)}
	r.New()
	return r
}

// New returns the names of the files that were renamed since the last call of New, or since RotationOf, and still
// exist, the oldest first. Each name ends in .et; if the file is not finished yet, [format.Find] finds its IET.
func (r *Rotation) New() []string {
	names, _ := Archived(r.stream) // there are none while there is no folder
	for i, name := range names {
		names[i] = tracename.Base(name) + tracename.ET
	}
	names = slices.Compact(slices.DeleteFunc(names, func(name string) bool { return r.known[name] }))
	for _, name := range names {
		r.known[name] = true
	}
	return names
}
