package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
)

// maxFile is the maximum size of a policy file in bytes.
const maxFile = 1 << 20

// A FileError says where a policy in JSON is invalid.
type FileError struct {
	Offset int64  // in bytes; -1 if Field says where
	Field  string // such as "values[1].pattern"
	Err    error
}

func (e *FileError) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("%s: %v", e.Field, e.Err)
	}
	return fmt.Sprintf("at offset %d: %v", e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// Parse returns the policy that a JSON text describes. Its errors have type [*FileError]. All fields are
// optional:
//
//	{
//	  "default": true,                        begin with Default; with false begin with Off
//	  "keys": ["card.*", "user.email"],       see Policy.Keys
//	  "allow": ["http.request.header.*"],     see Policy.Allow
//	  "values": [                             see Policy.Values
//	    {"name": "card", "pattern": "\\b[0-9]{13,16}\\b", "luhn": true},
//	    {"name": "classified", "pattern": "TOP SECRET", "whole": true}
//	  ],
//	  "hash_key": "…"                         see Policy.Hash; at least 16 bytes
//	}
//
// A pattern is a regular expression of package regexp. With "luhn", a match is a secret only if [Luhn]
// accepts it.
func Parse(text []byte) (*Policy, error) {
	var f struct {
		Default *bool    `json:"default"`
		Keys    []string `json:"keys"`
		Allow   []string `json:"allow"`
		Values  []struct {
			Name    string `json:"name"`
			Pattern string `json:"pattern"`
			Luhn    bool   `json:"luhn"`
			Whole   bool   `json:"whole"`
		} `json:"values"`
		HashKey *string `json:"hash_key"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		at := d.InputOffset()
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = syntax.Offset
		} else if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			at = kind.Offset
		} else if errors.Is(err, io.ErrUnexpectedEOF) {
			at = int64(len(text))
		}
		return nil, &FileError{Offset: at, Err: err}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, &FileError{Offset: d.InputOffset(), Err: errors.New("unexpected text after the JSON object")}
	}
	p := Default()
	if f.Default != nil && !*f.Default {
		p = Off
	}
	p = p.Keys(f.Keys...).Allow(f.Allow...)
	for i, v := range f.Values {
		wrong := func(err error) (*Policy, error) {
			return nil, &FileError{Offset: -1, Field: fmt.Sprintf("values[%d].pattern", i), Err: err}
		}
		pattern, err := regexp.Compile(v.Pattern)
		if err != nil {
			return wrong(err)
		}
		if v.Pattern == "" {
			return wrong(errors.New("expected a regular expression, found an empty text"))
		}
		rule := Rule{Name: v.Name, Pattern: pattern, Whole: v.Whole}
		if v.Luhn {
			rule.Check = Luhn
		}
		p = p.Values(rule)
	}
	if f.HashKey != nil {
		if len(*f.HashKey) < 16 {
			return nil, &FileError{Offset: -1, Field: "hash_key", Err: fmt.Errorf("expected at least 16 bytes, found %d", len(*f.HashKey))}
		}
		p = p.Hash([]byte(*f.HashKey))
	}
	return p, nil
}

// Open returns the policy called name: "default" and "" are [Default], and "off" is [Off]. Any other name is
// the name of a file of at most one mebibyte, which is passed to [Parse].
func Open(name string) (*Policy, error) {
	switch name {
	case "", "default":
		return Default(), nil
	case "off":
		return Off, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: the file is larger than %d bytes", name, maxFile)
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}
