package filesource

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/text/quantity"
)

// A decoder sets the fields of a configuration from the nodes of a YAML tree. After a problem it continues,
// and the field has its default.
type decoder struct {
	file     string
	places   map[string]place // the places of the values in the file, by path
	problems []*Error
	visited  int // number of keys and values so far; each use of an alias counts
}

// spend counts a node, and reports whether the count is within maxNodes. When the count first exceeds maxNodes, spend
// adds a problem.
func (d *decoder) spend(n *yaml.Node, path string) bool {
	d.visited++
	if d.visited == maxNodes+1 {
		d.problem(placeOf(n), path, fmt.Errorf("the file has more than %d keys and values, with those of aliases", maxNodes))
	}
	return d.visited <= maxNodes
}

// value sets v from the node n at path. A key of a struct is its field name in snake case: per_hour for
// PerHour.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value) {
	switch to := v.Addr().Interface().(type) {
	case *control.Set:
		d.providers(n, path, to)
	case *map[string]string:
		d.params(n, path, to)
	case *time.Duration:
		scalar(d, n, path, "a duration", to, func(s string) (time.Duration, error) { return inRange(s, quantity.ParseDuration) })
	case *int64:
		scalar(d, n, path, "a size", to, func(s string) (int64, error) { return inRange(s, quantity.ParseBytes) })
	case *int:
		scalar(d, n, path, "a whole number", to, func(s string) (int, error) { return inRange(s, parseInt) })
	case *bool:
		scalar(d, n, path, "true or false", to, parseBool)
	case *slog.Level:
		scalar(d, n, path, "a level", to, parseLevel)
	default:
		switch v.Kind() {
		case reflect.Struct:
			d.mapping(n, path, v)
		case reflect.Slice:
			v.SetZero()
			d.list(n, path, func(n *yaml.Node, path string) {
				v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
				d.value(n, path, v.Index(v.Len()-1))
			})
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			d.value(n, path, v.Elem())
		default: // a text, even if the scalar looks like a number
			s := v.String()
			scalar(d, n, path, "text", &s, func(text string) (string, error) { return text, nil })
			v.SetString(s)
		}
	}
}

// mapping sets the fields of a struct.
func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value) {
	var names []string
	for f := range v.Type().Fields() {
		names = append(names, keyOf(f.Name))
	}
	d.pairs(n, path, func(key, value *yaml.Node) {
		i := slices.Index(names, key.Value)
		if i < 0 {
			d.problem(placeOf(key), path, fmt.Errorf("unknown key %s: known keys are %s", quote(key.Value), strings.Join(names, ", ")))
			return
		}
		path := join(path, key.Value)
		if isEmpty(value) { // like a missing key
			d.places[path] = placeOf(value)
			return
		}
		d.value(value, path, v.Field(i))
	})
}

// keyOf returns the key of a field in snake case: per_hour for PerHour.
func keyOf(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if i > 0 && unicode.IsUpper(rune(name[i])) && unicode.IsLower(rune(name[i-1])) {
			b.WriteByte('_')
		}
		b.WriteByte(name[i])
	}
	return strings.ToLower(b.String())
}

