package analyze

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// An Explanation ranks the causes why a recording is slower than another one, or fails more often.
type Explanation struct {
	Verdict  string `json:"verdict"`  // a sentence
	Found    bool   `json:"found"`    // at least one cause is sure
	Complete bool   `json:"complete"` // all requests were compared, not only some
	Looked   Looked `json:"looked"`
	// Chance has the number of random exchanges of requests after which a cause was as significant, and the
	// number of all exchanges. Both are 0 if there were none.
	Chance [2]int     `json:"chance"`
	Since  *Since     `json:"since"`      // nil if the causes do not come from a comparison of earlier with later requests
	Causes []Cause    `json:"causes"`     // at most six
	More   int        `json:"more"`       // the number of causes that are not in Causes
	Shares []Evidence `json:"shares"`     // properties that the selected requests have more often than the others
	Failed [2]int     `json:"failed"`     // failed requests, before and now
	Apart  int        `json:"logs_apart"` // log records that belong to no request; they were not analyzed

	odd   []*oddity
	tried tried
}

const (
	maxCauses   = 6
	maxEvidence = 5
)

// Looked has the numbers of compared requests and of tests.
type Looked struct {
	Requests  [2]int  `json:"requests"` // before and now
	Series    int     `json:"series"`   // the number of series: times of operations, and of calls between services
	Errors    int     `json:"errors"`
	Habits    int     `json:"habits"`
	AllSlower float64 `json:"all_slower"` // the shift that all times have in common, in standard deviations
	Spread    float64 `json:"spread"`
}

// Since is the time that divides a recording: requests from then on are compared with earlier requests.
type Since struct {
	At    Time  `json:"at_unix_nano"`
	After int64 `json:"after_nano"` // the time since the first request
}

// A Cause is a service that may be the reason why requests are slower or fail.
type Cause struct {
	Service   string     `json:"service"`
	Operation string     `json:"operation"` // of the first evidence
	Kind      string     `json:"kind"`
	Score     float64    `json:"score"` // the sum of Parts, which are shares of the time and of the requests
	Sure      bool       `json:"sure"`
	Parts     Parts      `json:"parts"`
	From      Time       `json:"from_unix_nano"`     // when the calls of the first evidence begin; NoTime: at all times, or at Since
	To        Time       `json:"to_unix_nano"`       // when these calls end; NoTime: they last until the end
	Example   view.Row   `json:"example" null:"yes"` // a typical call of the first evidence, if the cause is sure
	Evidence  []Evidence `json:"evidence"`           // at most five, the most significant first
	More      int        `json:"more"`
	Query     string     `json:"query"`   // selects the rows of the first evidence
	Command   string     `json:"command"` // a command that shows the evidence; set by commands
}

// Parts are the summands of a score.
type Parts struct {
	Time  float64 `json:"time"`      // the service's own time
	Calls float64 `json:"calls"`     // the time of calls between the service and others
	Acts  float64 `json:"behaviour"` //nolint:misspell // errors, and what it does no longer; the key is that of the schema
}

// An Evidence is an observation that supports a cause.
type Evidence struct {
	Kind      string  `json:"kind"` // slower, slower calls, more calls, slow, error, warning, new, no longer, share or onset
	Operation string  `json:"operation"`
	Place     string  `json:"place,omitempty"` // the place in the source
	Pattern   string  `json:"pattern,omitempty"`
	After     string  `json:"after,omitempty"` // if set, only calls that did or logged this are counted
	Before    Count   `json:"before"`
	Now       Count   `json:"now"`
	Over      int64   `json:"over_nano,omitempty"` // a call that takes longer is slow
	Text      string  `json:"text"`                // a sentence
	Share     float64 `json:"share"`
	Log10P    float64 `json:"log10p"` // the decimal logarithm of the probability that this is chance
	Sure      bool    `json:"sure"`

	about item
	odd   *oddity
	calls *counted
}

// A Count says that N of Of calls of an operation show the evidence.
type Count struct {
	N      int   `json:"n"`
	Of     int   `json:"of"`
	Median int64 `json:"median_nano,omitempty"`
}

