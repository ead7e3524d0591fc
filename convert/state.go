package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/read/columns"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// A State says whether a file is complete, and if not, why.
type State struct {
	// Word is one of four words:
	//   - "running": a process is writing the file
	//   - "ended": the writer has closed the file, or another program has written the complete file
	//   - "killed": the writer died before it closed the file
	//   - "damaged": the file cannot be read to its end
	Word      string
	Recovered bool   // recovery finished the file of a killed writer, or saved the complete entries of a damaged file
	Rotated   bool   // the writer continued in another file
	Snapshot  bool   // a flight recorder wrote the complete file, and the process continued to run
	Dropped   uint64 // number of entries that were not written
	// DroppedFrom and DroppedTo say when the first and the last dropped entries were lost because the disk was full
	// or slow. They are zero if these times are not known.
	DroppedFrom, DroppedTo time.Time
	PID                    int  // id of the process that is writing the file; 0: unknown
	Recorded               bool // a recorder of this module wrote the file; it locks the file while it writes
	// Trigger and Reason say why a flight recorder made the file. Both are empty if no flight recorder made it. A
	// Reason without a Trigger says why the recorded program died. Both texts come from the file: escape them
	// before you show them on a terminal or a page.
	Trigger, Reason string
}

// String returns the state in plain words, such as "killed, recovered".
func (s State) String() string {
	text := s.Word
	if s.Snapshot {
		text = "snapshot of a running process"
	}
	if s.Word == deadtrace.Running && s.PID > 0 {
		text += fmt.Sprintf(" (pid %d)", s.PID)
	}
	if s.Recovered {
		text += ", recovered"
	}
	switch {
	case s.Dropped == 1:
		text += ", 1 entry dropped"
	case s.Dropped > 1:
		text += fmt.Sprintf(", %d entries dropped", s.Dropped)
	}
	if s.Dropped > 0 && !s.DroppedFrom.IsZero() {
		text += fmt.Sprintf(" from %s to %s", s.DroppedFrom.Format(time.RFC3339), s.DroppedTo.Format(time.RFC3339))
	}
	if s.Rotated {
		text += ", another file follows"
	}
	switch {
	case s.Trigger != "" && s.Reason != "":
		text += " (" + s.Trigger + ": " + s.Reason + ")"
	case s.Trigger+s.Reason != "":
		text += " (" + s.Trigger + s.Reason + ")"
	}
	return text
}

// State returns the current state of a file of v. v must be the view of t, or a view that Extend made from it.
func (t *Trace) State(v *view.View, file int) State {
	// Read the lock before the entries. If the writer closes the file in between, the entries include its end.
	live, pid := t.writer(file)
	if !live && t.mayHaveGrown(v, file) {
		if now, err := v.Extend(context.Background()); err == nil {
			v = now
		}
	}
	x := t.recorders.infoIn(v, file)
	x.recorded = t.codecs[file] == nil && (x.recorded || x.state.Word == "" && t.recorders.isRecorded(v, file))
	return x.stateOf(v.Files()[file], live, pid, errors.Join(t.damage[file], v.Damage(file)))
}

// StateOf returns the state of the file called name. The result missing says why entries are missing in the file, as in
// [format.File.Journal]. Set whole if all entries are known to be complete. StateOf then needs no view of a closed
// file, which saves time and memory. A file that cannot be opened is damaged.
func StateOf(ctx context.Context, name string, whole bool) (s State, missing error) {
	if whole {
		if f, err := recorder.Open(name, nil); err == nil {
			s = stateAtEnd(f)
			_, missing = f.Journal()
			_ = f.Close()
			if s.Word != "" {
				return s, missing
			}
		}
	}
	t, err := Open(ctx, []string{name}, nil)
	if err != nil {
		return State{Word: deadtrace.Damaged}, nil
	}
	defer t.Close()
	_, missing = t.View().Files()[0].Journal()
	return t.State(t.View(), 0), missing
}