// pairs calls f with each key of a mapping, and its value.
func (d *decoder) pairs(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	m, ok := d.visit(n, path, yaml.MappingNode, "a mapping")
	if !ok {
		return
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(m.Content); i += 2 {
		key := m.Content[i]
		if !d.spend(key, path) {
			return
		}
		var err error
		first, twice := lines[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			err = fmt.Errorf("a key must be text, found %s", kindOf(key))
		case key.Style&yaml.TaggedStyle != 0:
			err = errTag
		case key.Tag == "!!merge":
			err = errors.New("merge keys (<<) are not supported: copy the keys instead")
		case len(key.Value) > maxText:
			err = errLong
		case twice:
			err = fmt.Errorf("key %s is used twice: first in line %d", quote(key.Value), first)
		default:
			lines[key.Value] = key.Line
			f(key, m.Content[i+1])
			continue
		}
		d.problem(placeOf(key), path, err)
	}
}

// list calls f with each element of a list.
func (d *decoder) list(n *yaml.Node, path string, f func(n *yaml.Node, path string)) {
	l, ok := d.visit(n, path, yaml.SequenceNode, "a list")
	if !ok {
		return
	}
	for i, n := range l.Content {
		if d.visited > maxNodes {
			return
		}
		f(n, path+"["+strconv.Itoa(i)+"]")
	}
}

// scalar sets *to to the result of parse. The parameter what names the expected kind of value in errors.
func scalar[T any](d *decoder, n *yaml.Node, path, what string, to *T, parse func(string) (T, error)) {
	s, ok := d.visit(n, path, yaml.ScalarNode, what)
	if !ok {
		return
	}
	v, err := parse(s.Value)
	if err != nil {
		d.problem(placeOf(n), path, err)
		return
	}
	*to = v
}

// providers reads a list of names.
func (d *decoder) providers(n *yaml.Node, path string, to *control.Set) {
	*to = 0
	d.list(n, path, func(n *yaml.Node, path string) {
		var one control.Set
		scalar(d, n, path, "text", &one, func(name string) (control.Set, error) { return control.Named(name) })
		*to |= one
	})
}

// params reads a mapping of PROVIDER.NAME to scalars.
func (d *decoder) params(n *yaml.Node, path string, to *map[string]string) {
	params := make(map[string]string)
	d.pairs(n, path, func(key, value *yaml.Node) {
		if err := checkParam(key.Value); err != nil {
			d.problem(placeOf(key), path, err)
			return
		}
		var v string
		d.value(value, join(path, key.Value), reflect.ValueOf(&v).Elem())
		params[key.Value] = v
	})
	*to = params
}

// visit returns the node n, or its target if n is an alias. If the node is not of the given kind, visit adds a
// problem and returns false.
func (d *decoder) visit(n *yaml.Node, path string, kind yaml.Kind, what string) (*yaml.Node, bool) {
	if !d.spend(n, path) {
		return nil, false
	}
	d.places[path] = placeOf(n)
	v := resolve(n)
	switch {
	case v.Style&yaml.TaggedStyle != 0:
		d.problem(placeOf(n), path, errTag)
	case v.Kind != kind || isEmpty(v):
		d.problem(placeOf(n), path, fmt.Errorf("must be %s, found %s", what, kindOf(v)))
	case len(v.Value) > maxText:
		d.problem(placeOf(n), path, errLong)
	default:
		return v, true
	}
	return nil, false
}

var (
	errTag  = errors.New("YAML tags such as !!str are not supported")
	errLong = fmt.Errorf("text is longer than %d bytes", maxText)
)

// resolve returns the target of n if n is an alias, else n. A target is never an alias itself.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// isEmpty reports whether n is null, for example the value of a key with nothing after it.
func isEmpty(n *yaml.Node) bool {
	n = resolve(n)
	return n.Kind == 0 || n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Style&yaml.TaggedStyle == 0
}

func kindOf(n *yaml.Node) string {
	switch {
	case isEmpty(n):
		return "nothing"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	}
	return "text"
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		err = errors.New("not a whole number")
	}
	return n, err
}

// inRange parses a number or a quantity, and adds text to an error.
func inRange[T any](text string, parse func(string) (T, error)) (v T, err error) {
	v, err = parse(text)
	switch {
	case errors.Is(err, quantity.ErrRange), errors.Is(err, strconv.ErrRange):
		err = fmt.Errorf("%s is out of range", quote(text))
	case err != nil:
		err = fmt.Errorf("%s is %w", quote(text), err)
	}
	return v, err
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	return false, fmt.Errorf("%s must be true or false", quote(text))
}

// parseLevel reads a level like [slog.Level.UnmarshalText], and also the level trace, which is debug-4.
func parseLevel(text string) (slog.Level, error) {
	if strings.EqualFold(text, "trace") {
		return slog.LevelDebug - 4, nil
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("%s is not a level: use trace, debug, info, warn, error, or one of them with an offset, such as error+2", quote(text))
	}
	return l, nil
}

// checkParam returns an error if the name of a parameter is not valid.
func checkParam(name string) error {
	err := fmt.Errorf("parameter %s must have the form PROVIDER.NAME", quote(name))
	if strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == utf8.RuneError || !unicode.IsPrint(c) }) {
		return err
	}
	for i := 1; i < len(name)-1; i++ {
		if name[i] != '.' {
			continue
		}
		_, unknown := control.Named(name[:i])
		if unknown == nil {
			return nil
		}
		err = fmt.Errorf("parameter %s: %w", quote(name), unknown)
	}
	return err
}
