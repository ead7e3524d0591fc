package expect

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// long is the number of lines or elements from which on report adds the difference.
const long = 4

// report returns the message for two values that are not equal.
func report(got, want any, format string, args []any) string {
	what := fmt.Sprintf(format, args...)
	g, w := show(got), show(want)
	if strings.Contains(g+w, "\n") {
		return fmt.Sprintf("%s: got\n%s\nwant\n%s%s", what, g, w, difference(got, want))
	}
	return fmt.Sprintf("%s: got %s, want %s%s", what, g, w, difference(got, want))
}

// show returns the text of a value. Texts of one line, and those in a slice, are quoted.
func show(v any) string {
	if _, named := v.(fmt.Stringer); named {
		return fmt.Sprint(v)
	}
	x := reflect.ValueOf(v)
	switch x.Kind() {
	case reflect.String:
		if strings.Contains(x.String(), "\n") {
			return x.String()
		}
		return fmt.Sprintf("%q", v)
	case reflect.Slice, reflect.Array:
		if k := x.Type().Elem().Kind(); k == reflect.String || x.Kind() == reflect.Slice && k == reflect.Uint8 {
			return fmt.Sprintf("%q", v)
		}
	}
	return fmt.Sprintf("%+v", v)
}

// difference returns the lines or elements in which two long values differ, and nothing for other values.
func difference(got, want any) string {
	g, w := parts(got), parts(want)
	if max(len(g), len(w)) < long {
		return ""
	}
	first := 0
	for first < min(len(g), len(w)) && g[first] == w[first] {
		first++
	}
	g, w = g[first:], w[first:]
	for len(g) > 0 && len(w) > 0 && g[len(g)-1] == w[len(w)-1] {
		g, w = g[:len(g)-1], w[:len(w)-1]
	}
	where := fmt.Sprintf("element %d", first)
	if reflect.ValueOf(got).Kind() == reflect.String {
		where = fmt.Sprintf("line %d", first+1)
	}
	var b strings.Builder
	b.WriteString("\nthey differ at " + where)
	for _, part := range g {
		b.WriteString("\n\tgot  " + part)
	}
	for _, part := range w {
		b.WriteString("\n\twant " + part)
	}
	return b.String()
}

// parts returns the lines of a text, or the elements of a slice.
func parts(v any) []string {
	x := reflect.ValueOf(v)
	switch x.Kind() {
	case reflect.String:
		list := slices.Collect(strings.Lines(x.String()))
		for i, line := range list {
			list[i] = fmt.Sprintf("%q", line)
		}
		return list
	case reflect.Slice, reflect.Array:
		list := make([]string, x.Len())
		for i := range list {
			list[i] = show(x.Index(i).Interface())
		}
		return list
	}
	return nil
}
