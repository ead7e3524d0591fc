package viewer

import "github.com/entrace-go/entrace/internal/analyze"

// Rest drops the results of requests, as the handler does when no request has come for a while.
func (h *Handler) Rest() { h.rest() }

// Longest exports largest for steps.
func Longest(steps []analyze.Step, n int) func(x *analyze.Step) bool {
	is := largest(steps, n, durationOf)
	return func(x *analyze.Step) bool { return is(x.Duration) }
}

// Update says whether the test flag -update is set.
var Update = update
