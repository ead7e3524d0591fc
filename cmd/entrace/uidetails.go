package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/view"
)

// mostBelow is how many events, log records, links and stacks of a row are shown with it.
const mostBelow = 50

// details shows everything about a row: its attributes, the events and other rows directly below it, and its resource.
// If whole is set, details also shows the critical path of the row's request, and what its goroutines waited for.
func (u *ui) details(ctx context.Context, r view.Row, width int, whole bool, then func(*panel, *view.View)) error {
	v, err := u.h.Ask(ctx, "meta", nil, new(any))
	if err != nil {
		return err
	}
	to := new(panel)
	err = u.print(to, v, width, func(c *console, l *selected) error {
		p := newRowPrinter(c, l, &rowFlags{time: timeLocal})
		say := func(color, name, text string) {
			if show.IsStack(name) {
				text = show.FoldStack(text)
			}
			for i, part := range strings.Split(strings.TrimSpace(name+" "+text), "\n") {
				if i > 0 {
					part = "  " + strings.ReplaceAll(part, "\t", "    ")
				}
				fmt.Fprintln(l.w, p.paint(color, p.wrapped(show.Safe(part))))
			}
		}
		attributes := func(r view.Row, color string) {
			e := p.entryOf(r)
			if e.Message.Valid && e.Message.Value != e.Metadata.Name {
				say(color, "", e.Message.Value)
			}
			for _, a := range e.UserAttributes() {
				say(color, a.Name, a.Value.String())
			}
			if e.Metadata.File.Value != "" {
				say(show.Dim, "at", fmt.Sprintf("%s:%d", e.Metadata.File.Value, e.Metadata.Line.Value))
			}
		}
		p.Bare = true
		fmt.Fprintln(l.w, p.text(r))
		to.head = show.Safe(l.name(r))
		attributes(r, "")
		n := 0
		for kid := range v.Tree().Children(r) {
			if role := v.Role(kid); role != view.RoleSpan && n < mostBelow {
				fmt.Fprintln(l.w, p.text(kid))
				attributes(kid, "")
				n++
			}
		}
		if resource := v.Resource(r); resource != 0 {
			attributes(resource, show.Dim)
		}
		if outer := v.Outermost(r); whole && v.Role(outer) == view.RoleSpan {
			fmt.Fprintln(l.w)
			p.Bare = false
			return p.path(ctx, outer, new(criticalOptions), .01)
		}
		return p.unread
	})
	if err == nil {
		then(to, v)
	}
	return err
}
