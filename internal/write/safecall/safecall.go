// Package safecall calls code of the application. A panic of this code does not end the program. The
// package also detects that the code ends its goroutine with runtime.Goexit, for example by t.FailNow.
package safecall

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"sync/atomic"
)

// A Guard calls functions of the application and reports the first one that panics or ends its goroutine.
// It is safe for concurrent use.
type Guard struct {
	// Tell, if set, is called with an error about the first panic or Goexit. Tell itself may panic or call
	// Goexit.
	Tell func(error)

	told atomic.Bool
}

// Call calls fn and recovers its panic. The parameter name is the name of fn in the error. Goexit cannot
// be stopped: if fn calls it, Call does not return, and the goroutine ends.
func (g *Guard) Call(name string, fn func()) {
	returned := false
	defer func() {
		p := recover()
		if returned || g.told.Swap(true) || g.Tell == nil {
			return
		}
		err := fmt.Errorf("%s ended its goroutine, as t.FailNow does (reported only once)", name)
		if p != nil {
			err = fmt.Errorf("%s panicked (reported only once): %s", name, Text(p))
		}
		g.Call("", func() { g.Tell(err) })
	}()
	fn()
	returned = true
}

// Serve calls the functions that next returns, one after the other, as Call does, until next returns false.
// If a function ends its goroutine, a new goroutine continues, and Serve does not return. Therefore, code
// that must run after the last function belongs in next.
func (g *Guard) Serve(next func() (name string, fn func(), ok bool)) {
	returned := false
	defer func() {
		if !returned {
			go g.Serve(next)
		}
	}()
	for name, fn, ok := next(); ok; name, fn, ok = next() {
		g.Call(name, fn)
	}
	returned = true
}

// Run calls fn and returns its error. If fn panics, Run returns the panic and its stack as an
// error.
func Run(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %s\n%s", Text(p), debug.Stack())
		}
	}()
	return fn()
}

// Text describes the value of a panic. If a method of the value panics, the text says so. If the value
// could contain itself, the text is only its type.
func Text(p any) string {
	switch p.(type) {
	case error, fmt.Stringer:
		return fmt.Sprint(p) // Sprint recovers a panic of the method
	}
	if t := reflect.TypeOf(p); t == nil || isFlat(t) {
		return fmt.Sprint(p)
	}
	return fmt.Sprintf("%T", p)
}

// isFlat reports whether values of type t contain no references to other values.
func isFlat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return isFlat(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !isFlat(f.Type) {
				return false
			}
		}
		return true
	}
	return t.Kind() <= reflect.Complex128 || t.Kind() == reflect.String
}
