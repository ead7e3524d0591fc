package filesource

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/text"
)

// maxSize is the maximum size of a configuration file in bytes.
const maxSize = 256 << 10

// Limits of a file. Each use of an alias counts again.
const (
	maxDepth = 64
	maxNodes = 20_000
	maxText  = 4096
)

// Parse reads a configuration and validates it. Missing keys have the values of [control.DefaultConfig].
// name is used only in errors. Parse does not keep text.
//
// The error is an [*Error], or several Errors joined in the order of the file: at most 20 Errors, and one with the
// number of further problems. If an Error is about a field, it wraps a [*control.FieldError].
func Parse(name string, text []byte) (*control.Config, error) {
	return parse(name, text, control.DefaultConfig())
}

// parse is Parse with other values for missing keys.
func parse(name string, text []byte, defaults *control.Config) (*control.Config, error) {
	n, err := document(name, text)
	if err != nil {
		return nil, err
	}
	c := &control.Config{ID: fmt.Sprintf("sha256:%.6x", sha256.Sum256(text)), Dir: defaults.Dir, Keep: defaults.Keep, Ring: defaults.Ring}
	c.Ring.Params = maps.Clone(defaults.Ring.Params)
	d := &decoder{file: name, places: make(map[string]place)}
	d.value(n, "", reflect.ValueOf(c).Elem())
	if len(d.problems) == 0 { // an invalid value may cause further errors in Validate
		d.validate(c)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// document returns the root of the only document in text.
func document(name string, text []byte) (root *yaml.Node, err error) {
	fail := func(at place, text string, args ...any) error {
		return &Error{File: name, Line: at.line, Column: at.column, Err: fmt.Errorf(text, args...)}
	}
	if len(text) > maxSize {
		return nil, tooLarge(name)
	}
	if at, what := notText(text); what != "" {
		return nil, fail(at, "%s", what)
	}
	defer func() {
		if p := recover(); p != nil { // the YAML library panicked
			root, err = nil, fail(place{}, "parse YAML: %v", p)
		}
	}()
	l, err := yaml.NewLoader(bytes.NewReader(text),
		yaml.WithUniqueKeys(false), // pairs reports duplicate keys, with their places
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, fail(place{}, "parse YAML: %w", err)
	}
	var first, second yaml.Node
	err = l.Load(&first)
	switch {
	case errors.Is(err, io.EOF), err == nil && isEmpty(content(&first)):
		return nil, fail(place{}, "the file has no configuration")
	case err != nil:
		return nil, syntaxError(name, err)
	}
	err = l.Load(&second)
	switch {
	case errors.Is(err, io.EOF):
		return content(&first), nil
	case err != nil:
		return nil, syntaxError(name, err)
	}
	return nil, fail(placeOf(&second), "unexpected second YAML document: the file must have only one")
}

// content returns the root of the document n.
func content(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		return n.Content[0]
	}
	return n
}

func tooLarge(name string) error {
	return &Error{File: name, Err: fmt.Errorf("the file is larger than %d bytes", maxSize)}
}

// syntaxError converts an error of the YAML library to an Error.
func syntaxError(name string, err error) error {
	e := &Error{File: name, Err: err}
	if l, ok := errors.AsType[*yaml.LoadError](err); ok {
		mark := l.Mark
		if mark.Line == 0 {
			mark = l.ContextMark
		}
		says := l.Message
		if l.ContextMsg != "" {
			says = l.ContextMsg + ": " + says
		}
		e.Line, e.Column, e.Err = mark.Line, mark.Column, errors.New(text.Head(says, 200)) // l.Message may quote the file
	}
	return e
}

// notText returns the place and a description of the first character that YAML does not allow. The error of
// the library has no place.
func notText(text []byte) (at place, what string) {
	at = place{1, 1}
	for len(text) > 0 {
		c, n := utf8.DecodeRune(text)
		text = text[n:]
		switch {
		case c == utf8.RuneError && n == 1:
			return at, "the text is not UTF-8"
		// The library treats these characters as line breaks.
		case c == '\n', c == '\r' && (len(text) == 0 || text[0] != '\n'), c == 0x85, c == 0x2028, c == 0x2029:
			at = place{at.line + 1, 1}
			continue
		case c < ' ' && c != '\t' && c != '\r', c >= 0x7f && c < 0xa0 && c != 0x85:
			return at, fmt.Sprintf("control character %U is not allowed", c)
		}
		at.column++
	}
	return at, ""
}
