package main

import (
	"fmt"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
)

// An ending is what the recorders say of the end of their traces. A trace that was
// merged has the ends of all.
type ending struct {
	clean   bool            // the last entry is such an end
	rotated bool            // and another file follows
	dropped uint64          // entries
	plain   map[uint32]bool // the ends of which nothing was dropped
}

// endingOf looks for the ends below the root.
func endingOf(v *format.View) (ending, error) {
	e := ending{plain: make(map[uint32]bool)}
	if v.Len() == 0 {
		return e, nil
	}
	for _, id := range v.File().Children(0) {
		if v.Role(id) != format.RoleRecorder {
			continue
		}
		entry, err := v.File().Entry(id)
		if err != nil {
			return e, err
		}
		if entry.Metadata.Name != format.NameEnd {
			continue
		}
		dropped, _ := entry.Attribute("dropped")
		n, _ := dropped.U64()
		e.dropped += n
		if n == 0 {
			e.plain[id] = true
		}
		if int(id) == v.Len()-1 {
			rotated, _ := entry.Attribute(format.AttrRotated)
			e.clean, e.rotated = true, rotated.Bool()
		}
	}
	return e, nil
}

// A hold is what is known of who records to a file. It is asked for before that is
// opened: who has ended by then has written all.
type hold struct {
	osfile.Hold

	pid int
}

// holdOf asks about the file name, "-" for the standard input.
func holdOf(name string) (h hold) {
	if name != "-" {
		h.Hold, h.pid = osfile.Holder(format.Find(name))
	}
	return h
}

// state says whether the trace f is all that there will be.
func (e *ending) state(f *format.File, h hold) string {
	if e.clean {
		s := "complete"
		if e.dropped > 0 {
			s = fmt.Sprintf("ended, %d entries dropped", e.dropped)
		}
		if e.rotated {
			s += ", another file follows"
		}
		return s
	}
	if f.Format() == format.ET {
		return "no end entry" // its program was killed, or it was made by another
	}
	switch {
	case h.Hold == osfile.HoldTaken && h.pid > 0:
		return fmt.Sprintf("still recording (pid %d)", h.pid)
	case h.Hold == osfile.HoldTaken:
		return "still recording"
	case h.Hold == osfile.HoldNone:
		return "killed: no end entry"
	}
	return "not finished"
}
