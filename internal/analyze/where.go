package analyze

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A Finding is a noteworthy fact about a recording, for example where time is spent. It needs no comparison with other
// requests.
type Finding struct {
	Kind  string   `json:"kind"` // time, wait, repeat, retry, gap, open, grows or pattern
	Text  string   `json:"text"` // a sentence
	Share float64  `json:"share"`
	Of    string   `json:"of"` // the whole of which Share is a part, such as "request time", the time of all requests
	Row   view.Row `json:"row" null:"yes"`

	large    bool   // the heap grew by so much that a verdict says so
	hasQuery bool   // the query or URL of a repeated call is known
	asleep   bool   // the program waited in time.Sleep
	stalls   bool   // requests waited during a gap
	said     string // the text for a verdict; if empty, Text is used
	at       int64  // when a pattern first occurs
	change   change // whether a pattern is new, more frequent or gone
}

func (f *Finding) sentence() string { return cmp.Or(f.said, f.Text) }

// The kinds of findings.
const (
	findTime   = "time"
	findWait   = "wait"
	findRepeat = "repeat"
	findRetry  = "retry"
	findGap    = "gap"
	findOpen   = "open"
	findGrows  = "grows" // goroutines
	findHeap   = "heap"  // the heap grows
)

// The values of Finding.Of: the whole of which the share of a finding is a part.
const (
	ofRequests  = "request time"
	ofRecording = "the recording"
)

const (
	leastFinding = .1 // the least share of a finding
	largeHeap    = 64 // MiB
	manyCalls    = 10 // a repeat is reported if a span makes at least this many calls of one operation
	leastAround  = 20 // a gap is reported if at least this many requests would be expected in it
)

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// where returns the findings about the rows of a run, whose overview is top. The first finding is mainTime.
func (w *workload) where(ctx context.Context, run query.Run, top *Overview) (list []Finding, err error) {
	total := int64(0)
	for _, t := range w.routes {
		total += t.took
	}
	if total == 0 {
		return nil, nil
	}
	waits, err := Waits(ctx, run.View, run.Rows, 3)
	if err != nil {
		return nil, err
	}
	list = append(list, w.mainTime(total))
	for _, x := range waits {
		if share := float64(x.Time) / float64(total); share >= leastFinding {
			text := fmt.Sprintf("%s waits: %s", took(x.Time), x.Text())
			list = append(list, Finding{Kind: findWait, Text: text, Share: min(1, share), Of: ofRequests, Row: x.Longest, asleep: x.State == "sleep"})
		}
	}
	for _, x := range top.Repeats {
		if share := float64(x.Time) / float64(total); share >= leastFinding && x.Calls >= manyCalls*x.Spans {
			text := fmt.Sprintf("%s makes %d calls each, %s in all: %s", x.Of, x.Calls/x.Spans, took(x.Time), x.Call())
			list = append(list, Finding{Kind: findRepeat, Text: text, Share: min(1, share), Of: ofRequests, Row: x.Most, hasQuery: x.Text != ""})
		}
	}
	list = append(list, w.retried()...)
	list = append(list, w.gapsOf(top, total)...)
	if top.Open > 0 {
		openFor := func(r view.Row) int64 {
			d, _ := run.View.OpenFor(r)
			return int64(d)
		}
		longest := slices.MaxFunc(top.NeverEnded, func(a, b view.Row) int { return cmp.Compare(openFor(a), openFor(b)) })
		spans := "1 span has not ended: "
		if top.Open > 1 {
			spans = fmt.Sprintf("%d spans have not ended; the longest is ", top.Open)
		}
		text := fmt.Sprintf("%s%s, open for at least %s", spans, run.View.Name(longest), took(openFor(longest)))
		list = append(list, Finding{Kind: findOpen, Text: text, Share: float64(openFor(longest)) / float64(max(1, top.Last-top.First)), Of: ofRecording, Row: longest})
	}
	for _, g := range top.Growth {
		f := Finding{Kind: findGrows, Text: fmt.Sprintf("%.0f → %.0f %s", g.First, g.Last, g.Of), Share: 1 - g.First/max(1, g.Last), Of: "the last value is growth"}
		if g.Of != "goroutines" {
			f.Kind, f.large = findHeap, g.Last-g.First >= largeHeap
		} else if len(top.Goroutines) > 0 {
			most := top.Goroutines[0]
			f.Text += fmt.Sprintf("; %d of them in %s, for %d spans, %d of which ended", most.Count, most.In, most.Spans, most.Ended)
			f.Row = most.Row
		}
		if g.older {
			f.Text += "; this growth may have begun before the recording"
		}
		list = append(list, f)
	}
	slices.SortStableFunc(list[1:], func(a, b Finding) int { return cmp.Compare(b.Share, a.Share) })
	return list, nil
}

// mainTime returns the operation in which the requests with the largest total time spend most time.
func (w *workload) mainTime(total int64) Finding {
	most := slices.MaxFunc(slices.Collect(maps.Values(w.routes)), func(a, b *route) int {
		return cmp.Or(cmp.Compare(a.took, b.took), b.compare(a.operation))
	})
	op := slices.MaxFunc(slices.Collect(maps.Keys(most.own)), func(a, b operation) int {
		return cmp.Or(cmp.Compare(most.own[a].took, most.own[b].took), b.compare(a))
	})
	own := most.own[op]
	in := op.name
	switch {
	case op.service == most.service && (op.name == most.name || strings.HasPrefix(most.name, op.name+" ")):
		in = "no span below it"
	case len(w.services()) > 1:
		in += " of " + name(op.service)
	}
	much := fmt.Sprintf("%s in %d requests", took(own.took), most.n)
	if most.n == 1 {
		much = fmt.Sprintf("%s in 1 request", took(own.took))
	}
	share := percent(min(1, float64(own.took)/float64(max(1, most.took))))
	return Finding{
		Kind: findTime, Text: fmt.Sprintf("%s, in %s, %s", most.name, in, much), Share: min(1, float64(own.took)/float64(total)), Of: ofRequests, Row: own.longest,
		said: fmt.Sprintf("%s of the time of %s is in %s: %s", share, most.name, in, much),
	}
}

