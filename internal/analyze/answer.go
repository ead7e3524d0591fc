package analyze

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// An Explanation says why a recording was made and how it ended, what fails in it, where its time is spent, and what
// changed.
type Explanation struct {
	Verdict  string `json:"verdict"`  // one sentence: the most important of the facts below
	Found    bool   `json:"found"`    // at least one cause is sure
	Alarming bool   `json:"alarming"` // the verdict is about a failure, a death, a hang or a cause
	Complete bool   `json:"complete"` // all requests were compared, not only some
	Looked   Looked `json:"looked"`
	// Chance has the number of random exchanges of requests that made a cause as significant as the causes below, and
	// the number of all exchanges. Both numbers are 0 if nothing was exchanged.
	Chance   [2]int       `json:"chance"`
	Trigger  *Trigger     `json:"trigger"`    // why a flight recorder wrote the file; nil if a person or a program asked for the file
	Deaths   []Death      `json:"deaths"`     // of processes, the first one first
	Failures []Failure    `json:"failures"`   // the most frequent first, at most six
	Where    []Finding    `json:"where"`      // where the time is spent, and other findings that need no comparison
	Since    *Since       `json:"since"`      // nil if the causes do not come from a comparison of earlier with later requests
	Causes   []Cause      `json:"causes"`     // at most six
	More     int          `json:"more"`       // the number of causes that are not in Causes
	Habits   []Evidence   `json:"habits"`     // things that calls began or ceased to do, if no request is slower or fails because of them; at most three
	Baseline BaselineNote `json:"baseline"`   // the age of the baseline, and its other versions and hosts
	Shares   []Evidence   `json:"shares"`     // properties that the selected requests have more often than the others
	Failed   [2]int       `json:"failed"`     // failed requests, before and now
	Apart    int          `json:"logs_apart"` // log records that belong to no request; they were not analyzed

	odd      []*oddity
	tried    tried
	searched bool   // the caller did not give the time of the change
	busy     bool   // the calls of most operations became slower
	slower   string // a text that says which requests became slower when busy was set
}

