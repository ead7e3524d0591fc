package query

import (
	"errors"
	"slices"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/view"
)

// findStates sets m.states, which the fields from Go's execution traces need.
func (m *machine) findStates() (err error) {
	m.states, err = m.v.States(m.ctx)
	if err == nil {
		m.noStates = NoStates(m.v, m.states)
	}
	return err
}

// stateField returns the definition of a field: the time that the goroutine of a span spent in the given states. The
// value of the field is nil if no execution trace covers the span.
func stateField(name, value string, states ...gotrace.State) *definition {
	row := func(e *env) Value {
		x, ok := e.m.states.Of(e.row)
		n := int64(0)
		for _, s := range states {
			n += int64(x.Times[s])
		}
		return durationOr(n*1000, ok)
	}
	return &definition{names: name, kind: kindDuration, value: value, needs: (*machine).findStates, row: row}
}

// NoStates returns the reason why the goroutine states of all spans of a view are unknown, or why an execution trace
// was not read to its end. It returns "" if there is neither problem.
func NoStates(v *view.View, states *view.States) string {
	if problems := states.Problems(); len(problems) > 0 {
		return errors.Join(problems...).Error()
	}
	switch {
	case states.Joined() > 0:
		return ""
	case len(states.Traces()) > 0:
		return "the execution trace in the file has none of these spans"
	case slices.ContainsFunc(columns.Of(v).Keys(), func(k columns.Key) bool { return k.Name == "wait.reason" }):
		return "this is an execution trace without spans of OpenTelemetry: a wait is a row of its own, such as { name = mutex }"
	}
	return "the file has no execution trace, so it is not known what its spans did: record one with OTEL_EXPORTER_ENTRACE_CONTROL_EXEC_TRACE=1"
}
