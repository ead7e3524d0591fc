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

// A link is a link from the span at row from to the span to. In the first of several links to the same span, found is
// the row of the span to, or -1 if the span was not found. In further links to this span, found is -1.
type link struct {
	to          format.SpanRef
	from, found int32
}

// Arrows finds the arrows. Later calls of [Timeline.Moments] report them. Arrows to children on another lane come
// first, in the order of the children. Arrows of links follow.
func (t *Timeline) Arrows(ctx context.Context) error {
	links, err := t.readLinks(ctx)
	if err != nil {
		return err
	}
	children := 0
	for _, r := range t.begins {
		if t.elsewhere(r) {
			children++
		}
	}
	t.ends = make([]FlowEnd, 0, 2*(children+len(links)))
	child := func(r int32) {
		if t.elsewhere(r) {
			t.arrow(t.parent(r), r, 0)
		}
	}
	if t.Made {
		for _, r := range t.begins {
			child(r)
		}
	} else {
		for r := range t.v.Rows() {
			if t.isSpan(r) {
				child(int32(r))
			}
		}
	}
	found := int32(-1)
	for i := range links {
		l := &links[i]
		if i == 0 || l.to != links[i-1].to {
			found = l.found
		}
		if found >= 0 && found != l.from {
			t.arrow(found, l.from, 1)
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

// readLinks returns the links of all spans, sorted by the span to which they point.
func (t *Timeline) readLinks(ctx context.Context) ([]link, error) {
	if !t.links || t.Made {
		return nil, nil
	}
	var links []link
	for r := range t.v.Rows() {
		if r%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if t.v.Role(r) != view.RoleLink {
			continue
		}
		from := t.parent(int32(r))
		if from < 0 {
			continue
		}
		e, err := t.v.Entry(r)
		if err != nil {
			return nil, err
		}
		l := otel.ReadLink(e)
		if to := (format.SpanRef{TraceID: l.TraceID, SpanID: l.SpanID}); to.IsValid() {
			links = append(links, link{to, from, -1})
		}
	}
	slices.SortFunc(links, func(x, y link) int { return cmp.Or(compareRefs(&x.to, &y.to), cmp.Compare(x.from, y.from)) })
	for r := range t.v.Rows() {
		if r%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !t.isSpan(r) {
			continue
		}
		ref := t.v.Ref(r)
		at, there := slices.BinarySearchFunc(links, ref, func(l link, ref format.SpanRef) int { return compareRefs(&l.to, &ref) })
		if there && links[at].found < 0 {
			links[at].found = int32(r) // the first span with this id, as in the view
		}
	}
	return links, nil
}

func compareRefs(x, y *format.SpanRef) int {
	return cmp.Or(slices.Compare(x.TraceID[:], y.TraceID[:]), slices.Compare(x.SpanID[:], y.SpanID[:]))
}
