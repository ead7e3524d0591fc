//go:build race

package exporter_test

// raceEnabled says that pools drop what they are given, now and then.
const raceEnabled = true
