package gotrace

import "golang.org/x/exp/trace"

// A coroutine, such as one made by iter.Pull, is a goroutine that runs in place of the goroutine that has
// called it. So its work and its waits count as work and waits of the caller.
type coroutine struct {
	isCoroutine    bool
	caller, callee *goroutine
	depth          int // number of callers above it
}

const maxDepth = 64 // maximum number of nested coroutines; a deeper one has no caller

// root returns the goroutine for which the coroutine g runs, or g itself if it is not a coroutine.
func (g *goroutine) root() *goroutine {
	for g.caller != nil {
		g = g.caller
	}
	return g
}

// innermost returns the coroutine that runs for the goroutine g, or g itself if there is none.
func (g *goroutine) innermost() *goroutine {
	for g.callee != nil {
		g = g.callee
	}
	return g
}

// leaves removes the goroutine from its caller and its callee.
func (g *goroutine) leaves() {
	if g.caller != nil {
		g.caller.callee = nil
	}
	if g.callee != nil {
		g.callee.caller = nil
	}
	g.caller, g.callee, g.depth = nil, nil, 0
}

// switches handles a switch from g to next: a call of the coroutine next, or a return to the caller next.
func (p *spanPass) switches(g, next *goroutine) {
	if next.callee == g {
		g.leaves()
		return
	}
	// The stack of next is not known here.
	if next.isOld && !next.isCoroutine && !g.isCoroutine && len(g.open) > 0 && len(next.open) == 0 {
		p.noteCoroutine(next)
	}
	next.leaves() // otherwise a goroutine could be its own caller
	switch {
	case !next.isCoroutine: // next has called g before the trace
		g.leaves()
	case g.callee == nil && g.depth < maxDepth:
		g.callee, next.caller, next.depth = next, g, g.depth+1
	}
}

func (p *spanPass) noteCoroutine(g *goroutine) {
	g.isCoroutine = true
	if len(p.t.coroutines) < maxGoroutines && !p.quiet {
		p.t.coroutines[g.id] = true
	}
}

// actor returns the goroutine of an event. For a coroutine this is the goroutine for which it runs.
func (p *spanPass) actor(e *trace.Event) (*goroutine, error) {
	g, err := p.goroutine(int64(e.Goroutine()))
	if err != nil {
		return nil, err
	}
	return g.root(), nil
}

const coroutineStart = "runtime.corostart" // runs the function that was passed to iter.Pull

// outermost returns the outermost function of a stack, with which the goroutine began, or "" for an empty
// stack.
func outermost(stack trace.Stack) (function string) {
	for f := range stack.Frames() {
		function = f.Func
	}
	return function
}
