package viewer

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// StaticOptions change what [Static] writes.
type StaticOptions struct {
	// Query selects rows of the page. The page also has the rows above them. An empty query selects all rows.
	Query string
	// MaxRows and MaxBytes limit the page, by default to 200,000 rows and 20 MB. If a page would be larger, Static
	// writes nothing and returns a [*SizeError].
	MaxRows  int
	MaxBytes int64
}

// A SizeError says that a page would be too large.
type SizeError struct {
	Rows, MaxRows   int
	Bytes, MaxBytes int64 // 0 if there are too many rows
}

func (e *SizeError) Error() string {
	if e.Bytes > 0 {
		return fmt.Sprintf("the page would have %d bytes, but the limit is %d", e.Bytes, e.MaxBytes)
	}
	return fmt.Sprintf("the page would have %d rows, but the limit is %d", e.Rows, e.MaxRows)
}

// staticData holds the data of a trace in a static page.
type staticData struct {
	Meta    *meta                         `json:"meta"`
	Top     json.RawMessage               `json:"top"`
	Explain json.RawMessage               `json:"explain"`
	Heat    json.RawMessage               `json:"heat"`
	Waits   json.RawMessage               `json:"waits"`
	Paths   map[rowNumber]json.RawMessage `json:"paths"`
	Why     map[string][]*why             `json:"why"` // for slow and failed spans, by name and service, with a line break between
	Facets  any                           `json:"facets"`
	Table   any                           `json:"table"`
	Flames  map[string]*flameAnswer       `json:"flames"` // by the parameter by: "time", "up" or "count"
	Strip   *strip                        `json:"strip"`
	Lanes   *laneRuns                     `json:"lanes"`
	CSV     string                        `json:"csv"` // Table as CSV
	// The rows, in the order of the tree. A row number in any answer is a position in Rows, from 1 on.
	Rows []staticRow `json:"rows"`
}

// A staticRow is a row of a static page. In its Line, the row is closed.
type staticRow struct {
	Up    int      `json:"up"` // the row above; 0 if no row is above
	Line  treeRow  `json:"line"`
	Entry *details `json:"entry"`
}