const (
	maxCauses   = 6
	maxEvidence = 5
	maxFailures = 6
	maxHabits   = 3
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

// Since is the time that divides a recording: requests that begin at that time or later are compared with earlier
// requests.
type Since struct {
	At    Time  `json:"at_unix_nano"`
	After int64 `json:"after_nano"` // the time since the first request
	Grows bool  `json:"grows"`      // the difference grows from the first request on, so it may be older than the recording
}

// A Cause is a service that may be the reason why requests are slower or fail.
type Cause struct {
	Service   string     `json:"service"`
	Operation string     `json:"operation"` // of the first evidence
	Of        string     `json:"of"`        // the name of the requests whose calls show the cause; empty if these requests have several names
	Kind      Kind       `json:"kind"`
	Score     float64    `json:"score"` // the sum of Parts, which are shares of the time and of the requests
	Sure      bool       `json:"sure"`
	Parts     Parts      `json:"parts"`
	Covers    Covered    `json:"covers"`             // how many of the failed or slow requests have calls that show the first evidence
	From      Time       `json:"from_unix_nano"`     // when the calls of the first evidence begin; NoTime: at all times, or at Since
	To        Time       `json:"to_unix_nano"`       // when these calls end; NoTime: they last until the end
	Example   view.Row   `json:"example" null:"yes"` // a typical call of the first evidence, if the cause is sure
	Evidence  []Evidence `json:"evidence"`           // at most five, the most significant first
	More      int        `json:"more"`
	Query     string     `json:"query"`   // selects the rows of the first evidence
	Command   string     `json:"command"` // a command that shows the evidence; set by commands

	certain bool // some evidence is certain, but may be too small for a cause or do no harm
	busy    bool // some evidence is certain, but is no cause because everything is slower
}

// Covered counts the failed or slow requests to which a cause contributed. A request is slow if it takes longer than
// nearly all requests of its name before.
type Covered struct {
	Failed [2]int `json:"failed"` // with the cause, and all
	Slow   [2]int `json:"slow"`
	Text   string `json:"text"` // such as "covers 312 of 333 slow requests"; empty if the cause covers no request
}

// Parts are the summands of a score.
type Parts struct {
	Time  float64 `json:"time"`      // the service's own time
	Calls float64 `json:"calls"`     // the time of calls between the service and others
	Acts  float64 `json:"behaviour"` //nolint:misspell // errors, and habits that the service gave up; the JSON schema has this spelling
}

// A Kind is the kind of an [Evidence].
type Kind string

// The kinds of evidence.
const (
	KindSlower      Kind = "slower"       // the operation's own time is longer than before
	KindSlowerCalls Kind = "slower calls" // calls from one service to another take longer than before
	KindMoreCalls   Kind = "more calls"   // an operation calls another operation more often
	KindSlow        Kind = "slow"         // calls are far slower than other calls of their operation
	KindError       Kind = "error"
	KindWarning     Kind = "warning"
	KindNew         Kind = "new"       // something that no call did before
	KindNoLonger    Kind = "no longer" // a habit that calls gave up
	KindShare       Kind = "share"     // a property that the slow or failed calls have in common
	KindOnset       Kind = "onset"     // something else that happened when the cause began
)

// An Evidence is an observation that supports a cause.
type Evidence struct {
	Kind      Kind    `json:"kind"`
	Operation string  `json:"operation"`
	Place     string  `json:"place,omitempty"` // the place in the source
	Pattern   string  `json:"pattern,omitempty"`
	After     string  `json:"after,omitempty"` // if set, only calls that did or logged this text are counted
	Before    Count   `json:"before"`
	Now       Count   `json:"now"`
	Over      int64   `json:"over_nano,omitempty"` // a call that takes longer is slow
	Text      string  `json:"text"`                // a sentence
	Share     float64 `json:"share"`
	Log10P    float64 `json:"log10p"` // the decimal logarithm of the probability that this is chance
	Sure      bool    `json:"sure"`

	about  item
	odd    *oddity
	series *series // the series of a time or of a number of calls
	beside bool    // the evidence is about spans that ran at the same time
	among  bool    // calls of the same requests are compared, not calls before with calls now
	began  int64   // when a lasting change began; 0: not known
	grows  bool    // the change grows from the first request on
}

// A Count says that N of Of calls of an operation show the evidence. Median is the median of the times or of the
// numbers of calls, or 0 for other evidence.
type Count struct {
	N      int   `json:"n"`
	Of     int   `json:"of"`
	Median int64 `json:"median_nano,omitempty"`
}

func took(n int64) []byte { return quantity.AppendShort(nil, time.Duration(n)) }

func name(service string) string { return cmp.Or(service, "(no service)") }

// evidence returns the evidence of a series, without its text.
func (s *series) evidence(kind Kind, operation string, share, p float64, sure bool) Evidence {
	shown := s.shown()
	return Evidence{
		Kind: kind, Operation: operation, Before: Count{shown.was, shown.n, shown.med}, Now: Count{shown.slow, shown.m, shown.now}, Over: shown.limit,
		Share: share, Log10P: -p, Sure: sure, series: s,
	}
}

// oddity returns the evidence of an oddity, without its text.
func (w *workload) oddity(o *oddity, kind Kind, share float64, sure bool) Evidence {
	x := w.items[o.item]
	e := Evidence{
		Kind: kind, Operation: o.name, Place: x.place, Pattern: x.said(), After: w.items[o.after].text, Before: Count{N: o.counts[0], Of: o.counts[1]},
		Now: Count{N: o.counts[2], Of: o.counts[3]}, Share: share, Log10P: -o.p, Sure: sure, about: x, odd: o,
	}
	if x.cause != "" {
		e.Pattern += ": " + x.cause
	}
	return e
}

// query returns a query that selects the rows of the evidence.
func (e *Evidence) query(service string) string {
	of := query.Where("service", service)
	switch e.Kind {
	case KindSlower, KindSlow:
		over := e.Over
		if e.Now.N == 0 { // all calls are slower, but none is over the limit
			over = e.Before.Median
		}
		return "{ " + of + " && " + query.Where("name", e.Operation) + " && self > " + strconv.FormatInt(over, 10) + "ns }"
	case KindMoreCalls:
		of := e.series.shown().calls
		return "{ " + query.Where("service", of.to.service) + " && " + query.Where("name", of.to.name) + " && " + query.Where("parent:name", of.from.name) + " }"
	case KindSlowerCalls:
		from, to, _ := strings.Cut(e.Operation, " → ")
		return "{ " + query.Where("service", to) + " && " + query.Where("parent:service", from) + " }"
	case KindError, KindWarning:
		if e.about.name != "" {
			return "{ " + of + " && " + query.Where("name", e.about.name) + " && (span:failed || level >= error) }"
		}
		found := false
		for _, text := range []string{e.about.said(), e.about.cause} { // cut before a placeholder or a character that needs an escape
			text = strings.TrimRight(text[:strings.IndexAny(text+"<", "<…\"\\\t\r")], " :")
			if text != "" {
				of, found = of+` && "`+text+`"`, true
			}
		}
		if !found {
			of += " && level >= warn"
		}
		return of
	}
	all := "{ " + of + " && " + query.Where("name", e.Operation) + " }"
	if e.Kind == KindNoLonger && e.about.kind == itemSpan {
		return "{ " + query.Where("name", e.about.text) + " } !<< " + all
	}
	return all
}
