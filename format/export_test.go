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

// Inspect opens a file for its Report.
func Inspect(name string) (*Report, error) {
	f, err := Open(name, &OpenOptions{Prefix: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Report()
}

// Verify opens a file for its Verify and its Report.
func Verify(name string, found func(problem error)) (*Report, error) {
	f, err := Open(name, &OpenOptions{Lenient: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Verify(found); err != nil {
		return nil, err
	}
	return Inspect(name)
}
