package analyze

import (
	"fmt"
	"strings"
)

// This file makes the sentences of an explanation, at the end and only from its fields.

// sentence returns the text of an evidence. The parameter others names the calls that the evidence is compared with,
// such as "before". The text does not repeat the operation head, because head is printed above it.
func (e *Evidence) sentence(others, head string) string {
	of := ""
	if e.Operation != head {
		of = ": " + e.Operation
	}
	value := func(n int64) string { return string(took(n)) }
	if e.Kind == KindMoreCalls {
		value = func(n int64) string { return fmt.Sprint(n / e.series.shown().calls.each) }
	}
	switch {
	case e.Kind == KindMoreCalls && e.among:
		return fmt.Sprintf("%d of %d made over %s calls, at the median %s instead of %s%s", e.Now.N, e.Now.Of, value(e.Over), value(e.Now.Median), value(e.Before.Median), of)
	case e.Kind == KindMoreCalls:
		return fmt.Sprintf("median %s → %s calls, over %s in %d of %d (%s %d of %d)%s", value(e.Before.Median), value(e.Now.Median), value(e.Over), e.Now.N, e.Now.Of, others, e.Before.N, e.Before.Of, of)
	case e.Kind == KindSlow:
		return fmt.Sprintf("%d of %d took over %s, at the median %s instead of %s%s", e.Now.N, e.Now.Of, value(e.Over), value(e.Now.Median), value(e.Before.Median), of)
	case e.Kind == KindSlower || e.Kind == KindSlowerCalls:
		return fmt.Sprintf("median %s → %s, %d of %d over %s (%s %d of %d)%s", value(e.Before.Median), value(e.Now.Median), e.Now.N, e.Now.Of, value(e.Over), others, e.Before.N, e.Before.Of, of)
	case e.odd != nil:
		return e.oddSentence(others)
	}
	return e.Text
}

// oddSentence returns the text of an error, of something new, or of a habit that was given up.
func (e *Evidence) oddSentence(others string) string {
	calls := fmt.Sprintf("%d of %d calls", e.Now.N, e.Now.Of)
	if e.Operation != "" {
		calls += " of " + e.Operation
	}
	if e.Before.Of > 0 || !e.among {
		calls += fmt.Sprintf(" (%s %d of %d)", others, e.Before.N, e.Before.Of)
	}
	if e.Kind != KindNoLonger {
		return calls + ": " + string(e.Kind) + " " + e.Pattern
	}
	what := e.Pattern
	if e.about.kind == itemLog && placeInText.FindString(what) == what {
		what = what[strings.LastIndexByte(what, '/')+1:]
	}
	less := "no longer"
	if 2*e.Now.N > e.Now.Of {
		less = "less often"
	}
	did := map[itemKind]string{itemLog: "logged", itemSpan: "done", itemCall: "called"}[e.about.kind]
	return fmt.Sprintf("%s %s %s: now in %s", less, did, what, calls)
}

// text returns the sentence about the requests that a cause covers.
func (c Covered) text() string {
	if c.Failed[0] > 0 {
		return fmt.Sprintf("covers %d of %d failed requests", c.Failed[0], c.Failed[1])
	}
	if c.Slow[0] > 0 {
		return fmt.Sprintf("covers %d of %d slow requests", c.Slow[0], c.Slow[1])
	}
	return ""
}
