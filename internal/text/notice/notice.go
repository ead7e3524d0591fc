// Package notice logs the messages of this module for operators: errors at level WARN, and events of files at
// level INFO. The messages go to stderr or to a handler of the application. They are never recorded.
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
	instead atomic.Pointer[func(error)]  // gets errors instead of the console
	quiet   atomic.Bool                  // suppresses Info
)

// prefix is the beginning of every message.
const prefix = "entrace: "

// SetConsole sets the handler for messages. A nil handler means text on stderr.
func SetConsole(h slog.Handler) {
	if h == nil {
		console.Store(nil)
		return
	}
	console.Store(&h)
}

// SetErrorHandler sets a function that gets errors instead of the console. With a nil function, the console gets
// them again. SetErrorHandler returns the previous function, or nil if there was none.
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

// Error reports an error after which the program continues. The caller must not hold a mutex, because Error may
// call code of the application.
func Error(err error) {
	if fn := instead.Load(); fn != nil {
		(*fn)(err)
		return
	}
	say(slog.LevelWarn, err.Error())
}

// Info logs a message about a file, unless SetQuiet has turned these messages off.
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
