//go:build !race

package recorder

// raceEnabled makes large tests smaller.
const raceEnabled = false
