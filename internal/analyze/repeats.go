package analyze

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// A Repeat describes calls that some spans make repeatedly, such as a query in a loop. A repeat consists of at
// least five spans with the same name and text directly below the same span.
type Repeat struct {
	Service string `json:"service"` // the service of the repeated spans
	Name    string `json:"name"`
	Of      string `json:"of"` // the name of the parent spans
	// Text is the query or the URL of the calls, with placeholders such as <number> for the parts that differ. It is
	// "" if no query or URL was recorded, or if the trace has too many calls to read all texts.
	Text      string   `json:"text"`
	Spans     int      `json:"spans"` // the number of parent spans with at least five calls
	Calls     int      `json:"calls"` // the number of calls of these parent spans
	Time      int64    `json:"time_nano"`
	Most      view.Row `json:"most"` // the parent span with most calls
	MostCalls int      `json:"most_calls"`
}

// A repeated is a Repeat and the list of its parent spans.
type repeated struct {
	Repeat

	below []view.Row
}

// Call returns the name and the text of the calls, or only the text if it begins with the name.
func (x *Repeat) Call() string {
	if strings.HasPrefix(x.Text, x.Name) {
		return x.Text
	}
	return strings.TrimSpace(x.Name + " " + x.Text)
}

const (
	fewestCalls  = 5         // the least number of calls with one name and text below one span
	maxCallTexts = 1_000_000 // the maximum number of calls whose texts are read
	maxRepeats   = 10_000    // the maximum number of pairs of names that are counted
	candidates   = 10        // for each requested repeat, the number of repeats whose texts are read
)

// callTexts are the attributes that distinguish calls of the same name.
var callTexts = []string{"db.query.text", "db.statement", "url.full", "http.url", "url.path", "http.target"}

// Calls with the same repeatKey are counted together.
type repeatKey struct {
	operation

	of string // the name of the parent spans
}

// repeats counts the spans below the spans of some blocks.
type repeats struct {
	columns    columns.Columns
	rows       view.Set[view.Row]
	t          *view.Tree
	operations operations
	number     func(r view.Row, resource, meta uint16) int32 // of an operation
	found      map[repeatKey]*repeated
	calls      map[int32]calls // the calls directly below the current span, by operation
}

type calls struct {
	n    int
	time int64
}

// repeatsOf returns at most limit repeats, sorted by total time in descending order. It counts only calls in the set
// rows. Calls with different queries or URLs are different repeats.
func repeatsOf(ctx context.Context, v *view.View, rows view.Set[view.Row], limit int) ([]Repeat, error) {
	all := make(map[repeatKey]*repeated)
	t, c := v.Tree(), columns.Of(v)
	parts, err := columns.Collect(ctx, c.Each, func() (*repeats, func(k int)) {
		p := &repeats{columns: c, rows: rows, t: t, found: make(map[repeatKey]*repeated), calls: make(map[int32]calls)}
		p.operations.known = make(map[operation]int32)
		p.number = p.operations.reader(v)
		return p, p.block
	})
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		for key, x := range p.found {
			if all[key] == nil {
				all[key] = x
			} else {
				all[key].add(&x.Repeat)
				all[key].below = append(all[key].below, x.below...)
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(all), func(a, b *repeated) int { return a.compare(&b.Repeat) })
	if limit < len(sorted)/candidates {
		sorted = sorted[:candidates*limit]
	}
	var list []Repeat
	read, room := v.NewReader(), maxCallTexts
	for _, x := range sorted {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if x.Calls > room {
			list = append(list, x.Repeat)
			continue
		}
		room -= x.Calls
		parts, err := x.byText(v, rows, read)
		if err != nil {
			return nil, err
		}
		list = append(list, parts...)
	}
	slices.SortFunc(list, func(a, b Repeat) int { return a.compare(&b) })
	return list[:min(limit, len(list))], nil
}

// compare orders repeats: the repeat that takes most time is first.
func (x *Repeat) compare(y *Repeat) int {
	return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Most, y.Most), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Text, y.Text))
}

