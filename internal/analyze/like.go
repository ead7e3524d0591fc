package analyze

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/view"
)

// rules are the thresholds of a comparison.
type rules struct {
	alike   bool    // calls of one operation are divided by request, caller, text and outcome; each kind is compared with the same kind before
	slow    float64 // a value is slow if it exceeds this many times the 95th percentile before
	step    float64 // the least share by which a median must grow
	stepFew float64 // replaces step if fewer than five operations show whether the machine was busy
	weight  float64 // the least share of the time of all requests that a difference must explain
	// ranksSmall ranks certain differences like causes, even if they are too small to be causes.
	ranksSmall bool
	acts       float64 // the least share of the failed requests, or of all requests, whose calls behave differently
}

var (
	// withBaseline has the rules for a comparison with another recording of the same load.
	withBaseline = rules{slow: 1.5, step: leastStep, stepFew: leastStep, weight: .05, acts: .05, ranksSmall: true}
	// withinRecording has the rules for a comparison of requests of one recording. The load, the mix of requests and
	// the caches change during a recording, so these rules are stricter.
	withinRecording = rules{alike: true, slow: 2, step: .25, stepFew: .5, weight: .05, acts: .05}
)

const (
	// Within one recording, an operation that became slower is a cause if it adds leastAdded nanoseconds or more to a
	// request, on average, or if there are enoughCalls calls before and after.
	leastAdded  = 5e5
	enoughCalls = 400

	// Requests fill a database if they come in the first 1/seedingShare of the time of a recording, at least
	// seedingPace times as often as later requests.
	seedingShare = 10
	seedingPace  = 8

	mostTexts = 5000 // the maximum number of texts whose patterns are cached
	mostPaths = 100  // the maximum number of kinds of calls of one name
)

// matters reports whether k requests with a call that behaves differently are enough for a cause: whether they are a
// large enough share of all requests. For an error or a warning, the share of the failed requests counts instead, if
// any failed.
func (w *workload) matters(kind Kind, k, requests, failed int) bool {
	of := requests
	if (kind == KindError || kind == KindWarning) && failed > 0 {
		of = failed
	}
	return float64(k) >= w.rules.acts*float64(of)
}

// A callPath distinguishes calls of one name: by request, by caller, by the call's own query text, route or method, and
// by how the call ended.
type callPath struct{ request, parent, own, ended string }

func (p callPath) compare(q callPath) int {
	return cmp.Or(cmp.Compare(p.request, q.request), cmp.Compare(p.parent, q.parent), cmp.Compare(p.own, q.own), cmp.Compare(p.ended, q.ended))
}

// A pathReader reads the paths of spans.
type pathReader struct {
	texts, routes, urls, status []*columns.Column
	patterns                    map[string]string // a cache
	ofURLs                      map[string]bool   // the patterns of URLs
	perName                     map[operation]map[callPath]bool
}

func newPathReader(ctx context.Context, v *view.View) (*pathReader, error) {
	x := &pathReader{patterns: make(map[string]string), ofURLs: make(map[string]bool), perName: make(map[operation]map[callPath]bool)}
	for _, f := range []struct {
		to    *[]*columns.Column
		names []string
	}{
		{&x.routes, []string{"http.route"}},
		{&x.urls, []string{"url.path", "http.target"}},
		{&x.texts, []string{"db.query.text", "db.statement", "rpc.method"}},
		{&x.status, []string{"http.response.status_code", "http.status_code", "rpc.grpc.status_code"}},
	} {
		for _, name := range f.names {
			c, err := columns.Of(v).Column(ctx, name)
			if err != nil {
				return nil, err
			}
			if len(c.Values) > 0 {
				*f.to = append(*f.to, c)
			}
		}
	}
	return x, nil
}

// valueOf returns the text of the first column that has a value in row r.
func valueOf(list []*columns.Column, r view.Row) string {
	for _, c := range list {
		switch code := c.Codes[r]; code {
		case 0:
		case columns.UnknownText:
			return "…"
		default:
			if v := c.Values[code-1]; v.Text() != "" {
				return v.Text()
			}
			return c.Values[code-1].String()
		}
	}
	return ""
}

// own returns the route of the span at row r with the pattern of its query text. They distinguish the span from other
// spans of its name.
func (x *pathReader) own(v *view.View, r view.Row) string {
	return x.routeOf(v, r) + x.pattern(valueOf(x.texts, r))
}

