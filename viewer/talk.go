package viewer

import (
	"context"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

const (
	maxTurns  = 500     // the maximum number of turns in an answer
	talkRows  = 20_000  // the maximum number of rows that are searched for a conversation
	maxSpoken = 1 << 20 // the maximum number of bytes of a turn's attribute
)

// A turn is a span, an event or a log record that is part of a conversation with a model. It has the body, and the
// attributes whose names begin with gen_ai.
type turn struct {
	Row        view.Row     `json:"row"`
	Span       view.Row     `json:"span"` // the row itself if it is a span; otherwise the row above
	Name       string       `json:"name"`
	Role       string       `json:"role"`
	Start      analyze.Time `json:"start_unix_nano"`
	Took       *int64       `json:"took_nano"`
	Failed     bool         `json:"failed"`
	Body       string       `json:"body"`
	Attributes []attribute  `json:"attributes"`
}

// hasTalk reports whether row r, or one of the first rows below it, is part of a conversation.
func (s *state) hasTalk(r view.Row) (bool, error) {
	if !slices.ContainsFunc(s.columns.Keys(), func(k columns.Key) bool { return strings.HasPrefix(k.Name, analyze.GenAI) }) {
		return false, nil
	}
	t, read := s.v.Tree(), s.v.NewReader()
	for rank := t.Rank(r); rank < min(t.End(r), t.Rank(r)+talkRows/20); rank++ {
		e, err := read.Entry(t.Row(rank))
		if err != nil {
			return false, err
		}
		if len(analyze.Spoken(e)) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// talk answers with the conversation at and below a row.
func (q *request) talk(ctx context.Context) (any, error) {
	r := q.row("row")
	if q.err != nil {
		return nil, q.err
	}
	v, t := q.v, q.v.Tree()
	out, all := []turn{}, 0 // in the order of the tree, because log records may have no time
	end := min(t.End(r), t.Rank(r)+talkRows)
	read := v.NewReader()
	for rank := t.Rank(r); rank < end; rank++ {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		row := t.Row(rank)
		e, err := read.Entry(row)
		if err != nil {
			return nil, err
		}
		if !analyze.IsTurn(v, row, e) {
			continue
		}
		all++
		if all > maxTurns {
			continue
		}
		e, err = v.Entry(row)
		if err != nil { // the reader reuses its memory
			return nil, err
		}
		x := turn{
			Row: row, Span: row, Start: q.startOf(row), Took: q.tookOf(row), Name: preview(e.Metadata.Name), Role: v.Role(row).String(), Failed: v.Flags(row).IsError(),
			Body: e.Message.Value[:min(len(e.Message.Value), maxSpoken)], Attributes: attributesOf(analyze.Spoken(e), maxSpoken),
		}
		if v.Role(row) != view.RoleSpan {
			x.Span = v.Parent(row)
		}
		if name, ok := e.Attribute(otel.AttrEventName); ok {
			x.Name = preview(name.Text())
		}
		out = append(out, x)
	}
	return map[string]any{"turns": out, "more": all - len(out), "cut": t.End(r) > end}, nil
}
