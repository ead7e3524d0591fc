package gotrace

import "golang.org/x/exp/trace"

// A coroutine, such as iter.Pull makes, is a goroutine that runs in place of the goroutine that called it. The work
// and the waits of a coroutine therefore count for its caller.
type coroutine struct {
	isCoroutine    bool
	caller, callee *goroutine
	depth          int // the number of callers above it
}

const maxDepth = 64 // the maximum number of nested coroutines; a deeper coroutine has no caller

// root returns the goroutine for which the coroutine g runs, or g itself if it is not a coroutine.
func (g *goroutine) root() *goroutine {
	for g.caller != nil {
		g = g.caller
	}
	return g
}

// innermost returns the innermost coroutine that runs for the goroutine g, or g itself if there is none.
func (g *goroutine) innermost() *goroutine {
	for g.callee != nil {
		g = g.callee
	}
	return g
}

// leaves separates the goroutine from its caller and its callee.
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
	// The stack of next is not known in this event.
	if next.isOld && !next.isCoroutine && !g.isCoroutine && len(g.open) > 0 && len(next.open) == 0 {
		p.noteCoroutine(next)
	}
	next.leaves() // without this, a goroutine could become its own caller
	switch {
	case !next.isCoroutine: // next called g before the trace began
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

// actor returns the goroutine for which an event counts. An event of a coroutine counts for the goroutine for which
// the coroutine runs.
func (p *spanPass) actor(e *trace.Event) (*goroutine, error) {
	g, err := p.goroutine(int64(e.Goroutine()))
	if err != nil {
		return nil, err
	}
	return g.root(), nil
}

const coroutineStart = "runtime.corostart" // the function that runs the function passed to iter.Pull

// outermost returns the outermost function of a stack, which started the goroutine. It returns "" if the stack is
// empty.
func outermost(stack trace.Stack) (function string) {
	for f := range stack.Frames() {
		function = f.Func
	}
	return function
}
