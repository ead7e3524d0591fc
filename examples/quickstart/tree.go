package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// printTree prints the spans and log records of a trace as a tree. 'entrace tree'
// prints more about each.
func printTree(ctx context.Context, w io.Writer, name string) (err error) {
	f, err := format.Open(name, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	v, err := view.New(ctx, []*format.File{f}, nil)
	if err != nil {
		return err
	}
	return v.Walk(0, func(id view.Row, depth int, _ bool) error {
		e, err := v.Entry(id)
		if err != nil {
			return err
		}
		indent := strings.Repeat("  ", depth)
		switch v.Role(id) {
		case view.RoleSpan:
			took, _ := v.Duration(id)
			_, err = fmt.Fprintf(w, "%s%-5v %q %v\n", indent, e.Metadata.Level, e.Metadata.Name, took.Round(time.Microsecond))
		case view.RoleLog, view.RoleResource:
			_, err = fmt.Fprintf(w, "%s%-5v %q\n", indent, e.Metadata.Level, e.Message.Value)
		case view.RoleRoot:
			_, err = fmt.Fprintln(w, name)
		default:
			_, err = fmt.Fprintf(w, "%s%-5v (%q)\n", indent, e.Metadata.Level, e.Metadata.Name)
		}
		return err
	})
}
