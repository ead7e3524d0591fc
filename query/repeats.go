package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/columns"
	"github.com/entrace-go/entrace/view"
)

// A Repeat tells of calls that some spans make again and again, such as a query in a loop: five spans of one name or more
// directly below the same span.
type Repeat struct {
	Service, Name string // of the repeated spans
	Of            string // the name of the spans that they are below
	// Text is the query or the URL that most of those below Most have, with <number> and the like in place
	// of the parts that differ. It is "" if none was recorded.
	Text      string
	Spans     int      // that have five of them or more
	Calls     int      // how many those have
	Time      int64    // of the calls, in nanoseconds
	Most      view.Row // the span with most calls
	MostCalls int
}

// Call returns the text of the calls, behind their name unless it begins with that.
func (x *Repeat) Call() string {
	if strings.HasPrefix(x.Text, x.Name) {
		return x.Text
	}
	return strings.TrimSpace(x.Name + " " + x.Text)
}

const (
	fewestCalls  = 5      // of one name below one span
	maxCallTexts = 1000   // calls of a span whose texts are read
	maxRepeats   = 10_000 // pairs of names that are counted
	candidates   = 10     // repeats whose texts are read, for each that is asked for
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
	found map[repeatKey]*Repeat
	calls map[callKey]calls // below one span
}

type calls struct {
	n    int
	time int64
}

// repeatsOf returns what spans do again and again, what takes most time first, limit of them at most. Only rows of the
// given set are counted. Calls that are known to differ in their queries or URLs are no repeats.
func repeatsOf(ctx context.Context, v *view.View, rows view.Set[view.Row], limit int) ([]Repeat, error) {
	all := make(map[repeatKey]*Repeat)
	t, names := v.Tree(), namesOf(v.Columns().Metas())
	parts, err := columns.Collect(ctx, v.Columns().Each, func() (*repeats, func(k int)) {
		p := &repeats{v: v, rows: rows, t: t, names: names, found: make(map[repeatKey]*Repeat), calls: make(map[callKey]calls)}
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
				all[key].add(x)
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(all), func(a, b *Repeat) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Most, b.Most), cmp.Compare(a.Name, b.Name))
	})
	var list []Repeat
	read := v.NewReader()
	if limit < len(sorted)/candidates {
		sorted = sorted[:candidates*limit]
	}
	for _, x := range sorted {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if len(list) >= limit {
			break
		}
		same, err := x.findText(v, rows, read)
		if err != nil {
			return nil, err
		}
		if same {
			list = append(list, *x)
		}
	}
	return list, nil
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
		x = &Repeat{Service: key.service, Name: key.name, Of: key.of, Most: r}
		p.found[key] = x
	}
	x.add(&Repeat{Spans: 1, Calls: n.n, Time: n.time, Most: r, MostCalls: n.n})
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

// findText sets x.Text. It reports whether the calls are repeats.
func (x *Repeat) findText(v *view.View, rows view.Set[view.Row], read *view.Reader) (same bool, err error) {
	found := make(map[string]int)
	most, looked, texts := 0, 0, 0
	for kid := range v.Tree().Children(x.Most) {
		if !rows.Has(kid) || v.Role(kid) != view.RoleSpan || v.Name(kid) != x.Name || v.Service(kid) != x.Service {
			continue
		}
		if looked++; looked > maxCallTexts {
			break
		}
		e, err := read.Entry(kid)
		if err != nil {
			return false, err
		}
		if _, waits := e.Attribute("wait.reason"); waits { // a goroutine of an execution trace, which calls nothing
			return false, nil
		}
		for _, name := range callTexts {
			value, ok := e.Attribute(name)
			if !ok {
				continue
			}
			texts++
			text := value.Text()
			pattern := patternOf(strings.Join(strings.Fields(text[:min(len(text), 4*maxPattern)]), " "))
			if found[pattern]++; found[pattern] > most {
				x.Text, most = pattern, found[pattern]
			}
			break
		}
	}
	if most < fewestCalls {
		x.Text = ""
	}
	return most >= fewestCalls || texts*2 < looked, nil
}
