package safecall

import "runtime"

// Dying reports whether the goroutine of the caller runs its deferred functions because of a panic, or is the
// main goroutine and runs them because of runtime.Goexit. If nothing recovers the panic, the process then
// ends. If a deferred function has recovered the panic, Dying still returns true in this function, because Go
// does not show it.
func Dying() bool {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(1, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*n)
		n = runtime.Callers(1, pcs)
	}
	frames, exits := runtime.CallersFrames(pcs[:n]), false
	for more := n > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		switch f.Function {
		case "runtime.gopanic":
			return true
		case "runtime.Goexit":
			exits = true
		case "runtime.main":
			return exits
		}
	}
	return false
}
