package query

import (
	"errors"
	"slices"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/view"
)

// stateFields maps the fields for the time that a span's goroutine spent in some states to these states.
var stateFields = map[fieldKind][]gotrace.State{
	fieldRunning: {gotrace.Running}, fieldRunnable: {gotrace.Runnable}, fieldSyscall: {gotrace.Syscall}, fieldGC: {gotrace.GCWork, gotrace.GCWait},
	fieldMutex: {gotrace.Mutex}, fieldSync: {gotrace.Sync}, fieldChan: {gotrace.Chan}, fieldSelect: {gotrace.Select}, fieldNet: {gotrace.Net},
	fieldSleep:   {gotrace.Sleep},
	fieldBlocked: {gotrace.Mutex, gotrace.Sync, gotrace.Chan, gotrace.Select, gotrace.Net, gotrace.Sleep, gotrace.Other},
}

// stateField compiles a field whose values are in the execution traces of the files. The field is nil for spans
// that the execution traces do not cover.
func (m *machine) stateField(f *field) (eval, error) {
	states, err := m.v.States(m.ctx)
	if err != nil {
		return nil, err
	}
	m.noStates = NoStates(m.v, states)
	sum := stateFields[f.kind]
	return func(e *env) Value {
		x, ok := states.Of(e.row)
		switch {
		case f.kind == fieldStates && m.v.Role(e.row) == view.RoleSpan:
			return stringValue(x.Join.String())
		case !ok:
			return Value{}
		case f.kind == fieldGoroutine:
			return intValue(x.Goroutine)
		}
		n := int64(0)
		for _, s := range sum {
			n += int64(x.Times[s])
		}
		return durationValue(n * 1000)
	}, nil
}

// NoStates returns the reason why the states of a view's spans are unknown, or why execution traces were not read
// to their ends. It returns "" if neither applies.
func NoStates(v *view.View, states *view.States) string {
	if problems := states.Problems(); len(problems) > 0 {
		return errors.Join(problems...).Error()
	}
	switch {
	case states.Joined() > 0:
		return ""
	case len(states.Traces()) > 0:
		return "the execution trace in the file tells of none of these spans"
	case slices.ContainsFunc(v.Columns().Keys(), func(k columns.Key) bool { return k.Name == "wait.reason" }):
		return "this is an execution trace without spans of OpenTelemetry: a wait is a row of its own, such as { name = mutex }"
	}
	return "no execution trace in the file tells what its spans did: record one with OTEL_EXPORTER_ENTRACE_CONTROL_EXEC_TRACE=1"
}
