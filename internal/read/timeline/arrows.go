package timeline

import (
	"cmp"
	"context"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/view"
)

// A FlowEnd is one end of an arrow between two spans. Each link has an arrow. Each child that is on another lane than
// its parent also has an arrow. An arrow points forward in time: it starts at the span that began first.
type FlowEnd struct {
	Flow  uint32 // the number of the arrow, from 1 on
	Start bool   // this is the start of the arrow
	Link  bool   // the arrow is a link; if not, it goes from a parent to a child

	row int32 // of the span
}

// Arrows finds the arrows. Later calls of [Timeline.Moments] report them. Arrows to children on another lane come
// first, in chronological order. Arrows of links follow.
func (t *Timeline) Arrows(ctx context.Context) error {
	for _, r := range t.begins {
		if t.elsewhere(r) {
			t.arrow(t.parent(r), r, false)
		}
	}
	if t.links && !t.Made {
		if err := t.addLinks(ctx); err != nil {
			return err
		}
	}
	slices.SortFunc(t.ends, func(x, y FlowEnd) int {
		return cmp.Or(t.compare(x.row, y.row), cmp.Compare(x.Flow, y.Flow))
	})
	return ctx.Err()
}

// elsewhere reports whether a span and its parent are on different lanes.
func (t *Timeline) elsewhere(r int32) bool {
	up := t.parent(r)
	return up >= 0 && (t.lane(up) != t.lane(r) || t.group(up) != t.group(r))
}

// arrow adds an arrow between two spans.
func (t *Timeline) arrow(from, to int32, link bool) {
	t.Flows++
	if t.compare(to, from) < 0 {
		from, to = to, from
	}
	t.ends = append(t.ends, FlowEnd{t.Flows, true, link, from}, FlowEnd{t.Flows, false, link, to})
}

// addLinks adds the arrows of links, in the order of the links.
func (t *Timeline) addLinks(ctx context.Context) error {
	type link struct {
		to   format.SpanRef
		from int32
	}
	var links []link
	found := make(map[format.SpanRef]int32) // the row of each linked span, or -1 as long as it is not found
	for r := range t.v.Rows() {
		if r%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if t.v.Role(r) != view.RoleLink {
			continue
		}
		e, err := t.v.Entry(r)
		if err != nil {
			return err
		}
		l := otel.ReadLink(e)
		to, from := format.SpanRef{TraceID: l.TraceID, SpanID: l.SpanID}, t.parent(int32(r))
		if to.IsValid() && from >= 0 {
			links, found[to] = append(links, link{to, from}), -1
		}
	}
	for r := range t.v.Rows() {
		if r%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !t.isSpan(r) {
			continue
		}
		ref := t.v.Ref(r)
		if at, linked := found[ref]; linked && at < 0 { // the first span with these ids, as in the view
			found[ref] = int32(r)
		}
	}
	for _, l := range links {
		if to := found[l.to]; to >= 0 && to != l.from {
			t.arrow(to, l.from, true)
		}
	}
	return nil
}
