package viewer

import (
	"context"
	"io"
	"net/url"
	"slices"
)

// save answers with the selected rows in the format that the parameter format names: those that the query
// selects, or else the rows at and below root, and of these what overlaps the window.
func (h *Handler) save(ctx context.Context, s *state, q url.Values) (answer, error) {
	format := q.Get("format")
	if h.options.Save == nil || !slices.ContainsFunc(h.options.Formats, func(f Format) bool { return f.Name == format }) {
		return answer{}, badRequest("this page cannot save as " + format)
	}
	w, err := s.windowOf(q)
	if err != nil {
		return answer{}, err
	}
	root, err := s.rowOf(q, "root")
	if err != nil {
		return answer{}, err
	}
	rows := s.v.NewSet()
	if text := q.Get("q"); text != "" {
		f, err := s.foundIn(ctx, text, w)
		if err != nil {
			return answer{}, err
		}
		rows = f.rows
	} else {
		t := s.v.Tree()
		end := t.End(root)
		if root == 0 {
			end = t.Len()
		}
		for rank := t.Rank(root); rank < end; rank++ {
			rows.Add(t.Row(rank))
		}
		if w.isSet {
			inside, err := s.inside(ctx, w)
			if err != nil {
				return answer{}, err
			}
			rows = both(rows, inside)
		}
	}
	return answer{write: func(to io.Writer) error { return h.options.Save(ctx, to, s.v, rows, format) }}, nil
}