func took(n int64) []byte { return quantity.AppendShort(nil, time.Duration(n)) }

func name(service string) string { return cmp.Or(service, "(no service)") }

func (s *series) evidence(kind, operation string, share, p float64, sure bool) Evidence {
	e := Evidence{
		Kind: kind, Operation: operation, Before: Count{s.was, s.n, s.med}, Now: Count{s.slow, s.m, s.now}, Over: s.limit, Share: share, Log10P: -p, Sure: sure,
		Text: fmt.Sprintf("median %s → %s, %d of %d over %s (before %d of %d): %s", took(s.med), took(s.now), s.slow, s.m, took(s.limit), s.was, s.n, operation),
	}
	if c := s.calls; c != nil {
		e.calls = c
		e.Text = fmt.Sprintf("median %d → %d calls, over %d in %d of %d (before %d of %d): %s", s.med/c.each, s.now/c.each, s.limit/c.each, s.slow, s.m, s.was, s.n, operation)
	}
	return e
}

func (w *workload) oddity(o *oddity, kind string, share float64, sure bool) Evidence {
	x := w.items[o.item]
	e := Evidence{
		Kind: kind, Operation: o.name, Place: x.place, Pattern: x.said(), After: w.items[o.after].text, Before: Count{N: o.counts[0], Of: o.counts[1]},
		Now: Count{N: o.counts[2], Of: o.counts[3]}, Share: share, Log10P: -o.p, Sure: sure, about: x, odd: o,
	}
	if x.cause != "" {
		e.Pattern += ": " + x.cause
	}
	counts := strings.Replace(fmt.Sprintf("%d of %d calls of %s (before %d of %d)", e.Now.N, e.Now.Of, o.name, e.Before.N, e.Before.Of), " of  (", " (", 1)
	if e.Text = counts + ": " + kind + " " + e.Pattern; o.gone {
		what := e.Pattern
		if x.kind == itemLog && placeInText.FindString(what) == what {
			what = what[strings.LastIndexByte(what, '/')+1:]
		}
		less := "no longer"
		if 2*e.Now.N > e.Now.Of {
			less = "less often"
		}
		e.Text = fmt.Sprintf("%s %s %s: now in %s", less, map[itemKind]string{itemLog: "logged", itemSpan: "done", itemCall: "called"}[x.kind], what, counts)
	}
	return e
}

// query returns a query that selects the rows of the evidence.
func (e *Evidence) query(service string) string {
	of := query.Where("service", service)
	switch e.Kind {
	case "slower", "slow":
		over := e.Over
		if e.Now.N == 0 { // all calls are a little slower
			over = e.Before.Median
		}
		return "{ " + of + " && " + query.Where("name", e.Operation) + " && self > " + strconv.FormatInt(over, 10) + "ns }"
	case "more calls":
		return "{ " + query.Where("service", e.calls.to.service) + " && " + query.Where("name", e.calls.to.name) + " && " + query.Where("parent:name", e.calls.from.name) + " }"
	case "slower calls":
		from, to, _ := strings.Cut(e.Operation, " → ")
		return "{ " + query.Where("service", to) + " && " + query.Where("parent:service", from) + " }"
	case "error", "warning":
		if e.about.name != "" {
			return "{ " + of + " && " + query.Where("name", e.about.name) + " && (span:failed || level >= error) }"
		}
		found := false
		for _, text := range []string{e.about.said(), e.about.cause} { // cut before a placeholder or a character that needs an escape
			if text = strings.TrimRight(text[:strings.IndexAny(text+"<", "<…\"\\\t\r")], " :"); text != "" {
				of, found = of+` && "`+text+`"`, true
			}
		}
		if !found {
			of += " && level >= warn"
		}
		return of
	}
	all := "{ " + of + " && " + query.Where("name", e.Operation) + " }"
	if e.Kind == "no longer" && e.about.kind == itemSpan {
		return "{ " + query.Where("name", e.about.text) + " } !<< " + all
	}
	return all
}
