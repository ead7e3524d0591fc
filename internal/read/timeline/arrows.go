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
	span uint32 // the row of the span, and a bit for the span at which the arrow starts
	flow uint32 // the number of the arrow, and a bit for a link
}

// Flow returns the number of the arrow, from 1 on.
func (f FlowEnd) Flow() uint32 { return f.flow >> 1 }

// Start reports whether this is the start of the arrow.
func (f FlowEnd) Start() bool { return f.span&1 != 0 }

// Link reports whether the arrow is a link. If not, it goes from a parent to a child.
func (f FlowEnd) Link() bool { return f.flow&1 != 0 }

func (f FlowEnd) row() int32 { return int32(f.span >> 1) }

// Arrows finds the arrows. Later calls of [Timeline.Moments] report them. Arrows to children on another lane come
// first, in the order of time. Arrows of links follow.
func (t *Timeline) Arrows(ctx context.Context) error {
	for _, r := range t.begins {
		if t.elsewhere(r) {
			t.arrow(t.parent(r), r, 0)
		}
	}
	if t.links && !t.Made {
		if err := t.addLinks(ctx); err != nil {
			return err
		}
	}
	slices.SortFunc(t.ends, func(x, y FlowEnd) int {
		return cmp.Or(t.compare(x.row(), y.row()), cmp.Compare(x.Flow(), y.Flow()))
	})
	return ctx.Err()
}

// elsewhere reports whether a span and its parent are on different lanes.
func (t *Timeline) elsewhere(r int32) bool {
	up := t.parent(r)
	return up >= 0 && (t.lane(up) != t.lane(r) || t.group(up) != t.group(r))
}

// arrow adds an arrow between two spans. link is 1 for a link, and otherwise 0.
func (t *Timeline) arrow(from, to int32, link uint32) {
	t.Flows++
	if t.compare(to, from) < 0 {
		from, to = to, from
	}
	flow := uint32(t.Flows)<<1 | link
	t.ends = append(t.ends, FlowEnd{uint32(from)<<1 | 1, flow}, FlowEnd{uint32(to) << 1, flow})
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
			t.arrow(to, l.from, 1)
		}
	}
	return nil
}
