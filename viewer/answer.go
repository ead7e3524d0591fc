package viewer

import (
	"context"
	"encoding/json"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

// A rowNumber is a row of which an answer has the number alone.
type rowNumber uint32

// A line stands for a row in an answer.
type line struct {
	Row      rowNumber    `json:"row"`
	Name     string       `json:"name"`
	Service  string       `json:"service"`
	Start    analyze.Time `json:"start_unix_nano"`
	Duration *int64       `json:"duration_nano"` // of a span that has not ended: how long it was open at least
	Open     bool         `json:"open"`
	In       string       `json:"in,omitempty"` // the function in which it waits
	Of       string       `json:"of,omitempty"` // the outermost span that it is below
}

// lineOf returns what stands for a row.
func (s *state) lineOf(ctx context.Context, r view.Row) (*line, error) {
	l := &line{Row: rowNumber(r), Name: s.title(r), Service: s.v.Service(r), Start: s.startOf(r), Duration: s.tookOf(r), Open: s.v.Flags(r).Open()}
	if whole := s.v.Outermost(r); whole != r {
		l.Of = s.v.Name(whole)
	}
	if l.Open {
		var d details
		if err := d.addStacks(ctx, s.v, r, 0); err != nil {
			return nil, err
		}
		if len(d.Stacks) > 0 {
			l.In = d.Stacks[0].In
		}
	}
	return l, nil
}

// encoded returns an answer as JSON. The function number changes the numbers of rows.
func (s *state) encoded(ctx context.Context, x any, number func(view.Row) rowNumber) (json.RawMessage, error) {
	return (&analyze.Form{
		Row: func(r view.Row) (any, error) {
			l, err := s.lineOf(ctx, r)
			if err == nil && number != nil {
				if l.Row = number(r); l.Row == 0 {
					return nil, nil // its name is not to be in the page
				}
			}
			return l, err
		},
		Table: func(t *query.Table) (any, error) {
			x := tableOf(t)
			return partOf(x, x.lines, len(x.lines)), nil
		},
		Text: preview,
	}).JSON(x, "")
}
