//go:build race

package format

// raceEnabled makes large tests smaller.
const raceEnabled = true
