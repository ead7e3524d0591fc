package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
)

// printTree prints what spans and log records are in a trace. 'entrace tree'
// shows more of them.
func printTree(w io.Writer, name string) (err error) {
	f, err := format.Open(name, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	v, err := format.NewView(f)
	if err != nil {
		return err
	}
	return v.Walk(0, func(id uint32, depth int, _ bool) error {
		e, err := v.Entry(id)
		if err != nil {
			return err
		}
		indent := strings.Repeat("  ", depth)
		switch v.Role(id) {
		case format.RoleSpan:
			var took time.Duration
			if took, _, err = v.Ended(id); err == nil {
				_, err = fmt.Fprintf(w, "%s%-5v %q %v\n", indent, e.Metadata.Level, e.Metadata.Name, took.Round(time.Microsecond))
			}
		case format.RoleLog, format.RoleResource:
			_, err = fmt.Fprintf(w, "%s%-5v %q\n", indent, e.Metadata.Level, e.Message.Value)
		case format.RoleRoot:
			_, err = fmt.Fprintln(w, name)
		default:
			_, err = fmt.Fprintf(w, "%s%-5v (%q)\n", indent, e.Metadata.Level, e.Metadata.Name)
		}
		return err
	})
}
