package main

import (
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// TestStateTextCountsFiles checks the text about the states of several files.
func TestStateTextCountsFiles(t *testing.T) {
	ended, killed, snapshot := convert.State{Word: deadtrace.Ended}, convert.State{Word: deadtrace.Killed, Recovered: true}, convert.State{Word: deadtrace.Ended, Snapshot: true}
	for want, states := range map[string][]convert.State{
		"":                  nil,
		"killed, recovered": {killed},
		"ended":             {ended, ended},
		"2 snapshots of a running process, 1 ended, 1 killed": {killed, snapshot, ended, snapshot},
	} {
		expect.Equal(t, stateText(states), want, "of %v", states)
	}
}
