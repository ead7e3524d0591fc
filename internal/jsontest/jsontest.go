// Package jsontest reads JSON in tests without losing what numbers are.
package jsontest

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
)

// Parse returns what b holds, to be compared with reflect.DeepEqual: floats as
// their bits, since they have more than one notation, integers as their digits,
// since they may be larger than any type.
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
			if v[i], err = exact(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = exact(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
