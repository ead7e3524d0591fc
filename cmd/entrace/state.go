package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/view"
)

// statesOf returns the states of all files of a trace.
func statesOf(t *convert.Trace) []convert.State {
	states := make([]convert.State, len(t.View().Files()))
	for i := range states {
		states[i] = t.State(i)
	}
	return states
}

// stateOfTitle returns the states of files as they follow the title of a trace.
func stateOfTitle(states []convert.State) string {
	text := convert.StateText(states)
	if len(states) > 1 && strings.Contains(text, ", ") {
		return "(" + text + ")"
	}
	return text
}

// stateLines returns a line for each of several files whose state has more to tell than that it
// has ended.
func stateLines(t *convert.Trace, states []convert.State) (lines []string) {
	if len(states) == 1 {
		return nil
	}
	for i, s := range states {
		if s.Rotated = false; s.String() != string(convert.StateEnded) {
			lines = append(lines, fileName(t, i)+" "+s.String())
		}
	}
	return lines
}

// fileName returns the name under which a file of a trace was found.
func fileName(t *convert.Trace, file int) string {
	if _, own := t.Format(file).Own(); own && t.Name(file) != stdinName {
		return t.View().Files()[file].Name()
	}
	return t.Name(file)
}

// errPartial says that a file is not whole.
var errPartial = errors.New("--allow-partial takes what there is")

// whole returns why a trace is damaged, or may get more entries.
func (l *look) whole() error {
	if err := l.Damage(); err != nil {
		return err
	}
	for i, s := range statesOf(l.Trace) {
		if s.Word != convert.StateEnded && !s.Recovered {
			return fmt.Errorf("%s is %s; %w", fileName(l.Trace, i), s, errPartial)
		}
	}
	return nil
}

// tellsNothing reports whether row r is the end of a recording that has lost nothing, which the
// state of its file says already.
func tellsNothing(v *view.View, r view.Row) bool {
	if v.Role(r) != view.RoleRecorder || v.Name(r) != mapping.NameEnd {
		return v.Role(r) == view.RoleRecorder && v.Name(r) == mapping.NameRecovered
	}
	e, err := v.Entry(r)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(e.Attributes, func(a format.Attribute) bool { return a.Name == "dropped" && !isZero(a.Value) })
}
