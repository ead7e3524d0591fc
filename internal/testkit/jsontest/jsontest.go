// Package jsontest reads JSON in tests without losing the precision of numbers.
package jsontest

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
)

// Parse returns the value of the JSON text b, for comparison with reflect.DeepEqual. Floats are returned as their
// bits, because the same float can be written in several ways. Integers are returned as their digits, because they
// may be larger than any Go type.
func Parse(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return exact(v)
}

func exact(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return v.String(), nil
		}
		f, err := v.Float64()
		return math.Float64bits(f), err
	case []any:
		for i := range v {
			v[i], err = exact(v[i])
			if err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			v[k], err = exact(v[k])
			if err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
