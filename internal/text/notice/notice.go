// Package notice logs messages of this module for the people who run a program: errors at WARN, and what
// happens to files at INFO. The messages go to stderr or to a handler of the application, never to a
// recorder.
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
	instead atomic.Pointer[func(error)]  // gets the errors in place of the console
	quiet   atomic.Bool                  // suppresses Info
)

// prefix begins every line.
const prefix = "entrace: "

// SetConsole sets the handler of the messages. With nil they are written to stderr as text.
func SetConsole(h slog.Handler) {
	if h == nil {
		console.Store(nil)
		return
	}
	console.Store(&h)
}

// SetErrorHandler sets a function that gets errors in place of the console. With nil, errors go to
// the console again. SetErrorHandler returns the function that it replaces, nil if none was set.
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

// SetQuiet turns the messages of Info off or on.
func SetQuiet(off bool) { quiet.Store(off) }

// Stderr returns a handler that writes text to stderr.
func Stderr() slog.Handler { return slog.NewTextHandler(os.Stderr, nil) }

// Error reports an error after which the program goes on. It must not be called with a lock held,
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
		_ = h.Handle(ctx, slog.NewRecord(time.Now(), level, prefix+strings.TrimPrefix(text, prefix), 0)) // an error of the console cannot be reported anywhere
	}
}
