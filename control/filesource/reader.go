package filesource

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/entrace-go/entrace/control"
)

// A reader takes a configuration from a tree of nodes. It goes on after a problem:
// all are told.
type reader struct {
	file     string
	places   map[string]place // by path, of the values
	problems []*Error
	failed   []string // paths of the values that could not be read
	visited  int      // keys and values, those of an alias each time that it is used
}

// spend counts a node, and reports whether there can be so many. The problem is
// told once.
func (r *reader) spend(n *yaml.Node, path string) bool {
	if r.visited++; r.visited == maxNodes+1 {
		r.failf(n, path, "more than %d keys and values, with those of aliases", maxNodes)
	}
	return !r.spent()
}

func (r *reader) spent() bool { return r.visited > maxNodes }

// A read takes what it reads from the value n, which path names. If it cannot it
// leaves the default.
type read func(n *yaml.Node, path string)

type field struct {
	name string
	read read
}

// mapping reads a mapping that has some of the fields.
func (r *reader) mapping(fields ...field) read {
	return func(n *yaml.Node, path string) {
		r.pairs(n, path, func(key, value *yaml.Node) {
			for _, f := range fields {
				if f.name == key.Value {
					r.optional(value, join(path, f.name), f.read)
					return
				}
			}
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = f.name
			}
			// What is in the mapping is right but for this, and Validate can look at it.
			r.problem(placeOf(key), path, fmt.Errorf("unknown key %s: there are %s", quote(key.Value), strings.Join(names, ", ")))
		})
	}
}

// optional reads a value unless it is null, which is as if there were no key.
func (r *reader) optional(n *yaml.Node, path string, read read) {
	if isEmpty(n) {
		r.places[path] = placeOf(n)
		return
	}
	read(n, path)
}

// pairs calls f with each key of a mapping, and its value.
func (r *reader) pairs(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	m, ok := r.visit(n, path, yaml.MappingNode, "a mapping")
	if !ok {
		return
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, value := m.Content[i], m.Content[i+1]
		if !r.spend(key, path) {
			return
		}
		first, twice := lines[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.problem(placeOf(key), path, fmt.Errorf("a key must be text, and is %s", kindOf(key)))
		case key.Style&yaml.TaggedStyle != 0:
			r.problem(placeOf(key), path, errTag)
		case key.Tag == "!!merge":
			r.problem(placeOf(key), path, errMerge)
		case len(key.Value) > maxText:
			r.problem(placeOf(key), path, errLong)
		case twice:
			r.problem(placeOf(key), path, fmt.Errorf("key %s comes twice: first in line %d", quote(key.Value), first))
		default:
			lines[key.Value] = key.Line
			f(key, value)
		}
	}
}

// list reads a list into *to, each element with what elem returns for it.
func list[T any](r *reader, to *[]T, elem func(*T) read) read {
	return func(n *yaml.Node, path string) {
		l, ok := r.visit(n, path, yaml.SequenceNode, "a list")
		if !ok {
			return
		}
		*to = nil
		for i, n := range l.Content {
			if r.spent() {
				return
			}
			*to = append(*to, *new(T))
			elem(&(*to)[i])(n, path+"["+strconv.Itoa(i)+"]")
		}
	}
}

// scalar reads a scalar with parse. What it is to be is for errors.
func scalar[T any](r *reader, to *T, what string, parse func(string) (T, error)) read {
	return func(n *yaml.Node, path string) {
		s, ok := r.visit(n, path, yaml.ScalarNode, what)
		if !ok {
			return
		}
		v, err := parse(s.Value)
		if err != nil {
			r.fail(n, path, err)
			return
		}
		*to = v
	}
}

// text reads a scalar as it is written: a number is text, too.
func text[T ~string](r *reader, to *T) read {
	return scalar(r, to, "text", func(s string) (T, error) { return T(s), nil })
}

// providers reads a list of names.
func (r *reader) providers(to *control.Set) read {
	return func(n *yaml.Node, path string) {
		var each []control.Set
		list(r, &each, func(s *control.Set) read {
			return scalar(r, s, "text", func(name string) (control.Set, error) { return named(name) })
		})(n, path)
		*to = 0
		for _, s := range each {
			*to |= s
		}
	}
}

// params reads a mapping of PROVIDER.NAME to scalars.
func (r *reader) params(to *map[string]string) read {
	return func(n *yaml.Node, path string) {
		params := make(map[string]string)
		r.pairs(n, path, func(key, value *yaml.Node) {
			if err := checkParam(key.Value); err != nil {
				r.problem(placeOf(key), path, err)
				return
			}
			var v string
			text(r, &v)(value, join(path, key.Value))
			params[key.Value] = v
		})
		*to = params
	}
}

// visit returns the value n, or what it is an alias of, if it is of that kind.
func (r *reader) visit(n *yaml.Node, path string, kind yaml.Kind, what string) (*yaml.Node, bool) {
	if !r.spend(n, path) {
		return nil, false
	}
	r.places[path] = placeOf(n)
	v := resolve(n)
	switch {
	case v.Style&yaml.TaggedStyle != 0:
		r.fail(n, path, errTag)
	case v.Kind != kind || isEmpty(v):
		r.failf(n, path, "must be %s, and is %s", what, kindOf(v))
	case len(v.Value) > maxText:
		r.fail(n, path, errLong)
	default:
		return v, true
	}
	return nil, false
}

var (
	errTag   = errors.New("tags are not supported")
	errMerge = errors.New("merge keys (<<) are not supported: write out what is to be merged")
	errLong  = fmt.Errorf("is longer than %d bytes", maxText)
)

// resolve returns what n is an alias of. An alias of an alias cannot be written.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// isEmpty reports whether n is null, as a key is that has nothing after it.
func isEmpty(n *yaml.Node) bool {
	n = resolve(n)
	return n.Kind == 0 || n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Style&yaml.TaggedStyle == 0
}

func kindOf(n *yaml.Node) string {
	switch {
	case isEmpty(n):
		return "empty"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	}
	return "text"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