// retried returns the operation with the most retries: calls that repeat a failed call of the same span.
func (w *workload) retried() []Finding {
	best := retries{}
	for _, op := range slices.SortedFunc(maps.Keys(w.retries), operation.compare) {
		if r := w.retries[op]; r.again > best.again {
			best = *r
			best.operation = op
		}
	}
	if share := float64(best.again) / float64(max(1, best.calls)); best.again >= few && share >= leastFinding {
		text := fmt.Sprintf("%d of %d calls of %s repeat a call that failed", best.again, best.calls, best.name)
		return []Finding{{Kind: findRetry, Text: text, Share: share, Of: "these calls", Row: best.example}}
	}
	return nil
}

// gapsOf returns the longest gap that has load before it and after it, and in which many requests would be
// expected.
func (w *workload) gapsOf(top *Overview, total int64) []Finding {
	n := len(w.requests)
	if n < leastAround {
		return nil
	}
	loaded, idle := Time(w.requests[n/10].start), Time(w.requests[n-1-n/10].start)
	for _, g := range top.Gaps {
		share, to := float64(g.Duration)/float64(max(1, w.length())), g.From+Time(g.Duration)
		if g.From < loaded || to > idle || float64(n)*share < leastAround*(1-share) {
			continue
		}
		f := Finding{Kind: findGap, Text: "nothing happened for " + string(took(g.Duration)), Share: share, Of: ofRecording, Row: g.Before}
		f.said = fmt.Sprintf("%s, %s of the recording", f.Text, percent(share))
		place, requests := w.waiting(int64(g.From), int64(to))
		if waited := float64(requests) * float64(g.Duration) / float64(total); requests >= few && waited >= leastFinding {
			f.Share, f.Of, f.Row, f.stalls = min(1, waited), ofRequests, place.row, true
			f.said = ""
			most := ""
			if place.requests < requests {
				most = fmt.Sprintf(", %d of them", place.requests)
			}
			f.Text = fmt.Sprintf("nothing happened for %s from %s on while %d requests waited%s in %s of %s", took(g.Duration), w.clock(g.From), requests, most, place.name, name(place.service))
		}
		if f.Share >= leastFinding {
			return []Finding{f}
		}
	}
	return nil
}

// A waitingAt is an operation in which requests waited.
type waitingAt struct {
	operation

	requests int
	row      view.Row // one of its spans
}

// waiting returns how many requests were open during a whole period, and the operation that was innermost in most of
// these requests.
func (w *workload) waiting(from, to int64) (most waitingAt, requests int) {
	innermost := make(map[operation]*waitingAt)
	for _, q := range w.requests {
		if q.start > from || q.start+q.took < to {
			continue
		}
		requests++
		open := q.row
		for r := range Subtree(q.view, q.row) {
			if begin, until, timed := during(q.view, r); timed && q.view.Role(r) == view.RoleSpan && begin <= from && until >= to {
				open = r
			}
		}
		op := operationOf(q.view, open)
		x := at(innermost, op)
		x.operation, x.row, x.requests = op, open, x.requests+1
		if x.requests > most.requests || x.requests == most.requests && op.compare(most.operation) < 0 {
			most = *x
		}
	}
	return most, requests
}

// absolute returns the verdict about a recording in which nothing changed: the most important finding.
func absolute(list []Finding) string {
	first := func(is func(f *Finding) bool) *Finding {
		if at := slices.IndexFunc(list, func(f Finding) bool { return is(&f) }); at >= 0 {
			return &list[at]
		}
		return nil
	}
	of := func(kind string) *Finding { return first(func(f *Finding) bool { return f.Kind == kind }) }
	time, wait := of(findTime), of(findWait)
	// If a goroutine sleeps while it holds a lock, the waits of others for the lock explain more than the sleep.
	if lock := first(func(f *Finding) bool { return f.Kind == findWait && !f.asleep }); lock != nil && 2*lock.Share >= wait.Share {
		wait = lock
	}
	repeat := of(findRepeat)
	if query := first(func(f *Finding) bool { return f.hasQuery }); query != nil && 2*query.Share >= repeat.Share {
		repeat = query
	}
	said := time.sentence()
	switch grows, retry, gap := of(findGrows), of(findRetry), of(findGap); {
	case gap != nil && gap.stalls:
		said = gap.Text
	case grows != nil:
		said = grows.Text
	case retry != nil && retry.Share > time.Share/2:
		said = retry.Text
	case repeat != nil && (wait == nil || repeat.Share >= wait.Share):
		said = repeat.Text
	case gap != nil && gap.Share > time.Share/2:
		said = gap.sentence()
	case wait != nil:
		said += "; " + wait.Text
	}
	if open := of(findOpen); open != nil && open.Share >= leastFinding {
		said += "; " + open.Text
	}
	if heap := of(findHeap); heap != nil && heap.large {
		said += "; the heap grows: " + heap.Text
	}
	return said
}
