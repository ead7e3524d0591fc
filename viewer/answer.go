package viewer

import (
	"context"
	"encoding/json"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A rowNumber is a row number in an answer. In contrast to a view.Row, it is not replaced by a line.
type rowNumber uint32

// A line describes a row, and replaces the row in an answer.
type line struct {
	Row      rowNumber    `json:"row"`
	Name     string       `json:"name"`
	Service  string       `json:"service"`
	Start    analyze.Time `json:"start_unix_nano"`
	Duration *int64       `json:"duration_nano"` // for an open span, how long it has been open at least
	Open     bool         `json:"open"`
	In       string       `json:"in,omitempty"` // the function in which the open span waits
	Of       string       `json:"of,omitempty"` // the name of the outermost span above the row
}

// lineOf returns the line that describes a row.
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

// encoded returns an answer as JSON. If number is not nil, it returns the row number that the answer contains for
// a row. If it returns 0, the row becomes null.
func (s *state) encoded(ctx context.Context, x any, number func(view.Row) rowNumber) (json.RawMessage, error) {
	return (&analyze.Form{
		Row: func(r view.Row) (any, error) {
			l, err := s.lineOf(ctx, r)
			if err == nil && number != nil {
				l.Row = number(r)
				if l.Row == 0 {
					return nil, nil // the page must not contain the name of this row
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
