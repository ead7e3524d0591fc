//go:build !race

package entrace_test

const raceEnabled = false
