package format

// RaceEnabled tells the external tests that pools drop what they are given.
const RaceEnabled = raceEnabled

// Recover is recorder.Recover, which a test from outside sets: package recorder imports this one.
var Recover func(name, output string) (*Recovered, error)

// Recovered is a report of package recorder.
type Recovered struct {
	Report

	Pending        int
	Output, Broken string
}
