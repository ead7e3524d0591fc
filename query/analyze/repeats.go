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

// A Repeat tells of calls that some spans make again and again, such as a query in a loop: five spans of one name and text
// or more directly below the same span.
type Repeat struct {
	Service string `json:"service"` // of the repeated spans
	Name    string `json:"name"`
	Of      string `json:"of"` // the name of the spans that they are below
	// Text is the query or the URL of the calls, with <number> and the like in place of the parts that
	// differ. It is "" if none was recorded, or if the trace has too many calls to read them all.
	Text      string   `json:"text"`
	Spans     int      `json:"spans"` // that have five of them or more
	Calls     int      `json:"calls"` // how many those have
	Time      int64    `json:"time_nano"`
	Most      view.Row `json:"most"` // the span with most calls
	MostCalls int      `json:"most_calls"`
}

// A repeated is a Repeat with the spans of which it tells.
type repeated struct {
	Repeat

	below []view.Row
}

// Call returns the text of the calls, behind their name unless it begins with that.
func (x *Repeat) Call() string {
	if strings.HasPrefix(x.Text, x.Name) {
		return x.Text
	}
	return strings.TrimSpace(x.Name + " " + x.Text)
}

const (
	fewestCalls  = 5         // of one name and text below one span
	maxCallTexts = 1_000_000 // calls whose texts are read
	maxRepeats   = 10_000    // pairs of names that are counted
	candidates   = 10        // repeats whose texts are read, for each that is asked for
)

// callTexts are the attributes that tell a call from others of the same name.
var callTexts = []string{"db.query.text", "db.statement", "url.full", "http.url", "url.path", "http.target"}

// A repeatKey says which spans are counted together.
type repeatKey struct{ service, name, of string }

// A callKey says which spans below one span are counted together.
type callKey struct{ resource, name uint16 }

// repeats counts what is below the spans of some blocks.
type repeats struct {
	v     *view.View
	rows  view.Set[view.Row]
	t     *view.Tree
	names []uint16 // by number of metadata, the first that has the same name
	found map[repeatKey]*repeated
	calls map[callKey]calls // below one span
}

type calls struct {
	n    int
	time int64
}

// repeatsOf returns what spans do again and again, what takes most time first, limit of them at most. Only rows of the
// given set are counted. Calls that are known to differ in their queries or URLs are no repeats.
func repeatsOf(ctx context.Context, v *view.View, rows view.Set[view.Row], limit int) ([]Repeat, error) {
	all := make(map[repeatKey]*repeated)
	t, names := v.Tree(), namesOf(v.Columns().Metas())
	parts, err := columns.Collect(ctx, v.Columns().Each, func() (*repeats, func(k int)) {
		p := &repeats{v: v, rows: rows, t: t, names: names, found: make(map[repeatKey]*repeated), calls: make(map[callKey]calls)}
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

// compare compares the order of two repeats: what takes most time comes first.
func (x *Repeat) compare(y *Repeat) int {
	return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Most, y.Most), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Text, y.Text))
}

// add adds what other spans do.
func (x *Repeat) add(y *Repeat) {
	x.Spans, x.Calls, x.Time = x.Spans+y.Spans, x.Calls+y.Calls, x.Time+y.Time
	if y.MostCalls > x.MostCalls || y.MostCalls == x.MostCalls && y.Most < x.Most {
		x.Most, x.MostCalls = y.Most, y.MostCalls
	}
}

// block counts what is below the spans of a block.
func (p *repeats) block(k int) {
	b := p.v.Columns().Block(k)
	for i, f := range b.Flags {
		if view.Flags(f).Role() != view.RoleSpan || b.Meta[i] == columns.Unknown {
			continue
		}
		r := view.Row(b.First) + view.Row(i)
		if p.t.End(r)-p.t.Rank(r) <= fewestCalls {
			continue
		}
		if len(p.calls) > 1000 { // to clear it takes long, each time
			p.calls = make(map[callKey]calls)
		}
		clear(p.calls)
		for kid := range p.t.Children(r) {
			if !p.rows.Has(kid) {
				continue
			}
			c, j := p.v.Columns().Block(int(kid)/columns.BlockRows), kid%columns.BlockRows
			if view.Flags(c.Flags[j]).Role() == view.RoleSpan && c.Meta[j] != columns.Unknown {
				key := callKey{c.Resource[j], p.names[c.Meta[j]]}
				n := p.calls[key]
				p.calls[key] = calls{n.n + 1, n.time + max(0, c.Duration[j])}
			}
		}
		for key, n := range p.calls {
			if n.n >= fewestCalls {
				p.add(key, r, b.Meta[i], n)
			}
		}
	}
}

// add adds what the span at row r does again and again.
func (p *repeats) add(call callKey, r view.Row, meta uint16, n calls) {
	metas := p.v.Columns().Metas()
	key := repeatKey{name: metas[call.name].Name, of: metas[meta].Name}
	if call.resource != columns.Unknown {
		key.service = p.v.Service(view.Row(p.v.Columns().Resources()[call.resource]))
	}
	x := p.found[key]
	if x == nil {
		if len(p.found) >= maxRepeats {
			return
		}
		x = &repeated{Repeat: Repeat{Service: key.service, Name: key.name, Of: key.of, Most: r}}
		p.found[key] = x
	}
	more := &Repeat{Calls: n.n, Time: n.time, Most: r, MostCalls: n.n}
	if last := len(x.below) - 1; last < 0 || x.below[last] != r { // else its calls are of two resources
		more.Spans, x.below = 1, append(x.below, r)
	}
	x.add(more)
}

// namesOf returns for each metadata the number of the first that has the same name.
func namesOf(metas []format.Metadata) []uint16 {
	first := make(map[string]uint16, len(metas))
	names := make([]uint16, len(metas))
	for i := range metas {
		n, ok := first[metas[i].Name]
		if !ok {
			n = uint16(i)
			first[metas[i].Name] = n
		}
		names[i] = n
	}
	return names
}

// byText returns the calls of x by their texts, as far as a span has enough of one text.
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
			if _, waits := e.Attribute("wait.reason"); waits { // a goroutine of an execution trace, which calls nothing
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

// callText returns the query or the URL of a call, "" if it has none. The caller may keep it.
func callText(e *format.TraceEntry) string {
	for _, name := range callTexts {
		if value, ok := e.Attribute(name); ok {
			text := value.Text()
			return patternOf(strings.Join(strings.Fields(text[:min(len(text), 4*maxPattern)]), " "))
		}
	}
	return ""
}