// stateAtEnd returns the state of a file whose last entry says that the file was closed or recovered. For any other
// file it returns an empty State.
func stateAtEnd(f *format.File) State {
	n := uint32(f.Len())
	if n == 0 || f.Damage() != nil {
		return State{}
	}
	last, err := f.Entry(n - 1)
	if err != nil || last.Metadata.Name != mapping.NameEnd && (last.Metadata.Name != mapping.NameRecovered || f.Format() != format.ET) {
		return State{}
	}
	var x recorderInfo
	for id := uint32(1); id < n; id++ {
		if f.Parent(id) != 0 {
			continue
		}
		if e, err := f.Entry(id); err == nil {
			x.add(e, id == n-1)
		}
	}
	x.recorded = x.state.Word != ""
	if !x.recorded { // another program wrote the last entry
		return State{}
	}
	return x.stateOf(f, false, 0, nil)
}

// stateOf returns the state of f. The receiver x holds the information from its recorder's entries.
func (x *recorderInfo) stateOf(f *format.File, live bool, pid int, damage error) State {
	s := x.state
	switch {
	case live && (damage == nil || errors.Is(damage, format.ErrTruncated)) && s.Word != deadtrace.Ended:
		s.Word, s.PID = deadtrace.Running, pid
	case damage != nil:
		s.Word = deadtrace.Damaged
	case s.Word == deadtrace.Damaged:
		s.Recovered = true
	case s.Word == deadtrace.Ended && s.Trigger == triggerCrash: // a trace of the ring of a process that died
		s.Word, s.Recovered = deadtrace.Killed, true
	case s.Word == deadtrace.Killed:
		s.Recovered = f.Format() == format.ET
	case s.Word == deadtrace.Ended:
	case !x.recorded:
		s.Word = deadtrace.Ended
	default:
		s.Word, s.Recovered = deadtrace.Killed, f.Format() == format.ET
	}
	if s.Reason == "" && (s.Word == deadtrace.Killed || s.Word == deadtrace.Damaged) {
		s.Reason = x.crash
	}
	s.Recorded = x.recorded
	s.Snapshot = s.Word == deadtrace.Ended && s.Trigger != "" && s.Trigger != triggerCrash && x.mode != modeStream
	return s
}

// Strings that package control writes to its traces.
const (
	triggerCrash = "crash"
	modeStream   = "stream"
)

// writer reports whether a process is writing a file. The result pid is the id of the process, or 0 if it is
// unknown.
func (t *Trace) writer(file int) (live bool, pid int) {
	was := t.opened[file]
	if was == nil {
		return false, 0
	}
	name := t.files[file].Name()
	state, pid := osfile.LockHolder(name)
	if !osfile.IsNamed(was, name) {
		return false, 0 // the name now belongs to another file
	}
	return state == osfile.LockHeld, pid
}

// mayHaveGrown reports whether a file that nobody is writing may have entries that v does not have.
func (t *Trace) mayHaveGrown(v *view.View, file int) bool {
	was := t.opened[file]
	if was == nil || v.Files()[file].Format() == format.ET {
		return false
	}
	now, err := os.Stat(t.files[file].Name())
	return err != nil || !os.SameFile(was, now) || now.Size() > v.Files()[file].Size()
}

// A recorders collects the entries that recorders wrote about themselves. It reads each row only once, because a
// view only grows at its end. It is safe for concurrent use.
type recorders struct {
	mu    sync.Mutex
	seen  int        // number of rows that were read
	rows  []view.Row // rows that recorders wrote about themselves, or that have a crash text
	files map[int]*signs
}

