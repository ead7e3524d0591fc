package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/view"
)

// statesOf returns the states of all files of a trace.
func statesOf(t *convert.Trace) []convert.State {
	v := t.View()
	states := make([]convert.State, len(v.Files()))
	for i := range states {
		states[i] = t.State(v, i)
	}
	return states
}

// stateText describes the states of files in a few words. For one file it returns the state of that file, for
// several files the number of files in each state, and for no files "".
func stateText(states []convert.State) string {
	if len(states) == 1 {
		return states[0].String()
	}
	var parts []string
	add := func(n int, what string) {
		switch n {
		case 0:
		case len(states):
			parts = []string{what}
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	words, snapshots := make(map[string]int), 0
	for _, s := range states {
		if s.Snapshot {
			snapshots++
		} else {
			words[s.Word]++
		}
	}
	add(words[deadtrace.Running], deadtrace.Running)
	if snapshots == 1 {
		add(1, "snapshot of a running process")
	} else {
		add(snapshots, "snapshots of a running process")
	}
	for _, word := range []string{deadtrace.Ended, deadtrace.Killed, deadtrace.Damaged} {
		add(words[word], word)
	}
	return strings.Join(parts, ", ")
}

// stateOfTitle returns the text about the states of files that follows the title of a trace.
func stateOfTitle(states []convert.State) string {
	text := stateText(states)
	if len(states) > 1 && strings.Contains(text, ", ") {
		return "(" + text + ")"
	}
	return text
}

// stateLines returns a line for each file whose state is more than "ended". It returns no lines if the trace has
// only one file.
func stateLines(t *convert.Trace, states []convert.State) (lines []string) {
	if len(states) == 1 {
		return nil
	}
	for i, s := range states {
		s.Rotated = false
		if s.String() != deadtrace.Ended {
			lines = append(lines, fileName(t, i)+" "+s.String())
		}
	}
	return lines
}

// fileName returns the name of a file of a trace. If the trace is in ENTRACE's own format, this can be another
// name than the user gave.
func fileName(t *convert.Trace, file int) string {
	if _, own := t.Format(file).Own(); own && t.Name(file) != stdinName {
		return t.View().Files()[file].Name()
	}
	return t.Name(file)
}

// errPartial is part of the error for a file that is not whole if --allow-partial is not set.
var errPartial = errors.New("use --allow-partial to read the file as it is")

// whole returns an error if the trace is damaged or may get more entries.
func (s *selected) whole() error {
	if err := s.Damage(); err != nil {
		return err
	}
	for i, state := range statesOf(s.Trace) {
		if state.Word != deadtrace.Ended && !state.Recovered {
			return fmt.Errorf("%s is %s; %w", fileName(s.Trace, i), state, errPartial)
		}
	}
	return nil
}

// tellsNothing reports whether row r needs no line because the state of its file says the same. This is true for
// the end of a recording that has lost nothing, and for the mark that the file was recovered.
func tellsNothing(v *view.View, r view.Row) bool {
	if v.Role(r) != view.RoleRecorder || v.Name(r) != mapping.NameEnd {
		return v.Role(r) == view.RoleRecorder && v.Name(r) == mapping.NameRecovered
	}
	e, err := v.Entry(r)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(e.Attributes, func(a format.Attribute) bool { return a.Name == mapping.AttrDropped && !show.IsZero(a.Value) })
}
