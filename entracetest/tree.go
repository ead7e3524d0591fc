package entracetest

import (
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/view"
)

// tree returns the lines of the tree of all spans and log records. If normal is set, the lines have no values
// that differ from run to run, such as times and ids, and none of the attributes in leaveOut.
func (tr *Trace) tree(normal bool, leaveOut []string) []string {
	v := tr.View()
	p := newPrinter(v)
	p.Normal, p.LeaveOut = normal, leaveOut
	var top []string
	for _, r := range v.Children(0) {
		switch v.Role(r) {
		case view.RoleRecorder:
		case view.RoleResource:
			for _, kid := range v.Children(r) {
				top = append(top, p.below(kid))
			}
		default:
			top = append(top, p.below(r))
		}
	}
	return strings.Split(strings.TrimSuffix(p.join(top), "\n"), "\n")
}

// A printer prints rows.
type printer struct {
	show.Rows

	v *view.View
}

func newPrinter(v *view.View) *printer {
	p := &printer{show.NewRows(v, 0, false), v}
	p.Flat = true
	return p
}

// maxIndent is the depth below which rows are not printed.
const maxIndent = 100

// below returns a row and all rows below it, one line each.
func (p *printer) below(r view.Row) string {
	text := p.line(r) + "\n"
	if p.v.Depth(r) > maxIndent {
		return text
	}
	var kids []string
	for _, kid := range p.v.Children(r) {
		kids = append(kids, p.below(kid))
	}
	for line := range strings.Lines(p.join(kids)) {
		text += "  " + line
	}
	return text
}

// join joins the texts of siblings. If p.Normal is set, it sorts them, because the order in which they began
// differs from run to run.
func (p *printer) join(texts []string) string {
	if p.Normal {
		slices.Sort(texts)
	}
	return strings.Join(texts, "")
}

// line returns a row as one line.
func (p *printer) line(r view.Row) string {
	e, err := p.Read.WithoutIDs(r)
	if err != nil {
		return err.Error()
	}
	return p.LineOf(r, e, 0)
}
