package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/entrace-go/entrace/convert"
)

// formatNames returns the names of the formats that can be read, or if read is false, of those that can be
// written.
func formatNames(read bool) (names []string) {
	for _, f := range convert.Formats() {
		if read && f.Reads || !read && f.Writes {
			names = append(names, string(f.Format))
		}
	}
	return names
}

// inPlace reports whether a file is in one of ENTRACE's own formats and not compressed, so that it can be read
// without a temporary copy. If from is not "", it overrides the format that the content of the file shows.
func inPlace(name, from string) (bool, error) {
	if name == "-" {
		return false, nil
	}
	if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
		return true, nil // format.Find may find the trace under another name
	}
	f, compressed, _, err := convert.FormatOf(name)
	if err != nil || compressed {
		return false, err
	}
	if from != "" {
		f = convert.Format(from)
	}
	_, own := f.Own()
	return own || f == "", nil
}

// checkFrom returns an error if --from does not name a format that can be read.
func checkFrom(from string) error {
	for _, f := range convert.Formats() {
		if from == "" || string(f.Format) == from && f.Reads {
			return nil
		}
	}
	return usagef("--from: %w", &convert.FormatError{Format: convert.Format(from)})
}

// targetOf returns the format of the output: the format to, or else the format that the name out has.
func targetOf(out, to string) (convert.Format, error) {
	f := convert.Format(to)
	if to == "" {
		if out == "-" {
			return "", usagef("--to must name the format of the standard output")
		}
		ext := filepath.Ext(out)
		f = convert.FormatByExtension(out)
		switch {
		case f != "":
		case ext == "":
			return "", usagef("%s has no extension: --to must name the format", out)
		case ext == ".json":
			var names []string
			for _, f := range convert.Formats() {
				if f.JSON && f.Writes {
					names = append(names, string(f.Format))
				}
			}
			return "", usagef("%s: several formats have this extension: --to must name one of %s", out, strings.Join(names, ", "))
		default:
			f = convert.Format(ext[1:])
		}
	}
	for _, known := range convert.Formats() {
		if known.Format == f && to == "" && convert.FormatByExtension(out) == "" {
			return "", usagef("format %s has the extension %s: for any other, add --to %s", f, known.Extensions[0], f)
		}
		if known.Format == f && known.Writes {
			return f, nil
		}
	}
	if f == "csv" {
		return "", usagef("convert does not write CSV; use 'entrace stats --csv -q \"{} | select(start, name, duration)\"'")
	}
	return "", usagef("%w", &convert.FormatError{Format: f, Write: true})
}

// listFormats prints the formats that convert reads and writes.
func listFormats(c *console) error {
	w := bufio.NewWriter(c.out)
	row := func(name, ext, ways, what string) { fmt.Fprintf(w, "%-11s %-17s %-4s %s\n", name, ext, ways, what) }
	row("FORMAT", "FILES", "WAYS", "DESCRIPTION, AND WHAT IS LOST")
	for _, f := range convert.Formats() {
		ways := "<->"
		switch {
		case !f.Reads:
			ways = "->"
		case !f.Writes:
			ways = "<-"
		}
		row(string(f.Format), strings.Join(f.Extensions, " "), ways, f.What)
		if f.LostIn != "" {
			row("", "", "", "in: "+f.LostIn)
		}
		if f.LostOut != "" {
			row("", "", "", "out: "+f.LostOut)
		}
	}
	return w.Flush()
}
