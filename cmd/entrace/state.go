package main

import (
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
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
