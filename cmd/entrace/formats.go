package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
)

// A foreignFormat is a format of others that convert knows.
type foreignFormat struct {
	name       string
	json       bool     // it is JSON, whatever the extension
	extensions []string // with the dot; the first is the usual one
	what       string
	decode     convert.Decoder // nil: it is written only
	encode     convert.Encoder
	lostIn     string // what decoding loses
	lostOut    string // what encoding loses
	// is tells from its beginning that a file is of the format; nil: it cannot be
	// told.
	is func(head []byte) bool
}

// nativeNames are the formats of ENTRACE's own, by the names that --from and --to
// take.
var nativeNames = []string{format.ET.String(), format.IET.String(), format.IETPrefix.String()}

// foreignNamed returns the format of that name, nil if it is none.
func foreignNamed(name string) *foreignFormat {
	for i := range foreignFormats {
		if foreignFormats[i].name == name {
			return &foreignFormats[i]
		}
	}
	return nil
}

// foreignExtension returns the format whose files have such a name, nil if there
// is none. JSON is of several.
func foreignExtension(file string) *foreignFormat {
	for i := range foreignFormats {
		for _, ext := range foreignFormats[i].extensions {
			if strings.HasSuffix(file, ext) {
				return &foreignFormats[i]
			}
		}
	}
	return nil
}

// formatNames returns the names of the formats that can be read, or written.
func formatNames(decode bool) []string {
	names := slices.Clone(nativeNames)
	for i := range foreignFormats {
		f := &foreignFormats[i]
		if decode && f.decode != nil || !decode && f.encode != nil {
			names = append(names, f.name)
		}
	}
	return names
}

// sniffSize is how much of a file tells its format.
const sniffSize = 4 << 10

// source returns the foreign format of the file name, nil if it is a trace of
// ENTRACE's own. What it holds tells more than what it is called.
func source(name, from string) (*foreignFormat, error) {
	if slices.Contains(nativeNames, from) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	if from != "" {
		f := foreignNamed(from)
		if f == nil || f.decode == nil {
			return nil, usagef("--from %q is no format that is read; known are %s", from, strings.Join(formatNames(true), ", "))
		}
		return f, nil
	}
	if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // format.Find may find what is left of it
	}
	head, err := beginning(name)
	if err != nil {
		return nil, err
	}
	if _, _, err := format.ParseMagic(head); err == nil {
		return nil, nil //nolint:nilnil // as above
	}
	if f := foreignExtension(name); f != nil && f.decode == nil {
		return nil, fmt.Errorf("%s: %s is written only", name, f.name)
	}
	for i := range foreignFormats {
		if f := &foreignFormats[i]; f.decode != nil && f.is != nil && f.is(head) {
			return f, nil
		}
	}
	if f := foreignExtension(name); f != nil && f.decode != nil {
		return f, nil
	}
	return nil, nil //nolint:nilnil // reading it tells what is wrong
}

// beginning returns the first bytes of a file.
func beginning(name string) ([]byte, error) {
	f, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, sniffSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return head[:n], nil
}

// A target is what convert makes.
type target struct {
	foreign *foreignFormat // nil: o.Format
	o       convert.Options
}

// targetOf returns what the file out, or --to, asks for.
func targetOf(out, to string) (t target, err error) {
	if to == "" {
		if out == "-" {
			return t, usagef("for the standard output, --to must name the format")
		}
		ext := filepath.Ext(out)
		if t.foreign = foreignExtension(out); t.foreign == nil {
			switch to = strings.TrimPrefix(ext, "."); to {
			case "":
				return t, usagef("%s has no extension: --to must name the format", out)
			case "json":
				var names []string
				for i := range foreignFormats {
					if f := &foreignFormats[i]; f.encode != nil && (f.json || strings.HasSuffix(f.extensions[0], ".json")) {
						names = append(names, f.name)
					}
				}
				return t, usagef("%s: several formats have this extension: --to must name one of %s", out, strings.Join(names, ", "))
			}
		}
	} else {
		t.foreign = foreignNamed(to)
	}
	if t.foreign != nil {
		if t.foreign.encode == nil {
			return t, usagef("%s is a format that is read only", t.foreign.name)
		}
		return t, nil
	}
	if t.o.Format, err = format.ParseStorageFormat(to); err != nil {
		return t, usagef("unknown format %q; known are %s", to, strings.Join(formatNames(false), ", "))
	}
	return t, nil
}

// isJSON reports whether head is the beginning of a JSON object with one of keys.
func isJSON(head []byte, keys ...string) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	if len(head) == 0 || head[0] != '{' {
		return false
	}
	for _, key := range keys {
		if bytes.Contains(head, []byte(`"`+key+`"`)) {
			return true
		}
	}
	return false
}

// asTrace returns a trace file of ENTRACE's own with what the file name, of
// another format, holds, and what removes it. The damage is what is wrong with the
// file.
func asTrace(ctx context.Context, name string, f *foreignFormat) (path string, remove func(), damage, err error) {
	dir, err := os.MkdirTemp("", "entrace-*")
	if err != nil {
		return "", nil, nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	kept := false
	defer func() {
		if !kept { // on an error, and if a decoder panics
			remove()
		}
	}()
	path = filepath.Join(dir, "trace.et")
	err = convert.FileFrom(ctx, name, path, f.decode, convert.Options{Format: format.ET})
	if _, there := os.Lstat(path); there == nil {
		kept = true
		return path, remove, err, nil
	}
	return "", nil, nil, err
}

// listFormats prints what convert knows.
func (a *app) listFormats() error {
	row := func(name, ext, ways, what string) error {
		_, err := fmt.Fprintf(a.out, "%-10s %-16s %-4s %s\n", name, ext, ways, what)
		return err
	}
	err := errors.Join(
		row("FORMAT", "FILES", "WAYS", "WHAT IT IS, AND WHAT IS LOST"),
		row("et", ".et", "<->", "ENTRACE's mapped format"),
		row("iet", ".iet", "<->", "ENTRACE's stream"),
		row("ietprefix", ".ietprefix", "<->", "the stream with lengths, as it goes over TCP"))
	for i := range foreignFormats {
		f := &foreignFormats[i]
		ways := "<->"
		switch {
		case f.decode == nil:
			ways = "->"
		case f.encode == nil:
			ways = "<-"
		}
		err = errors.Join(err, row(f.name, strings.Join(f.extensions, " "), ways, f.what))
		if f.decode != nil {
			err = errors.Join(err, row("", "", "", "in: "+f.lostIn))
		}
		if f.encode != nil {
			err = errors.Join(err, row("", "", "", "out: "+f.lostOut))
		}
	}
	return err
}
