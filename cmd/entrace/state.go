package main

import (
	"fmt"
	"math"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/view"
)

// An ending summarizes the entries entrace.end of a trace. A merged trace has one for
// each of its parts.
type ending struct {
	clean    bool              // the last entry of the file is such an entry
	rotated  bool              // and says that another file follows
	dropped  uint64            // entries, by all of them together
	lossless map[view.Row]bool // those that count no dropped entries
}

// endingOf reads the entries entrace.end below the root. The trace is clean if all its files
// are.
func endingOf(v *view.View) (ending, error) {
	e := ending{lossless: make(map[view.Row]bool), clean: true}
	clean := make([]bool, len(v.Files()))
	for r := range v.Rows() {
		if v.Role(r) != view.RoleRecorder || v.Name(r) != format.NameEnd {
			continue
		}
		entry, err := v.Entry(r)
		if err != nil {
			return e, err
		}
		dropped, _ := entry.Attribute("dropped")
		n, _ := dropped.U64()
		e.dropped += n
		if n == 0 {
			e.lossless[r] = true
		}
		if file, id := v.ID(r); int(id) == v.Entries(file)-1 {
			rotated, _ := entry.Attribute(format.AttrRotated)
			clean[file] = true
			e.rotated = rotated.Bool()
		}
	}
	for _, c := range clean {
		e.clean = e.clean && c
	}
	e.rotated = e.rotated && e.clean
	return e, nil
}

// A recorderLock says whether a process is recording to a file. Read it before the
// file: if the process ends in between, the file is complete.
type recorderLock struct {
	state osfile.LockState
	pid   int // 0 if unknown
}

// lockOf reads the lock of the file name. Standard input, "-", has none.
func lockOf(name string) (l recorderLock) {
	if name != "-" {
		l.state, l.pid = osfile.LockHolder(format.Find(name))
	}
	return l
}

// state says whether the files of a trace are complete.
func (e *ending) state(files []*format.File, l recorderLock) string {
	if e.clean {
		s := "complete"
		if e.dropped > 0 {
			s = "ended, " + count(int(min(e.dropped, math.MaxInt32)), "entry", "entries") + " dropped"
		}
		if e.rotated {
			s += ", another file follows"
		}
		return s
	}
	if len(files) > 1 {
		return fmt.Sprintf("%d files, not all of them complete", len(files))
	}
	if files[0].Format() == format.ET {
		return "no end entry" // recovered, or made by another program
	}
	switch {
	case l.state == osfile.LockHeld && l.pid > 0:
		return fmt.Sprintf("still recording (pid %d)", l.pid)
	case l.state == osfile.LockHeld:
		return "still recording"
	case l.state == osfile.LockFree:
		return "killed (no end entry)"
	}
	return "not finished"
}
