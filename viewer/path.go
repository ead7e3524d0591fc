package viewer

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

const (
	maxBelow    = 500_000          // rows below a span of which the path is found
	maxMeasured = 10 * time.Second // the length of a path that is measured: each second takes some 80 ms
	maxCritical = 20_000           // steps in an answer; the longest are kept
	maxSteps    = 40               // lines in an answer
)

// A criticalPath is the critical path of the outermost span above a row.
type criticalPath struct {
	Row      view.Row       `json:"row"`
	Name     string         `json:"name"`
	Length   string         `json:"length"`
	Measured bool           `json:"measured"` // Go's execution trace tells it; else it is inferred from times
	Steps    []criticalStep `json:"steps"`    // in the order of time
	Lines    []pathLine     `json:"lines"`    // the steps that a person reads
	Rest     int            `json:"rest"`     // steps that are too short to be among Lines
}

type criticalStep struct {
	Row  view.Row `json:"row"` // 0: a goroutine that worked for no span
	From string   `json:"from"`
	To   string   `json:"to"`
}

// A pathLine is a step of the path.
type pathLine struct {
	Row     view.Row `json:"row"`
	Name    string   `json:"name"`
	Service string   `json:"service"`
	State   string   `json:"state"` // of the goroutine, if the path is measured
	Took    string   `json:"took"`
	Share   float64  `json:"share"` // of the whole
}

// A pathPart is a period in which a span did not wait for another one.
type pathPart struct {
	row       view.Row // 0: a goroutine that worked for no span
	state     string   // of the goroutine, if it is measured
	goroutine int64
	from, to  int64
}

func (x *pathPart) took() int64 { return x.to - x.from }

// pathOf returns the parts of the critical path of a span, in the order of time; none if it has no path. Where Go's
// execution trace tells of nearly all of its time the path is measured.
func (s *state) pathOf(ctx context.Context, whole view.Row) (parts []pathPart, measured bool, err error) {
	took, ended := s.v.Duration(whole)
	if s.v.HasStates() && ended && took <= maxMeasured {
		m, err := query.Measured(ctx, s.v, whole)
		if err != nil {
			return nil, false, err
		}
		if m != nil && m.Known >= query.MeasuredShare {
			for i := range m.Steps {
				x := &m.Steps[i]
				if x.Followed {
					continue
				}
				if n := len(parts); n > 0 && parts[n-1].row == x.Span && parts[n-1].state == x.State && parts[n-1].goroutine == x.Goroutine && parts[n-1].to == x.From {
					parts[n-1].to = x.To
					continue
				}
				parts = append(parts, pathPart{row: x.Span, state: x.State, goroutine: x.Goroutine, from: x.From, to: x.To})
			}
			return parts, true, nil
		}
	}
	p, ok := query.Critical(s.v, whole)
	if !ok || p.To == p.From {
		return nil, false, nil
	}
	for i := range p.Steps {
		parts = append(parts, pathPart{row: p.Steps[i].Row, from: p.Steps[i].From, to: p.Steps[i].To})
	}
	return parts, false, nil
}

// critical answers with the critical path of the outermost span above a row.
func (h *Handler) critical(ctx context.Context, s *state, q url.Values) (answer, error) {
	r, err := s.rowOf(q, "row")
	if err != nil {
		return answer{}, err
	}
	for r != 0 && s.v.Role(r) != view.RoleSpan {
		r = s.v.Parent(r)
	}
	whole := s.v.Outermost(r)
	out := criticalPath{Row: whole, Name: preview(s.v.Name(whole)), Steps: []criticalStep{}, Lines: []pathLine{}}
	if s.below(whole) > maxBelow {
		return answer{json: out}, nil // 'entrace critical' prints it
	}
	parts, measured, err := s.pathOf(ctx, whole)
	if err != nil || len(parts) == 0 {
		return answer{json: out}, err
	}
	out.Measured = measured
	length := parts[len(parts)-1].to - parts[0].from
	out.Length = strconv.FormatInt(length, 10)
	longest := make([]int, len(parts))
	for i := range longest {
		longest[i] = i
	}
	slices.SortStableFunc(longest, func(a, b int) int { return cmp.Compare(parts[b].took(), parts[a].took()) })
	place := make([]int, len(parts))
	for at, i := range longest {
		place[i] = at
	}
	least := max(1, length/100)
	for i := range parts {
		x := &parts[i]
		if place[i] < maxCritical {
			out.Steps = append(out.Steps, criticalStep{x.row, strconv.FormatInt(x.from, 10), strconv.FormatInt(x.to, 10)})
		}
		if s.v.Flags(whole).Open() { // of what hangs nobody knows which span ends last
			continue
		}
		if x.took() < least || place[i] >= maxSteps {
			out.Rest++
			continue
		}
		l := pathLine{x.row, "goroutine " + strconv.FormatInt(x.goroutine, 10), "", x.state, strconv.FormatInt(x.took(), 10), float64(x.took()) / float64(length)}
		if x.row != 0 {
			l.Name, l.Service = preview(s.v.Name(x.row)), s.v.Service(x.row)
		}
		out.Lines = append(out.Lines, l)
	}
	return answer{json: out}, nil
}
