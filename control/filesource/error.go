package filesource

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/text"
)

// An Error is an error at one place of a file. Several Errors are joined with [errors.Join].
type Error struct {
	File string // the name that was passed to [Parse] or [New]
	// Line and Column count from 1, Column in characters. Both are 0 if the error is about the whole file.
	Line, Column int
	// Path is the path of the field, for example "traces[1].on[0].key", or "" for the document.
	Path string
	// Err is a [*control.FieldError] with the same path. If the path is "", Err is another error.
	Err error
}

// Error returns "FILE:LINE:COLUMN: PATH: PROBLEM". It leaves out unknown parts.
func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at = strings.TrimPrefix(fmt.Sprintf("%s:%d:%d", at, e.Line, e.Column), ":")
	}
	if at == "" {
		return e.Err.Error()
	}
	return at + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// maxProblems is the maximum number of problems in one error.
const maxProblems = 20

// problem adds a problem of the value at a place of the file. The value has the given path.
func (d *decoder) problem(at place, path string, err error) {
	if path != "" {
		err = &control.FieldError{Path: path, Err: err}
	}
	d.problems = append(d.problems, &Error{File: d.file, Line: at.line, Column: at.column, Path: path, Err: err})
}

// validate adds the errors of [control.Config.Validate].
func (d *decoder) validate(c *control.Config) {
	err := c.Validate()
	if err == nil {
		return
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		if f, ok := errors.AsType[*control.FieldError](err); ok {
			d.problem(d.nearest(f.Path), f.Path, f.Err)
		} else {
			d.problem(place{}, "", err)
		}
	}
}

// nearest returns the place in the file of the field at path. If the file does not have the field, it
// returns the place of the innermost mapping or list around it.
func (d *decoder) nearest(path string) place {
	for {
		if at, ok := d.places[path]; ok || path == "" {
			return at
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// err returns all problems, joined in the order of their places.
func (d *decoder) err() error {
	slices.SortStableFunc(d.problems, func(a, b *Error) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	var errs []error
	for i, p := range d.problems {
		if i == maxProblems {
			errs = append(errs, &Error{File: d.file, Err: fmt.Errorf("and %d more", len(d.problems)-i)})
			break
		}
		errs = append(errs, p)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

type place struct{ line, column int }

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

// quote returns s cut to 64 bytes and quoted, for an error message.
func quote(s string) string {
	short := text.Head(s, 64)
	if len(short) < len(s) {
		return strconv.Quote(short) + "…"
	}
	return strconv.Quote(s)
}
