package entracetest

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/view"
)

// printed determines how rows are printed.
type printed struct {
	normal   bool     // without what differs from run to run
	leaveOut []string // the names of attributes to leave out
}

// tree returns the lines of the tree of all spans and log records.
func (tr *Trace) tree(how printed) []string {
	v := tr.View()
	p := newPrinter(v)
	p.printed = how
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
	printed

	v    *view.View
	read *view.Reader
	rank *interest.Ranker
}

func newPrinter(v *view.View) *printer {
	return &printer{v: v, read: v.NewReader(), rank: interest.NewRanker(v)}
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

// join joins the texts of siblings. The order in which they began differs from run to run.
func (p *printer) join(texts []string) string {
	if p.normal {
		slices.Sort(texts)
	}
	return strings.Join(texts, "")
}

// line returns a row as one line.
func (p *printer) line(r view.Row) string {
	e, err := p.read.WithoutIDs(r)
	if err != nil {
		return err.Error()
	}
	var words []string
	name, message := plain(e.Metadata.Name), plain(e.Message.Value)
	switch role := p.v.Role(r); role {
	case view.RoleSpan:
		words = append(words, name)
		took, ended := p.v.Duration(r)
		switch {
		case !ended:
			words = append(words, "not ended")
		case !p.normal:
			words = append(words, string(quantity.AppendShort(nil, took)))
		}
		for _, of := range []string{mapping.AttrKind, mapping.AttrStatusDescription} {
			if v, ok := e.Attribute(of); ok {
				words = append(words, plain(v.Text()))
			}
		}
		if p.v.Flags(r).IsError() {
			words = append([]string{"ERROR"}, words...)
		}
	case view.RoleLog:
		words = append(words, e.Metadata.Level.String(), message)
	case view.RoleEvent:
		words = append(words, "• "+name)
	case view.RoleLink:
		words = append(words, "→ link")
	default:
		words = append(words, name, message)
	}
	list := slices.Clone(p.rank.Attributes(r, e))
	if p.normal {
		format.SortAttributes(list)
	}
	for _, a := range list {
		if slices.Contains(p.leaveOut, a.Name) || p.normal && a.Name == "exception.stacktrace" {
			continue
		}
		words = append(words, plain(a.Name)+"="+valueText(a.Value))
	}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

// maxText is the maximum number of bytes of a text in a line.
const maxText = 300

// plain returns s in one line, without characters that act on a terminal.
func plain(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || jsontext.Acts(r) || unicode.IsControl(r) }) {
		s = strconv.QuoteToGraphic(s)
		return s[1 : len(s)-1]
	}
	return s
}

func valueText(v format.Value) string {
	s := v.String()
	if v.Kind() == format.KindString && (s == "" || strings.ContainsAny(s, " \"=\n\t")) {
		return plain(strconv.Quote(s))
	}
	return plain(s)
}
