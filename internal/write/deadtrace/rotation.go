package deadtrace

import "github.com/entrace-go/entrace/internal/file/tracename"

// A Rotation finds the files of a stream that its writers have renamed since a reader looked last, so that a reader
// that was slow reads them before the file that has the name of the stream now.
type Rotation struct {
	stream string
	known  map[string]bool // the names of the files, without extensions
}

// RotationOf returns a Rotation of the files that are renamed from now on. name is the name of the stream or of its
// ET.
func RotationOf(name string) *Rotation {
	r := &Rotation{stream: tracename.Stream(name), known: make(map[string]bool)}
	r.New()
	return r
}

// New returns the names of the files that were renamed since the last call, the oldest first. Each name ends in .et;
// if the file is not finished yet, [format.Find] finds its IET.
func (r *Rotation) New() (names []string) {
	all, _ := Archived(r.stream) // there are none while there is no folder
	for _, name := range all {
		if base := tracename.Base(name); !r.known[base] {
			r.known[base] = true
			names = append(names, base+tracename.ET)
		}
	}
	return names
}
