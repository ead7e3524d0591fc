package main

import (
	"bytes"
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

// nativeNames are the formats of ENTRACE's own, by the names that --from and --to
// take.
var nativeNames = []string{format.ET.String(), format.IET.String(), format.IETPrefix.String()}

// formatNames returns the names of the formats that can be read, or written.
func formatNames(decode bool) []string {
	names := slices.Clone(nativeNames)
	for _, f := range convert.Formats() {
		if decode && f.Decode != nil || !decode && f.Encode != nil {
			names = append(names, f.Name)
		}
	}
	return names
}

// source returns the foreign format of the file name, nil if it is a trace of
// ENTRACE's own.
func source(name, from string) (*convert.Format, error) {
	if err := checkFrom(from); err != nil || slices.Contains(nativeNames, from) {
		return nil, err
	}
	if from != "" {
		return convert.FormatNamed(from), nil
	}
	if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // format.Find may find what is left of it
	}
	head, err := beginning(name)
	if err != nil {
		return nil, err
	}
	if _, _, err := format.ReadMagic(bytes.NewReader(head)); err == nil {
		return nil, nil //nolint:nilnil // none is an answer
	}
	if f := convert.FormatByExtension(name); f != nil && f.Decode == nil {
		return nil, fmt.Errorf("%s: %s is written only", name, f.Name)
	}
	return convert.FormatOf(head, name), nil
}

// checkFrom complains of a --from that names no format that is read.
func checkFrom(from string) error {
	if from == "" || slices.Contains(nativeNames, from) {
		return nil
	}
	if f := convert.FormatNamed(from); f == nil || f.Decode == nil {
		return usagef("--from %q is no format that is read; known are %s", from, strings.Join(formatNames(true), ", "))
	}
	return nil
}

// beginning returns the first bytes of a file.
func beginning(name string) ([]byte, error) {
	f, err := openRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, convert.SniffSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return head[:n], nil
}

// A target is what convert makes.
type target struct {
	foreign *convert.Format // nil: o.Format
	o       convert.Options
}

// targetOf returns what the file out, or --to, asks for.
func targetOf(out, to string) (t target, err error) {
	if to == "" {
		if out == "-" {
			return t, usagef("for the standard output, --to must name the format")
		}
		ext := filepath.Ext(out)
		if t.foreign = convert.FormatByExtension(out); t.foreign == nil {
			switch to = strings.TrimPrefix(ext, "."); to {
			case "":
				return t, usagef("%s has no extension: --to must name the format", out)
			case "json":
				var names []string
				for _, f := range convert.Formats() {
					if f.Encode != nil && (f.JSON || strings.HasSuffix(f.Extensions[0], ".json")) {
						names = append(names, f.Name)
					}
				}
				return t, usagef("%s: several formats have this extension: --to must name one of %s", out, strings.Join(names, ", "))
			}
		}
	} else {
		t.foreign = convert.FormatNamed(to)
	}
	if t.foreign != nil {
		if t.foreign.Encode == nil {
			return t, usagef("%s is a format that is read only", t.foreign.Name)
		}
		return t, nil
	}
	if t.o.Format, err = format.ParseStorageFormat(to); err != nil {
		if f := convert.FormatNamed(to); f != nil {
			return t, usagef("files of %s end in %s; any other name needs --to %s", f.Name, f.Extensions[0], f.Name)
		}
		if to == "csv" {
			return t, usagef("convert writes no CSV: 'entrace stats --csv -q \"{} | select(start, name, duration)\"' does")
		}
		return t, usagef("unknown format %q; known are %s", to, strings.Join(formatNames(false), ", "))
	}
	return t, nil
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
	for _, f := range convert.Formats() {
		ways := "<->"
		switch {
		case f.Decode == nil:
			ways = "->"
		case f.Encode == nil:
			ways = "<-"
		}
		err = errors.Join(err, row(f.Name, strings.Join(f.Extensions, " "), ways, f.What))
		if f.Decode != nil {
			err = errors.Join(err, row("", "", "", "in: "+f.LostIn))
		}
		if f.Encode != nil {
			err = errors.Join(err, row("", "", "", "out: "+f.LostOut))
		}
	}
	return err
}
