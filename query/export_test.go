package query

import "github.com/entrace-go/entrace/internal/columns"

// Tail is tail, for its test.
var Tail = tail

// MaxGroups is maxGroups, for its test.
var MaxGroups = &maxGroups

// SmallSummaries makes Summary work with few rows and durations at once, and returns what undoes
// that.
func SmallSummaries(names int) (undo func()) {
	rows, took, all := selfRows, maxTook, maxNames
	selfRows, maxTook, maxNames = columns.BlockRows, 8, names
	return func() { selfRows, maxTook, maxNames = rows, took, all }
}

// What the tests compare with figures of their own.
var (
	MannWhitney = mannWhitney
	Pattern     = patternOf
)

// MaxPatterns is maxPatterns, for its test.
const MaxPatterns = maxPatterns
