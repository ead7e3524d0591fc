package redact

import (
	"slices"
	"strings"
)

// shortest is the minimum size of a text in which a secret can be recognized.
const shortest = 5

// minRun is the minimum size of a token that is recognized by its prefix.
const minRun = 20

// isRun has true for each byte that can be part of a token.
var isRun = func() (table [256]bool) {
	for c := range table {
		table[c] = alphanumeric(byte(c)) || c == '_' || c == '-' || c == '.'
	}
	return table
}()

// An edit replaces a part of a text.
type edit struct {
	from, to int
	rule     int
	with     string // "": Redactor.replacement of the part
}

// A finder finds the secrets in a text.
type finder struct {
	r     *Redactor
	s     string
	edits []edit
	end   int // end of the last part that a pattern found; find continues after it, so that its running time is linear
}

func (f *finder) add(from, to, rule int) {
	f.end = max(f.end, to)
	if from < to && !isMark(f.s[from:to]) && !strings.HasPrefix(f.s[from:], mark) {
		f.edits = append(f.edits, edit{from: from, to: to, rule: rule})
	}
}

// rules applies the rules of the policy. It returns false if a rule panicked.
func (f *finder) rules() (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	for i := range f.r.p.rules {
		rule := &f.r.p.rules[i]
		for _, m := range rule.Pattern.FindAllStringIndex(f.s, -1) {
			if rule.Check != nil && !rule.Check(f.s[m[0]:m[1]]) {
				continue
			}
			if rule.Whole {
				m = []int{0, len(f.s)}
			}
			f.add(m[0], m[1], numRules+i)
		}
	}
	return true
}

// replace returns the text with its edits applied. Overlapping edits become one edit that replaces their
// union.
func (f *finder) replace(key string) string {
	slices.SortStableFunc(f.edits, func(a, b edit) int { return a.from - b.from })
	out := make([]byte, 0, len(f.s))
	at := 0
	for i := 0; i < len(f.edits); {
		e := f.edits[i]
		for i++; i < len(f.edits) && f.edits[i].from < e.to; i++ {
			e.to = max(e.to, f.edits[i].to)
		}
		f.r.count(e.rule, key)
		out = append(out, f.s[at:e.from]...)
		if e.with == "" {
			e.with = f.r.replacement(f.s[e.from:e.to])
		}
		out = append(out, e.with...)
		at = e.to
	}
	return string(append(out, f.s[at:]...))
}
