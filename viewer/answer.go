package viewer

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// title returns a short text for a row: the message of a log record, or the name of another row.
func (s *state) title(r view.Row) string {
	if m, ok := s.v.Message(r); ok && s.v.Role(r) == view.RoleLog {
		return m
	}
	return s.v.Name(r)
}

// startOf returns the start of a row.
func (s *state) startOf(r view.Row) analyze.Time {
	if at, timed := s.v.Start(r); timed {
		return analyze.Time(at)
	}
	return analyze.NoTime
}

// tookOf returns the duration of a span, or nil if it is not known. For an open span, it is the time for which the
// span has been open at least.
func (s *state) tookOf(r view.Row) *int64 {
	if took, known := s.v.Lasted(r); known {
		return new(int64(took))
	}
	return nil
}

// A place is a row and its name.
type place struct {
	Row  view.Row `json:"row"`
	Name string   `json:"name"`
}

// path returns the shown rows above r, from the top.
func (s *state) path(r view.Row) []place {
	path := []place{}
	for r = s.v.Parent(r); r != 0; r = s.v.Parent(r) {
		if isShown(s.v, r) {
			path = append(path, place{r, preview(s.v.Name(r))})
		}
	}
	slices.Reverse(path)
	return path
}

// An attribute is an attribute of an entry, in the form that the page receives.
type attribute struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Value string `json:"value"`
	Size  int    `json:"size,omitempty"` // the full size in bytes, if Value is cut
	// Literal is the value in the syntax of queries if Value is not in that syntax, such as 0.0000001 for 1e-07. It
	// is empty if queries cannot express the value.
	Literal *string `json:"literal,omitempty"`
}

func attributesOf(list []format.Attribute, most int) []attribute {
	out := make([]attribute, 0, len(list))
	for _, a := range list {
		x := attribute{Name: a.Name, Kind: a.Value.Kind().String(), Value: a.Value.String()}
		if a.Value.Kind() != format.KindString {
			if text := query.ValueOf(a.Value).Literal(); text != x.Value && len(text) <= most {
				x.Literal = &text
			}
		}
		if len(x.Value) > most {
			x.Size = len(x.Value)
			x.Value = cut(x.Value, most)
		}
		out = append(out, x)
	}
	return out
}

// cut returns the first bytes of a text.
func cut(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// previewSize is the largest number of bytes of a text in a row.
const previewSize = 300

// preview returns the beginning of a text.
func preview(s string) string {
	return strings.ToValidUTF8(text.Cut(s, previewSize), "")
}

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
