package query

import (
	"errors"
	"slices"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/view"
)

// stateFields maps fields to states of goroutines. The value of such a field is the time that the span's
// goroutine spent in these states.
var stateFields = map[fieldKind][]gotrace.State{
	fieldRunning: {gotrace.Running}, fieldRunnable: {gotrace.Runnable}, fieldSyscall: {gotrace.Syscall}, fieldGC: {gotrace.GCWork, gotrace.GCWait},
	fieldMutex: {gotrace.Mutex}, fieldSync: {gotrace.Sync}, fieldChan: {gotrace.Chan}, fieldSelect: {gotrace.Select}, fieldNet: {gotrace.Net},
	fieldSleep:   {gotrace.Sleep},
	fieldBlocked: {gotrace.Mutex, gotrace.Sync, gotrace.Chan, gotrace.Select, gotrace.Net, gotrace.Sleep, gotrace.Other},
}

// stateField compiles a field whose values come from Go's execution traces in the files. The field is nil for
// spans that no execution trace covers.
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

// NoStates returns the reason why the goroutine states of all spans of a view are unknown, or why an execution
// trace was not read to its end. It returns "" if there is no such problem.
func NoStates(v *view.View, states *view.States) string {
	if problems := states.Problems(); len(problems) > 0 {
		return errors.Join(problems...).Error()
	}
	switch {
	case states.Joined() > 0:
		return ""
	case len(states.Traces()) > 0:
		return "the execution trace in the file has none of these spans"
	case slices.ContainsFunc(v.Columns().Keys(), func(k columns.Key) bool { return k.Name == "wait.reason" }):
		return "this is an execution trace without spans of OpenTelemetry: a wait is a row of its own, such as { name = mutex }"
	}
	return "the file has no execution trace, so it is not known what its spans did: record one with OTEL_EXPORTER_ENTRACE_CONTROL_EXEC_TRACE=1"
}