// rowsIn returns the rows directly below the root of a file that recorders wrote about themselves, or that say why a
// program died.
func (k *recorders) rowsIn(v *view.View, file int) (rows []view.Row) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ; k.seen < v.Len(); k.seen++ {
		r := view.Row(k.seen)
		if role := v.Role(r); role == view.RoleRecorder || role == view.RoleOther && v.Name(r) == mapping.NameCrash {
			k.rows = append(k.rows, r)
		}
	}
	for _, r := range k.rows {
		if int(r) < v.Len() && v.Parent(r) == 0 {
			if of, _ := v.ID(r); of == file {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// A recorderInfo holds the information about a file that its recorder wrote into entries.
type recorderInfo struct {
	// state.Word is deadtrace.Ended if the last entry says that the file was closed, deadtrace.Killed if recovery
	// has finished the file, and deadtrace.Damaged if recovery has saved the complete entries of a damaged file.
	// Otherwise it is "".
	state    State
	mode     string // the mode of a flight recorder
	crash    string // why the program died
	recorded bool   // a recorder of this module wrote entries of the file
}

// infoIn returns the information about a file that recorders wrote into entries.
func (k *recorders) infoIn(v *view.View, file int) (x recorderInfo) {
	for _, r := range k.rowsIn(v, file) {
		x.recorded = x.recorded || v.Role(r) == view.RoleRecorder
		if e, err := v.Entry(r); err == nil {
			_, id := v.ID(r)
			x.add(e, int(id) == v.Entries(file)-1)
		}
	}
	return x
}

// add adds the information in e, an entry of a recorder. The parameter last says that e is the last entry of the
// file.
func (x *recorderInfo) add(e *format.TraceEntry, last bool) {
	s := &x.state
	if name := e.Metadata.Name; name == mapping.NameEnd || name == mapping.NameRecovered {
		dropped, _ := e.Attribute(mapping.AttrDropped)
		n, _ := dropped.U64()
		s.Dropped += n
		at := func(name string) (t time.Time) {
			v, _ := e.Attribute(name)
			t, _ = time.Parse(time.RFC3339, v.Text()) // zero if the attribute is missing
			return t
		}
		if from := at(mapping.AttrDroppedFrom); !from.IsZero() && (s.DroppedFrom.IsZero() || from.Before(s.DroppedFrom)) {
			s.DroppedFrom = from
		}
		if to := at(mapping.AttrDroppedTo); to.After(s.DroppedTo) {
			s.DroppedTo = to
		}
	}
	switch e.Metadata.Name {
	case mapping.NameEnd:
		if last {
			s.Word, s.Rotated = deadtrace.Ended, e.IsRotated()
		}
	case mapping.NameRecovered:
		if last {
			s.Word = deadtrace.Killed
			if _, damaged := e.Attribute(mapping.AttrDamage); damaged {
				s.Word = deadtrace.Damaged
			}
		}
	case mapping.NameCrash:
		x.crash = strings.Clone(crashtext.Reason(e.Message.Value))
	case mapping.NameTrace:
		if s.Trigger != "" {
			return // the entry belongs to another part of a merged trace
		}
		text := func(name string) string {
			v, _ := e.Attribute(name)
			return strings.Clone(v.Text())
		}
		s.Trigger, s.Reason, x.mode = text("trigger"), text("reason"), text("mode")
	}
}

// A signs collects evidence from the first entries of a file about the program that wrote the file.
type signs struct {
	next        uint32 // the next entry to read
	spans, logs bool
	recorded    bool // the file has entries that only a recorder of this module writes
}

// isRecorded reports whether the entries look like entries of a recorder of this module. It is for files whose last
// entry does not say so. Other programs write different entries: entries of other ENTRACE writers have no times.
// Converters write only ETs, in which each span is one entry that has ended, and in which log records occur only
// together with spans.
func (k *recorders) isRecorded(v *view.View, file int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.files[file]
	if x == nil {
		x = &signs{next: 1}
		if k.files == nil {
			k.files = make(map[int]*signs)
		}
		k.files[file] = x
	}
	growing := v.Files()[file].Format() != format.ET
	for ; !x.recorded && int(x.next) < v.Entries(file); x.next++ {
		r, _ := v.Row(file, x.next)
		if of, own := v.ID(r); of != file || own != x.next {
			x.recorded = true // the entry is the end of a span
			break
		}
		f := v.Flags(r)
		_, timed := v.Start(r)
		role := f.Role()
		if first, copied := columns.Of(v).First(uint32(r)); copied {
			role = v.Role(view.Row(first))
		}
		switch role {
		case view.RoleRecorder:
			x.recorded = true
		case view.RoleSpan:
			x.spans, x.recorded = true, f.Open() || growing
		case view.RoleLog:
			x.logs, x.recorded = x.logs || timed, timed && growing
		}
	}
	return x.recorded || x.logs && !x.spans || growing && v.Entries(file) <= 1
}
