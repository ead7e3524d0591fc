package query

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/entrace-go/entrace/internal/text"
)

// An Error describes a mistake in a query and its position.
type Error struct {
	Query string
	Pos   int    // the byte offset of the mistake in Query
	Text  string // a description of the mistake
	Hint  string // how to fix the mistake, or empty
	Try   string // a complete, valid query that the user may have meant, or empty
	// Unfinished is the field of a comparison that has no right side, or empty. If it is set,
	// WithValue can offer a query with a value from the trace.
	Unfinished string

	valueAt, valueEnd int // where the value is missing in Query
}

func (e *Error) Error() string {
	// The text can contain a word of the query, which can be very long.
	const maxErrorText = 200
	s := text.Cut(e.Text, maxErrorText)
	if e.Query != "" {
		s += fmt.Sprintf(", at %d (%s)", e.Pos+1, e.near())
	}
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// near returns the first few characters after the position of the error, in quotes.
func (e *Error) near() string {
	if e.Pos >= len(e.Query) {
		return "at the end"
	}
	rest := []rune(e.Query[e.Pos:])
	if len(rest) > 16 {
		return strconv.Quote(string(rest[:16]) + "…")
	}
	return strconv.Quote(string(rest))
}

// trying sets Try to a query and returns the error.
func (e *Error) trying(query string) *Error {
	e.Try = query
	return e
}

func asError(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}

// orNil returns e as an error, or a nil error if e is nil.
func (e *Error) orNil() error {
	if e == nil {
		return nil
	}
	return e
}
