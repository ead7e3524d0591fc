package query

import (
	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/internal/read/spanstates"
)

// findStates sets m.states, which the fields from Go's execution traces need.
func (m *machine) findStates() (err error) {
	m.states, err = spanstates.Of(m.ctx, m.v)
	if err == nil {
		m.noStates = m.states.Unknown()
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
