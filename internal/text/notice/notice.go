// Package notice logs messages of this module for operators: errors at WARN, and events of files at INFO. The
// messages go to stderr or to a handler of the application, never to a recorder.
package notice

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

var (
	console atomic.Pointer[slog.Handler] // nil: text on stderr
	instead atomic.Pointer[func(error)]  // receives the errors in place of the console
	quiet   atomic.Bool                  // suppresses Info
)

// prefix begins every line.
const prefix = "entrace: "

// SetConsole sets the handler for messages. A nil handler means text on stderr.
func SetConsole(h slog.Handler) {
	if h == nil {
		console.Store(nil)
		return
	}
	console.Store(&h)
}

// SetErrorHandler sets a function that receives errors in place of the console. A nil function means the
// console. SetErrorHandler returns the previous function, or nil if none was set.
func SetErrorHandler(fn func(error)) (before func(error)) {
	var next *func(error)
	if fn != nil {
		next = &fn
	}
	if old := instead.Swap(next); old != nil {
		return *old
	}
	return nil
}

// SetQuiet turns the messages of Info off if the parameter off is true, and on otherwise.
func SetQuiet(off bool) { quiet.Store(off) }

// Stderr returns a handler that writes text to stderr.
func Stderr() slog.Handler { return slog.NewTextHandler(os.Stderr, nil) }

// Error reports an error after which the program continues. It must not be called while a mutex is held,
// because it can call code of the application.
func Error(err error) {
	if fn := instead.Load(); fn != nil {
		(*fn)(err)
		return
	}
	say(slog.LevelWarn, err.Error())
}

// Info logs a text about a file, unless SetQuiet has turned it off.
func Info(text string) {
	if !quiet.Load() {
		say(slog.LevelInfo, text)
	}
}

func say(level slog.Level, text string) {
	defer func() { _ = recover() }() // a panic in a handler of the application must not end the program
	h := Stderr()
	if p := console.Load(); p != nil {
		h = *p
	}
	ctx := context.Background()
	if h.Enabled(ctx, level) {
		// An error of the console cannot be reported anywhere.
		_ = h.Handle(ctx, slog.NewRecord(time.Now(), level, prefix+strings.TrimPrefix(text, prefix), 0))
	}
}
