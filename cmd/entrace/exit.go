package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

// The exit codes of the command.
const (
	exitFine  = 0
	exitData  = 1
	exitUsage = 2
	// exitInterrupted is the code that shells expect from a program that an interrupt ended.
	exitInterrupted = 130
)

// errQuiet ends the command with exitData and without a message, because the command has reported the
// problem already.
var errQuiet = errors.New("reported")

// errNone is the error if a query selects no rows, or if diff finds that a limit is exceeded.
var errNone = fmt.Errorf("%w: there is none", errQuiet)

// A usageError is a mistake in the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usagef(text string, args ...any) error { return &usageError{fmt.Errorf(text, args...)} }

// thereAlready returns the error if the output name exists and must not be replaced.
func thereAlready(name string) error { return usagef("%s already exists", name) }

// A checkError ends a command with status 2: the command has no answer.
type checkError struct{ error }

func (e *checkError) Unwrap() error { return e.error }

// asCheck makes err end the command with status 2. An errQuiet, such as errNone, still ends the command with
// exitData.
func asCheck(err error) error {
	if err == nil || errors.Is(err, errNone) {
		return err
	}
	return &checkError{err}
}

// A statusError ends the command with a given status.
type statusError struct {
	code int
	err  error // nil if no message is printed
}

func (e *statusError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// isBrokenPipe reports whether err means that the reader of the output has closed the pipe.
func isBrokenPipe(err error) bool {
	if runtime.GOOS == "windows" {
		const brokenPipe, noData = syscall.Errno(109), syscall.Errno(232)
		return errors.Is(err, brokenPipe) || errors.Is(err, noData)
	}
	return errors.Is(err, syscall.EPIPE)
}

// isInterrupt reports whether err means that a signal told the command to end.
func isInterrupt(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}
