// Package notice tells the people who run a program what the program cannot tell through its
// recorded logs: at WARN what goes wrong, at INFO what happens to files. It never writes to a
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
	quiet   atomic.Bool                  // says nothing at INFO
)

// prefix begins every line.
const prefix = "entrace: "

// SetConsole sets where lines go; nil is text on stderr.
func SetConsole(h slog.Handler) {
	if h == nil {
		console.Store(nil)
		return
	}
	console.Store(&h)
}

// SetErrorHandler sets a function that gets errors in place of the console; with nil they go
// to the console again. It returns the function that it replaces, nil if there was none.
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

// SetQuiet turns what Info says off.
func SetQuiet(off bool) { quiet.Store(off) }

// Stderr returns a handler that writes text to stderr.
func Stderr() slog.Handler { return slog.NewTextHandler(os.Stderr, nil) }

// Error tells of something that is no reason to stop. It must not be called with a lock held:
// it can lead into code of the application.
func Error(err error) {
	if fn := instead.Load(); fn != nil {
		(*fn)(err)
		return
	}
	say(slog.LevelWarn, err.Error())
}

// Info tells what happened to a file.
func Info(text string) {
	if !quiet.Load() {
		say(slog.LevelInfo, text)
	}
}

func say(level slog.Level, text string) {
	defer func() { _ = recover() }() // a handler of the application must not end it here
	h := Stderr()
	if p := console.Load(); p != nil {
		h = *p
	}
	ctx := context.Background()
	if h.Enabled(ctx, level) {
		_ = h.Handle(ctx, slog.NewRecord(time.Now(), level, prefix+strings.TrimPrefix(text, prefix), 0)) // nobody else could be told
	}
}
