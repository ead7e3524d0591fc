package redact

import (
	"regexp"
	"slices"
	"strings"
)

// A Policy decides which values are secrets. The zero Policy replaces nothing. The methods return changed
// copies, so that a Policy itself never changes. It is safe for concurrent use.
type Policy struct {
	standard    bool // the keys and patterns of Default
	keys, allow []string
	rules       []Rule
	hashKey     []byte
}

var (
	standard = &Policy{standard: true}

	// Off is the policy that replaces nothing.
	Off = new(Policy)
)

// Default returns the policy that the documentation of this package describes.
func Default() *Policy { return standard }

// Keys returns a policy that also replaces the values of attributes whose names match one of the patterns. A
// pattern must match the whole name, including groups, as in "card.number". Case does not matter. An asterisk
// matches any text, including dots. A question mark matches one byte.
func (p *Policy) Keys(patterns ...string) *Policy {
	q := *p
	q.keys = append(slices.Clip(p.keys), patterns...)
	return &q
}

// Allow returns a policy that never replaces the values of attributes whose names match one of the patterns, even if
// the rest of the policy would replace them. Patterns have the syntax of [Policy.Keys].
func (p *Policy) Allow(patterns ...string) *Policy {
	q := *p
	q.allow = append(slices.Clip(p.allow), patterns...)
	return &q
}

// Values returns a policy that also applies rules to all texts.
func (p *Policy) Values(rules ...Rule) *Policy {
	q := *p
	q.rules = append(slices.Clip(p.rules), rules...)
	return &q
}

// Hash returns a policy that replaces a secret by "[redacted 4ba2f0f0c9d7a1be]", where the number is the
// beginning of the HMAC-SHA256 of the secret with the key. Equal secrets have equal numbers. The key should be
// random and have 32 bytes, because a person who knows the key can find short secrets by trial. Hash keeps a
// copy of the key.
func (p *Policy) Hash(key []byte) *Policy {
	q := *p
	q.hashKey = slices.Clone(key)
	return &q
}

// A Rule finds secrets in texts.
type Rule struct {
	// Name is the name under which replacements are counted.
	Name string
	// Pattern matches a secret.
	Pattern *regexp.Regexp
	// Whole says that a match makes the whole text a secret. Otherwise only the match is replaced.
	Whole bool
	// Check, if set, decides whether a match is a secret. It may be called concurrently. If it panics, the text is
	// replaced by "[redacted: panic]".
	Check func(match string) bool
}

// Luhn reports whether the digits of s have a valid checksum of payment card numbers. Other characters are
// ignored. Use Luhn as the Check of a [Rule].
func Luhn(s string) bool {
	sum, n := 0, 0
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] < '0' || s[i] > '9' {
			continue
		}
		d := int(s[i] - '0')
		if n%2 == 1 {
			d *= 2
			if d > 9 {
				d -= 9
			}
		}
		sum += d
		n++
	}
	return n > 1 && sum%10 == 0
}

// matchAny reports whether one of the patterns matches name.
func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, name) })
}

// match reports whether a pattern of Keys matches all of name.
func match(pattern, name string) bool {
	star, mark := -1, 0 // the index of the last asterisk in pattern, and the end of the bytes of name that it matches
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || lower(pattern[p]) == lower(name[n])):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