// Static writes a page of a view as one file, which needs no server. The page is like the page of a handler, except
// that it cannot run queries. It only searches for texts, and its tables, its strip and its lanes do not change.
func (h *Handler) Static(ctx context.Context, w io.Writer, o *StaticOptions) error {
	if o == nil {
		o = new(StaticOptions)
	}
	maxRows, maxBytes := cmp.Or(o.MaxRows, 200_000), cmp.Or(o.MaxBytes, 20_000_000)
	data, err := h.staticData(ctx, o.Query, maxRows)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := json.NewEncoder(z).Encode(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	page := staticPage(base64.StdEncoding.EncodeToString(packed.Bytes()))
	if n := int64(len(page)); n > maxBytes {
		return &SizeError{Rows: len(data.Rows), MaxRows: maxRows, Bytes: n, MaxBytes: maxBytes}
	}
	_, err = w.Write(page)
	return err
}

// staticPage returns the page with its script and style, and with a content security policy that allows only this
// script and style.
func staticPage(data string) []byte {
	var parts [2]string
	var hashes [2]string
	for i, name := range []string{"app.js", "app.css"} {
		b, _ := dist.ReadFile("dist/" + name)
		// Escape texts that would end the script or the style.
		parts[i] = strings.NewReplacer("</script", `<\/script`, "</style", `<\/style`, "<!--", `<\!--`).Replace(strings.TrimSpace(string(b)))
		sum := sha256.Sum256([]byte(parts[i]))
		hashes[i] = "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	policy := "default-src 'none'; script-src " + hashes[0] + "; style-src " + hashes[1] + "; img-src data:; base-uri 'none'; form-action 'none'"
	var b bytes.Buffer
	b.WriteString(`<!doctype html>` + "\n" + `<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="` + html.EscapeString(policy) +
		`"><meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer"><title>entrace</title><link rel="icon" href="data:,"><style>` +
		parts[1] + `</style></head>` + "\n" + `<body><div id="app"><noscript>This page needs JavaScript.</noscript></div><script type="application/octet-stream" id="entrace-data">` + data +
		`</script><script type="module">` + parts[0] + `</script></body></html>` + "\n")
	return b.Bytes()
}

func (h *Handler) staticData(ctx context.Context, text string, maxRows int) (*staticData, error) {
	s := h.view()
	part, _, err := s.part(ctx, form{only: text})
	if err != nil {
		return nil, err
	}
	v := s.v
	var rows []view.Row
	for r := range analyze.Subtree(v, 0) {
		if isShown(v, r) && (part == nil || part.Has(r)) {
			rows = append(rows, r)
		}
	}
	if len(rows) > maxRows {
		return nil, &SizeError{Rows: len(rows), MaxRows: maxRows}
	}
	places, only := make(map[view.Row]view.Row, len(rows)), analyze.SetOf(v, rows)
	for i, r := range rows {
		places[r] = view.Row(i + 1)
	}
	p, d := s.pageOf(only), &staticData{Rows: []staticRow{}}
	read, ranker := v.NewReader(), interest.NewRanker(v)
	for _, r := range rows {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		up := v.Parent(r)
		for up != 0 && places[up] == 0 {
			up = v.Parent(up)
		}
		e, err := read.Entry(r)
		if err != nil {
			return nil, err
		}
		line := p.treeRow(r, e, ranker)
		line.Row = places[r]
		if above := places[up]; above > 0 {
			line.Depth = d.Rows[above-1].Line.Depth + 1
		}
		line.Parts = p.parts(&line, r)
		for i := range line.Parts { // the page draws with fewer than 10,000 pixels
			x := &line.Parts[i]
			x.From, x.To = roundPart(x.From), roundPart(x.To)
		}
		x, err := p.detailsOf(ctx, r, cutSize)
		if err != nil {
			return nil, err
		}
		x.Row = places[r]
		if x.Exception != nil {
			x.Exception.Row = places[x.Exception.Row]
		}
		if in := x.Inner; in != nil {
			in.Row = places[in.Row]
			if in.Row == 0 {
				x.Inner = nil
			}
		}
		for i := range x.Stacks {
			x.Stacks[i].Row = places[x.Stacks[i].Row]
		}
		for i := range x.Links {
			if to := x.Links[i].To; to != nil {
				to.Row = places[to.Row]
				if to.Row == 0 {
					x.Links[i].To = nil
				}
			}
		}
		d.Rows = append(d.Rows, staticRow{int(places[up]), line, x})
	}
	return d, d.addAnswers(ctx, h, p, text, only, places)
}

// roundPart rounds a position from 0 to 1.
func roundPart(x float32) float32 { return float32(math.Round(float64(x)*10_000) / 10_000) }

// The strip and the lanes of a static page divide the time into these numbers of parts.
const (
	staticBins  = 500
	staticParts = maxBins
)

// pageOf returns a state for a page that has only some rows: its tree, times, services and colors come from these
// rows.
func (s *state) pageOf(only view.Set[view.Row]) *state {
	p := &state{v: s.v, columns: s.columns, against: s.against, generation: s.generation, corrected: s.corrected, files: s.files, facts: s.facts}
	t, names, services := s.v.Tree(), make(map[string]bool), make(map[string]bool)
	hidden, logs, errors := newRankSet(t.Len()), newRankSet(t.Len()), newRankSet(t.Len())
	for rank := range t.Len() {
		r := t.Row(rank)
		if !only.Has(r) {
			hidden.Add(rank)
			continue
		}
		if s.logs().Has(rank) {
			logs.Add(rank)
		}
		if s.errors().Has(rank) {
			errors.Add(rank)
		}
		names[preview(s.title(r))], services[s.v.Service(r)] = true, true
	}
	whole, hues, all := extentOf(s.v, only.All()), maps.Clone(s.hues()), slices.Clone(s.services())
	maps.DeleteFunc(hues, func(name string, _ int) bool { return !names[name] })
	all = slices.DeleteFunc(all, func(name string) bool { return !services[name] })
	for _, ranks := range []*rankSet{hidden, logs, errors} {
		ranks.done()
	}
	p.hidden = func() *rankSet { return hidden }
	p.logs = func() *rankSet { return logs }
	p.errors = func() *rankSet { return errors }
	p.whole = func() extent { return whole }
	p.hues = func() map[string]int { return hues }
	p.services = func() []string { return all }
	return p
}

// addAnswers adds the current answers of the handler, limited to the rows of the page.
func (d *staticData) addAnswers(ctx context.Context, h *Handler, p *state, text string, only view.Set[view.Row], places map[view.Row]view.Row) error {
	q := &request{state: p, Values: url.Values{"q": {text}}, handler: h}
	c, err := query.ContrastOf(ctx, p.run(p.withoutSamples(only)), p.run(p.v.NewSet()))
	if err != nil {
		return err
	}
	d.Facets = contrastOf(c, false, true)
	d.Table, err = q.table(ctx)
	if err != nil {
		return err
	}
	q.Set("csv", "1")
	lines, err := q.table(ctx)
	if err != nil {
		return err
	}
	d.CSV = string(lines.([]byte))
	chosen, err := q.selection(ctx)
	if err != nil {
		return err
	}
	d.Flames = make(map[string]*flameAnswer)
	for _, by := range []string{"time", "up", "count"} {
		f, err := p.flameOf(ctx, chosen, nil, by)
		if err != nil {
			return err
		}
		for i := range f.Nodes {
			f.Nodes[i].Row = places[f.Nodes[i].Row]
		}
		d.Flames[by] = f
	}
	x := p.whole()
	d.Strip, err = p.stripOf(ctx, only, staticBins, x.from, x.to)
	if err != nil {
		return err
	}
	l, err := p.levelsOf(ctx, &selection{end: p.v.Tree().Len()})
	if err != nil {
		return err
	}
	d.Lanes, err = p.runsOf(ctx, l, x.from, x.to, staticParts)
	if err != nil {
		return err
	}
	for i := range d.Lanes.Runs {
		d.Lanes.Runs[i].Row = places[d.Lanes.Runs[i].Row]
	}
	number := func(r view.Row) rowNumber { return rowNumber(places[r]) }
	encode := func(x any, failed error) (out json.RawMessage) {
		if failed == nil {
			out, failed = p.encoded(ctx, x, number)
		}
		err = cmp.Or(err, failed)
		return out
	}
	d.Top = encode(analyze.Top(ctx, p.v, only, maxTop, nil))
	d.Explain = encode(analyze.Explain(ctx, &analyze.Question{Now: []query.Run{p.run(only)}, Since: analyze.NoTime, Within: true}))
	d.Waits = encode(p.waitPlaces(ctx, only))
	requests, failed := analyze.RequestsOf(ctx, p.v, only)
	err = cmp.Or(err, failed)
	if err != nil {
		return err
	}
	d.Heat = encode(requests.Heat(heatColumns, heatRows), nil)
	if err := errors.Join(err, d.addPaths(ctx, p, only, number), d.addWhy(ctx, p, only)); err != nil {
		return err
	}
	d.Meta = h.metaOf(p)
	d.Meta.Rows, d.Meta.Follow, d.Meta.Command = len(d.Rows)+1, false, ""
	d.Meta.Static, d.Meta.Goroutines = &text, false // the page has no execution traces, except for the waits
	return nil
}

// addPaths adds the critical paths of the requests. The keys are the positions of the requests' rows.
func (d *staticData) addPaths(ctx context.Context, s *state, only view.Set[view.Row], number func(view.Row) rowNumber) error {
	d.Paths = make(map[rowNumber]json.RawMessage)
	for r := range only.All() {
		if s.v.Role(r) != view.RoleSpan || s.v.Outermost(r) != r {
			continue
		}
		p, err := s.pathAnswer(ctx, r, number)
		if err != nil {
			return err
		}
		if p == nil || len(p.Marks) <= 3 { // the path of a request consists of the request alone
			continue
		}
		d.Paths[number(r)], err = s.encoded(ctx, p, number)
		if err != nil {
			return err
		}
	}
	return nil
}

// mostWhy is the largest number of names of spans in staticData.Why. The most frequent names are kept.
const mostWhy = 500

// addWhy adds, for each name and service, the differences between the slow or failed spans and the others.
func (d *staticData) addWhy(ctx context.Context, s *state, only view.Set[view.Row]) error {
	rows := make(map[string][]view.Row)
	for r := range only.All() {
		if s.v.Role(r) == view.RoleSpan {
			key := s.v.Name(r) + "\n" + s.v.Service(r)
			rows[key] = append(rows[key], r)
		}
	}
	d.Why = make(map[string][]*why)
	keys := slices.SortedFunc(maps.Keys(rows), func(a, b string) int { return cmp.Or(len(rows[b])-len(rows[a]), cmp.Compare(a, b)) })
	for _, key := range keys[:min(len(keys), mostWhy)] {
		for _, of := range []string{"slow", "failed"} {
			x, _, err := s.whyOf(ctx, rows[key][0], analyze.SetOf(s.v, rows[key]), of)
			if err != nil {
				return err
			}
			if len(d.Why[key]) == 0 || x.Of != d.Why[key][0].Of {
				d.Why[key] = append(d.Why[key], x)
			}
		}
	}
	return nil
}
