// Package guard keeps panics of the application's code from ending the program when a library calls
// that code.
package guard

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"sync/atomic"
)

// A Guard calls functions of the application and reports the first one that panics. It is safe for
// concurrent use.
type Guard struct {
	// Tell, if set, is called with an error about the first panic. Tell may panic as well.
	Tell func(error)

	told atomic.Bool
}

// Call calls fn and recovers its panic. The name stands for fn in the error.
func (g *Guard) Call(name string, fn func()) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if !g.told.Swap(true) && g.Tell != nil {
			g.Call("", func() { g.Tell(fmt.Errorf("%s panicked, and later panics are not reported: %s", name, Text(p))) })
		}
	}()
	fn()
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

// Text describes the value of a panic. If a method of the value panics, the text says so. For a
// value that could contain itself, the text is only its type.
func Text(p any) string {
	switch p.(type) {
	case error, fmt.Stringer:
		return fmt.Sprint(p) // Sprint calls the method and recovers its panic
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
