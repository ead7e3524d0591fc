package gotrace

import "golang.org/x/exp/trace"

// A coroutine, such as iter.Pull makes, is a goroutine that runs instead of the one that has called it. So what it does, and
// what it waits for, is what its caller does.
type coroutine struct {
	isCoroutine    bool
	caller, callee *goroutine
	depth          int // how many callers are above it
}

const maxDepth = 64 // of coroutines that call others; a deeper one has no caller

// root returns the goroutine for which a coroutine runs, or else the goroutine itself.
func (g *goroutine) root() *goroutine {
	for g.caller != nil {
		g = g.caller
	}
	return g
}

// innermost returns the coroutine that runs for a goroutine, or else the goroutine itself.
func (g *goroutine) innermost() *goroutine {
	for g.callee != nil {
		g = g.callee
	}
	return g
}

// leaves takes a goroutine from those that it calls or is called by.
func (g *goroutine) leaves() {
	if g.caller != nil {
		g.caller.callee = nil
	}
	if g.callee != nil {
		g.callee.caller = nil
	}
	g.caller, g.callee, g.depth = nil, nil, 0
}

// switches calls a coroutine, or returns to the goroutine that has called this one.
func (p *pass) switches(g, next *goroutine) {
	if next.callee == g {
		g.leaves()
		return
	}
	if next.isOld && !next.isCoroutine && !g.isCoroutine && len(g.open) > 0 && len(next.open) == 0 { // its stack is not known
		p.noteCoroutine(next)
	}
	next.leaves() // so that no goroutine is its own caller
	switch {
	case !next.isCoroutine: // it has called this one before the trace
		g.leaves()
	case g.callee == nil && g.depth < maxDepth:
		g.callee, next.caller, next.depth = next, g, g.depth+1
	}
}

func (p *pass) noteCoroutine(g *goroutine) {
	g.isCoroutine = true
	if len(p.t.coroutines) < maxGoroutines && !p.quiet {
		p.t.coroutines[g.id] = true
	}
}

// actor returns the goroutine that an event is of, for a coroutine the one for which it runs.
func (p *pass) actor(e *trace.Event) (*goroutine, error) {
	g, err := p.goroutine(int64(e.Goroutine()))
	if err != nil {
		return nil, err
	}
	return g.root(), nil
}

const coroutineStart = "runtime.corostart" // runs what iter.Pull was given

// outermost returns the function with which a goroutine began that has a stack, or "".
func outermost(stack trace.Stack) (function string) {
	for f := range stack.Frames() {
		function = f.Func
	}
	return function
}
