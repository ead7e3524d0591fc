//go:build race

package recorder

// raceEnabled is true under the race detector. Large tests are then smaller.
const raceEnabled = true