// routeOf returns the route of a span. If the span has no route, and no path in its name, it returns the pattern of
// the span's URL.
func (x *pathReader) routeOf(v *view.View, r view.Row) string {
	route := valueOf(x.routes, r)
	if route != "" || len(x.urls) == 0 || strings.Contains(v.Name(r), "/") {
		return route
	}
	p := x.pattern(valueOf(x.urls, r))
	if !x.ofURLs[p] && len(x.ofURLs) >= mostPaths {
		return ""
	}
	x.ofURLs[p] = true
	return p
}

func (x *pathReader) pattern(text string) string {
	p, known := x.patterns[text]
	if !known {
		p = Pattern(text)
		if len(x.patterns) < mostTexts {
			x.patterns[text] = p
		}
	}
	return p
}

// label returns the name of a request with its route or URL, unless the name ends with the route.
func (x *pathReader) label(v *view.View, root view.Row) string {
	name, route := v.Name(root), x.routeOf(v, root)
	if strings.HasSuffix(name, route) {
		return name
	}
	return name + " " + route
}

// statusOf returns the HTTP or gRPC status of a span, or "".
func (x *pathReader) statusOf(r view.Row) string { return valueOf(x.status, r) }

// ended returns "" for a call that ended without an error, else the class of its status or a word for a failure.
func (x *pathReader) ended(r view.Row, failed bool) string {
	switch s := x.statusOf(r); {
	case len(s) == 3 && s[0] >= '4':
		return s[:1] + "xx"
	case failed:
		return "failed"
	}
	return ""
}

// bounded returns p, or an empty path if the operation has too many paths already.
func (x *pathReader) bounded(of operation, p callPath) callPath {
	known := x.perName[of]
	if known == nil {
		known = make(map[callPath]bool)
		x.perName[of] = known
	}
	if !known[p] && len(known) >= mostPaths {
		return callPath{}
	}
	known[p] = true
	return p
}

// pooled joins the series of one name. Each part has like calls: of one request, one parent, one text and one
// outcome. The tests add up the differences between before and now of the parts (van Elteren).
func (w *workload) pooled(all []*series) (out []*series) {
	if !w.rules.alike {
		return all
	}
	type key struct {
		service, name string
		edge, calls   bool
	}
	groups := make(map[key][]*series)
	var order []key
	for _, s := range all {
		k := key{s.service, s.name, s.edge, s.calls != nil}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], s)
	}
	for _, k := range order {
		parts := groups[k]
		if len(parts) == 1 {
			out = append(out, parts[0])
			continue
		}
		most := slices.MaxFunc(parts, func(a, b *series) int { return cmp.Compare(max(a.tail, a.shift), max(b.tail, b.shift)) })
		s := *most
		s.most, s.parts = most, parts
		s.tail, s.shift, s.n, s.m, s.slow, s.was, s.kept, s.u, s.variance, s.grown = 0, 0, 0, 0, 0, 0, [2]int{}, 0, 0, 0
		auc, moved, time := 0.0, 0.0, 0.0
		for _, p := range parts {
			s.tail, s.n, s.m, s.slow, s.was = s.tail+p.tail, s.n+p.n, s.m+p.m, s.slow+p.slow, s.was+p.was
			s.shift += int64(p.m) * (p.now - p.med) // a part that is faster counts against the others
			s.kept[0], s.kept[1] = s.kept[0]+p.kept[0], s.kept[1]+p.kept[1]
			s.u, s.variance, auc = s.u+p.u, s.variance+p.variance, auc+p.auc*float64(p.m)
			moved, time = moved+float64(p.m)*float64(p.now), time+float64(p.m)*float64(p.med)
			s.grown += p.grown * float64(p.m)
		}
		s.shift, s.auc, s.grown = max(0, s.shift), auc/float64(s.m), s.grown/float64(s.m)
		p := s.moreSlow(s.kept[0], s.kept[1], s.was, s.n)
		s.z = 0
		if s.variance > 0 {
			s.z = s.u / math.Sqrt(s.variance)
		}
		if moved > time*(1+s.step) {
			p = max(p, stat.Normal(s.z))
		}
		s.p = max(0, p-math.Log10(3), most.p-math.Log10(float64(len(parts))))
		if s.calls != nil && moved < moreOften*time {
			s.p = 0
		}
		out = append(out, &s)
	}
	return out
}
