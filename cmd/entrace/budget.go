package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/fit"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/view"
)

// envBudget is the variable for --budget.
const envBudget = "ENTRACE_BUDGET"

// fitAnswer runs a command with a console that shortens the output to the budget, the value of --budget.
func (c *console) fitAnswer(budget string, flags *pflag.FlagSet, run func(c *console) error) error {
	most, err := quantity.ParseBytes(cmp.Or(budget, "0"))
	follow, _ := flags.GetBool("follow") // false if the command has no such flag
	switch {
	case err != nil || most > 1<<30:
		return usagef("--budget is %q: must be a size up to 1GiB, such as 4KiB", budget)
	case follow && flags.Changed("budget"):
		return usagef("--budget cannot be used with --follow")
	case follow || most == 0:
		return run(c)
	}
	answer := &fit.Answer{Most: int(most)}
	answer.JSON, _ = flags.GetBool("json")
	own := c.to(answer)
	own.fitted, own.color = answer, false
	err = run(own)
	if err != nil && !errors.Is(err, errQuiet) && answer.Empty() {
		return err
	}
	_, werr := c.out.Write(answer.Finish(c.unlimited()))
	return errors.Join(err, werr)
}

// unlimited returns the command line with a budget that leaves nothing out.
func (c *console) unlimited() string {
	var args []string
	for i, arg := range c.args {
		if arg == "--budget" || strings.HasPrefix(arg, "--budget=") || i > 0 && c.args[i-1] == "--budget" {
			continue
		}
		args = append(args, arg)
	}
	return show.Safe(shellLine(append(args, "--budget", "0")))
}

// A budget prefers rows with large values. The value of a row is a part of its duration, plus one of these numbers,
// which are larger than any duration.
const (
	valueOpen   = int64(1) << 62
	valueFailed = int64(1) << 61
	valuePath   = int64(1) << 60 // on the critical path of the slowest span
)

// fitRows returns the rows that the budget keeps. One line replaces the omitted rows of each kind. The func up returns
// the row above a row. The func size returns the maximum size of a row in bytes.
func (p *printer) fitRows(rows []view.Row, up func(r view.Row) (view.Row, bool), size func(r view.Row) int) view.Set[view.Row] {
	v := p.v
	slowest, longest := view.Row(0), time.Duration(0)
	for _, r := range rows {
		if took, _ := v.Duration(r); took > longest && v.Role(r) == view.RoleSpan {
			slowest, longest = r, took
		}
	}
	onPath := make(map[view.Row]bool)
	if path, ok := analyze.Critical(v, slowest); ok {
		for i := range path.Steps {
			onPath[path.Steps[i].Span] = true
		}
	}
	sizes := make(map[view.Row]int)
	kept := v.NewSet()
	chosen := fit.Rows{
		All: rows, Up: up, Kind: p.kind,
		Value: func(r view.Row) int64 {
			took, _ := v.Duration(r)
			value := int64(took / 8)
			switch f := v.Flags(r); {
			case f.Open():
				value = valueOpen
			case f.IsError():
				value += valueFailed
			case onPath[r]:
				value += valuePath
			}
			return value
		},
		Size: func(r view.Row) int {
			if _, seen := sizes[r]; !seen {
				sizes[r] = size(r)
			}
			return sizes[r]
		},
		Fold: func(alike []view.Row) int {
			size := p.fitted.Size(p.fold(alike))
			if !p.Flat {
				size += 5*v.Depth(alike[0]) + len(p.timeOf(alike[0])) + 20 // the part of the line to its left in the tree
			}
			return size
		},
	}
	folds := chosen.Choose(p.fitted.Room(), kept)
	left := &p.fitted.Left
	left.OfRows += p.count(rows...)
	left.Rows += p.count(rows...) - p.count(slices.Collect(kept.All())...)
	left.Folds += len(folds)
	p.folds = make(map[view.Row][]byte)
	for _, alike := range folds {
		left.Folded += p.count(alike...)
		kept.Add(alike[0])
		p.folds[alike[0]] = p.fitted.Fold(p.fold(alike))
	}
	p.cut = left
	return kept
}

// fitTree sets p.only to the rows of a tree that the budget keeps.
func (p *printer) fitTree(most int) {
	own := *p
	for i := range own.lines {
		own.lines[i] = true
	}
	p.only = p.fitRows(p.rowsFrom(p.top(), most), p.above, func(r view.Row) int {
		own.B = own.B[:0]
		_ = own.entry(r, p.v.Depth(r), false) // the row is printed again if it is kept
		return p.fitted.Size(own.B)
	})
}

// above returns the row above row r in the tree, unless that is the root.
func (p *printer) above(r view.Row) (view.Row, bool) {
	up := p.v.Parent(r)
	return up, up != 0
}

// inList returns no row, because there is none above a row of a list.
func inList(view.Row) (view.Row, bool) { return 0, false }

// count returns the number of rows, or of their entries if p prints entries.
func (p *printer) count(rows ...view.Row) (n int) {
	for _, r := range rows {
		n += max(p.stored[r], 1)
	}
	return n
}

// kind describes the kind of row r. One line can replace several rows of the same kind.
func (p *printer) kind(r view.Row) string {
	f := p.v.Flags(r)
	text := p.v.Name(r)
	if message, ok := p.v.Message(r); ok && f.Role() != view.RoleSpan {
		text = analyze.Pattern(message)
	}
	switch {
	case f.Role() == view.RoleLog:
		text = f.Severity().String() + " " + text
	case f.IsError():
		text = format.LevelError.String() + " " + text
	}
	if f.Role() == view.RoleSpan && f.Open() {
		text += " not ended"
	}
	if service := p.v.Service(r); len(p.v.Services()) > 1 && service != "" {
		text = service + " " + text
	}
	return text
}

// fold returns the line that replaces rows of the same kind. With JSON, the line is a JSON string.
func (p *printer) fold(alike []view.Row) []byte {
	var took []int64
	for _, r := range alike {
		if d, ended := p.v.Duration(r); ended && p.v.Role(r) == view.RoleSpan {
			took = append(took, int64(d))
		}
	}
	times := ""
	switch len(took) {
	case 0:
	case 1:
		times = " " + duration(took[0])
	default:
		times = fmt.Sprintf(" p50 %s max %s", duration(stat.Quantile(took, 0.5)), duration(slices.Max(took)))
	}
	kind := show.Short(p.kind(alike[0]), show.MaxValue)
	line := fmt.Sprintf("%d × %s%s first %s", p.count(alike...), show.Safe(kind), times, show.Safe(p.l.name(alike[0])))
	if p.fitted.JSON {
		return jsontext.AppendSafeString(nil, line)
	}
	return []byte(line + "\n")
}

// shorten shortens the long texts of an entry, if there is a budget.
func (p *printer) shorten(e *format.TraceEntry) {
	if p.fitted == nil {
		return
	}
	most := max(p.fitted.Most/32, 40)
	e.Message.Value = p.cut.Shortened(e.Message.Value, most)
	for i := range e.Attributes {
		if a := &e.Attributes[i]; a.Value.Kind() == format.KindString {
			a.Value = format.StringValue(p.cut.Shortened(a.Value.Text(), most))
		}
	}
}