// add adds the calls of other spans.
func (x *Repeat) add(y *Repeat) {
	x.Spans, x.Calls, x.Time = x.Spans+y.Spans, x.Calls+y.Calls, x.Time+y.Time
	if y.MostCalls > x.MostCalls || y.MostCalls == x.MostCalls && y.Most < x.Most {
		x.Most, x.MostCalls = y.Most, y.MostCalls
	}
}

// block counts the calls below the spans of a block.
func (p *repeats) block(k int) {
	b := p.columns.Block(k)
	for i, f := range b.Flags {
		if view.Flags(f).Role() != view.RoleSpan || b.Meta[i] == columns.Unknown {
			continue
		}
		r := view.Row(b.First) + view.Row(i)
		if p.t.End(r)-p.t.Rank(r) <= fewestCalls {
			continue
		}
		if len(p.calls) > 1000 { // make a new map, because clearing a large map takes long each time
			p.calls = make(map[int32]calls)
		}
		clear(p.calls)
		for kid := range p.t.Children(r) {
			if !p.rows.Has(kid) {
				continue
			}
			c, j := p.columns.Block(int(kid)/columns.BlockRows), kid%columns.BlockRows
			if view.Flags(c.Flags[j]).Role() == view.RoleSpan && c.Meta[j] != columns.Unknown {
				of := p.number(kid, c.Resource[j], c.Meta[j])
				n := p.calls[of]
				p.calls[of] = calls{n.n + 1, n.time + max(0, c.Duration[j])}
			}
		}
		for of, n := range p.calls {
			if n.n >= fewestCalls {
				p.add(repeatKey{p.operations.list[of], p.columns.Metas()[b.Meta[i]].Name}, r, n)
			}
		}
	}
}

// add adds the repeated calls of the span at row r.
func (p *repeats) add(key repeatKey, r view.Row, n calls) {
	x := p.found[key]
	if x == nil {
		if len(p.found) >= maxRepeats {
			return
		}
		x = &repeated{Repeat: Repeat{Service: key.service, Name: key.name, Of: key.of, Most: r}}
		p.found[key] = x
	}
	x.below = append(x.below, r)
	x.add(&Repeat{Spans: 1, Calls: n.n, Time: n.time, Most: r, MostCalls: n.n})
}

// byText divides the calls of x by their texts. It counts only parent spans with at least fewestCalls calls of one
// text.
func (x *repeated) byText(v *view.View, rows view.Set[view.Row], read *view.Reader) ([]Repeat, error) {
	all := make(map[string]*Repeat)
	for _, of := range x.below {
		found := make(map[string]calls)
		for kid := range v.Tree().Children(of) {
			if !rows.Has(kid) || v.Role(kid) != view.RoleSpan || v.Name(kid) != x.Name || v.Service(kid) != x.Service {
				continue
			}
			e, err := read.Entry(kid)
			if err != nil {
				return nil, err
			}
			if _, waits := e.Attribute("wait.reason"); waits { // these rows are waits in an execution trace and not calls
				return nil, nil
			}
			d, _ := v.Duration(kid)
			text := callText(e)
			found[text] = calls{found[text].n + 1, found[text].time + max(0, int64(d))}
		}
		for text, n := range found {
			if n.n < fewestCalls {
				continue
			}
			if all[text] == nil {
				all[text] = &Repeat{Service: x.Service, Name: x.Name, Of: x.Of, Text: text, Most: of}
			}
			all[text].add(&Repeat{Spans: 1, Calls: n.n, Time: n.time, Most: of, MostCalls: n.n})
		}
	}
	var list []Repeat
	for _, part := range all {
		list = append(list, *part)
	}
	return list, nil
}

// callText returns the query or the URL of a call, or "" if the call has none. The caller may keep the text.
func callText(e *format.TraceEntry) string {
	for _, name := range callTexts {
		if value, ok := e.Attribute(name); ok {
			text := value.Text()
			return Pattern(strings.Join(strings.Fields(text[:min(len(text), 4*maxPattern)]), " "))
		}
	}
	return ""
}
