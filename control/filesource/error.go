package filesource

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/entrace-go/entrace/control"
)

// An Error says what is wrong at one place of a file. Several are joined as with
// [errors.Join].
type Error struct {
	File string // the name that [Parse] or [New] was given
	// Line and Column count from 1, the column in characters. Both are 0 for what is
	// wrong with the file as a whole.
	Line, Column int
	// Path is the field, as in "traces[1].on[0].key", or "" for the document.
	Path string
	// Err is a [*control.FieldError] with the same path unless that is "".
	Err error
}

// Error returns "FILE:LINE:COLUMN: PATH: " and what is wrong, without what is not known.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		b.WriteString(strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column) + ":")
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// maxProblems is how many problems are told at once.
const maxProblems = 20

// fail notes what is wrong with the value n, which path names.
func (r *reader) fail(n *yaml.Node, path string, err error) {
	r.failed = append(r.failed, path)
	r.problem(placeOf(n), path, err)
}

func (r *reader) failf(n *yaml.Node, path, text string, args ...any) {
	r.fail(n, path, fmt.Errorf(text, args...))
}

func (r *reader) problem(at place, path string, err error) {
	if path != "" {
		err = &control.FieldError{Path: path, Err: err}
	}
	r.problems = append(r.problems, &Error{File: r.file, Line: at.line, Column: at.column, Path: path, Err: err})
}

// validate adds what [control.Config.Validate] finds, but for what follows from
// problems that are known already.
func (r *reader) validate(c *control.Config) {
	err := c.Validate()
	if err == nil {
		return
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		f, ok := errors.AsType[*control.FieldError](err)
		if !ok {
			r.problem(place{}, "", err)
		} else if !r.follows(f.Path) {
			r.problem(r.nearest(f.Path), f.Path, f.Err)
		}
	}
}

// dependents are the fields beside a field that cannot be judged without it.
var dependents = map[string][]string{
	"trigger": {"key", "level", "longer_than"},
	"mode":    {"window", "scope", "providers", "timeout", "max_bytes"},
}

// follows reports whether the value of path is not what the file says, since that
// could not be read.
func (r *reader) follows(path string) bool {
	return slices.ContainsFunc(r.failed, func(f string) bool {
		if within(path, f) || strings.HasPrefix(f, path+"[") {
			return true
		}
		dot := strings.LastIndexByte(f, '.') + 1
		for _, d := range dependents[f[dot:]] {
			if within(path, f[:dot]+d) {
				return true
			}
		}
		return false
	})
}

// within reports whether path is that of outer or of a part of it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

// nearest returns the place of the field or, if it is not in the file, that of
// what it would be in.
func (r *reader) nearest(path string) place {
	for {
		if at, ok := r.places[path]; ok || path == "" {
			return at
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// err returns all problems in the order of the file.
func (r *reader) err() error {
	slices.SortStableFunc(r.problems, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	var errs []error
	for i, p := range r.problems {
		if i == maxProblems {
			errs = append(errs, &Error{File: r.file, Err: fmt.Errorf("and %d more", len(r.problems)-i)})
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

// quote returns text as a message can have it.
func quote(text string) string {
	short := shorten(text, 64)
	if len(short) < len(text) {
		return strconv.Quote(short) + "…"
	}
	return strconv.Quote(text)
}

// shorten returns what is whole of the first most bytes of text.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
