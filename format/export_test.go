package format

// RaceEnabled tells external tests that the race detector is on. It makes pools drop objects at random.
const RaceEnabled = raceEnabled

// Recover is recorder.Recover. An external test sets it, because package recorder imports this package.
var Recover func(name, output string) (*Recovered, error)

// Recovered is a report of package recorder.
type Recovered struct {
	Report

	Pending        int
	Output, Broken string
}

// Inspect opens a file and returns its Report.
func Inspect(name string) (*Report, error) {
	f, err := Open(name, &OpenOptions{Prefix: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Report()
}

// Verify opens a file, calls its Verify, and returns its Report.
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
