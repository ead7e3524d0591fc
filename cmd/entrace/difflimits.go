package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/analyze"
)

// The values of --fail-on. noLimit switches a limit off.
const (
	failErrors = "new-errors"
	failSpans  = "new-spans"
	failMore   = "more-errors"
	noLimit    = "none"
)

// A limit is the maximum growth of a number.
type limit struct {
	share float64 // growth in proportion to the number before
	by    float64 // absolute growth
}

// parseLimit reads "+10%", or "+" and a text that the parameter number can parse. For an empty text or noLimit it
// returns nil, which means no limit.
func parseLimit(flag, s, like string, number func(s string) (float64, error)) (*limit, error) {
	if s == "" || s == noLimit {
		return nil, nil //nolint:nilnil // none is an answer
	}
	text := strings.TrimPrefix(s, "+")
	if share, ok := strings.CutSuffix(text, "%"); ok {
		if n, err := strconv.ParseFloat(share, 64); err == nil && n >= 0 {
			return &limit{share: n / 100}, nil
		}
	} else if n, err := number(text); err == nil && n >= 0 {
		return &limit{by: n}, nil
	}
	return nil, usagef("--%s is %q: must be a limit such as %s, or none", flag, s, like)
}

// exceeded reports whether a number has grown by more than the limit.
func (l *limit) exceeded(before, after float64) bool {
	return l != nil && after > before*(1+l.share)+l.by
}

// The ways in which a path can be worse.
const (
	slower = iota
	moreSpans
	newErrors
	newSpans
	numWorse
)

// A finding holds the ways in which a path got worse.
type finding [numWorse]bool

func (f *finding) any() bool { return *f != finding{} }

// String names the ways in which the path got worse.
func (f *finding) String() string {
	var words []string
	for i, word := range [numWorse]string{"slower", "more spans", "new errors", "new spans"} {
		if f[i] {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

// diffLimits are the limits that a command line sets.
type diffLimits struct {
	p95, count          *limit
	p95Text, countText  string // the limits as written on the command line
	newErrors, newSpans bool
	any                 bool
}

// usualP95 is the default of --max-p95 if each side has at least three runs.
const usualP95 = "+10%"

// String returns the limits as they are written on the command line.
func (l *diffLimits) String() string {
	all := l.texts()
	if l.newErrors && l.newSpans {
		all[newErrors], all[newSpans] = all[newErrors]+","+failSpans, ""
	}
	return strings.Join(slices.DeleteFunc(all[:], func(text string) bool { return text == "" }), " ")
}

// texts returns the flag of each limit, or "" for a kind without a limit.
func (l *diffLimits) texts() (all [numWorse]string) {
	if l.p95 != nil {
		all[slower] = "--max-p95 " + l.p95Text
	}
	if l.count != nil {
		all[moreSpans] = "--max-count " + l.countText
	}
	if l.newErrors {
		all[newErrors] = "--fail-on " + failErrors
	}
	if l.newSpans {
		all[newSpans] = "--fail-on " + failSpans
	}
	return all
}

// find returns the limits that a path exceeds. The result seen has all of them. The result found has only the
// limits that the path surely does not exceed by chance. With --any-change, found is equal to seen.
func (l *diffLimits) find(p *analyze.PathDiff) (found, seen finding) {
	is, surely := p.IsNew()
	seen[newSpans], found[newSpans] = l.newSpans && is, surely
	has, surely := p.HasNewErrors()
	seen[newErrors], found[newErrors] = l.newErrors && has, surely
	if !is {
		_, surely = p.Change()
		seen[slower], found[slower] = l.p95.exceeded(float64(p.Before.P95), float64(p.After.P95)), surely
		share, surely := p.MoreSpans()
		seen[moreSpans], found[moreSpans] = share > 0 && l.count.exceeded(p.Before.Rate(), p.After.Rate()), surely
	}
	for i := range found {
		found[i] = seen[i] && (found[i] || l.any)
	}
	return found, seen
}

// whyNot says why a path that is slower, and surely not by chance, exceeds no limit. It returns "" for other paths.
func (l *diffLimits) whyNot(p *analyze.PathDiff) string {
	switch share, surely := p.Change(); {
	case share <= 0 || !surely:
		return ""
	case l.p95 == nil:
		return "slower, but durations have no limit: --max-p95"
	}
	return "slower, but within " + l.texts()[slower]
}
