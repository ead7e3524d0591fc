package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync/atomic"
)

const (
	// Mark is the text that replaces a secret.
	Mark = "[redacted]"
	// MarkPanic replaces a text for which a [Rule] panicked.
	MarkPanic = "[redacted: panic]"

	mark = "[redacted" // the beginning of all replacements
)

// The rules of the default policy. Their names are in ruleNames.
const (
	ruleKey = iota
	ruleParameter
	ruleHeader
	ruleUserInfo
	ruleBearer
	ruleJWT
	rulePrivateKey
	ruleToken
	rulePanic

	numRules

	counted = -1 // the rule of an edit that count must not count again
)

var ruleNames = [numRules]string{"key", "parameter", "header", "userinfo", "bearer", "jwt", "private_key", "token", "panic"}

// A Verdict says what happens to the value of an attribute.
type Verdict uint8

const (
	// Search means that secrets within the value are replaced.
	Search Verdict = iota
	// Replace means that the value is a secret.
	Replace
	// Keep means that the value is not changed.
	Keep
)

// A Redactor applies a policy and counts its replacements. A nil Redactor replaces nothing. A Redactor is safe
// for concurrent use.
type Redactor struct {
	p      *Policy
	counts []atomic.Uint64
	told   atomic.Bool
	tell   func(rule, key string)
	silent *Redactor // has the same policy, but counts nothing
}

// New returns a Redactor that applies p, or nil if p replaces nothing. A nil p means Default. If the function
// tell is not nil, it is called once, at the first replacement, with the name of the rule and, if known, the
// key of the attribute. The function must not block.
func New(p *Policy, tell func(rule, key string)) *Redactor {
	if p == nil {
		p = Default()
	}
	if !p.standard && len(p.keys) == 0 && len(p.rules) == 0 { // it replaces nothing
		return nil
	}
	silent := &Redactor{p: p}
	silent.silent = silent
	return &Redactor{p: p, counts: make([]atomic.Uint64, numRules+len(p.rules)), tell: tell, silent: silent}
}

// Each calls fn for each rule that has made replacements, with the number of these replacements.
func (r *Redactor) Each(fn func(rule string, n uint64)) {
	if r == nil {
		return
	}
	for i := range r.counts {
		if n := r.counts[i].Load(); n > 0 {
			fn(r.name(i), n)
		}
	}
}

func (r *Redactor) name(rule int) string {
	if rule < numRules {
		return ruleNames[rule]
	}
	if name := r.p.rules[rule-numRules].Name; name != "" {
		return name
	}
	return "value"
}

func (r *Redactor) count(rule int, key string) {
	if rule == counted || r == r.silent {
		return
	}
	r.counts[rule].Add(1)
	if r.tell != nil && !r.told.Swap(true) {
		r.tell(r.name(rule), key)
	}
}

// Key returns the verdict for the value of the attribute called name. If the attribute is in groups, name
// begins with their names, as in "request.headers.cookie".
func (r *Redactor) Key(name string) Verdict {
	switch {
	case r == nil || matchAny(r.p.allow, name):
		return Keep
	case matchAny(r.p.keys, name):
		return Replace
	case r.p.standard && maybeSecret(name):
		if secret, _ := isSecret(name); secret {
			return Replace
		}
	}
	return Search
}

// Matters reports whether groups can affect the verdict for a key after them. If not, the verdict for a key with
// these groups is the verdict for the key alone.
func (r *Redactor) Matters(groups string) bool {
	if len(r.p.keys)+len(r.p.allow) > 0 {
		return true
	}
	secret, ends := isSecret(groups)
	return secret || ends
}

// Value returns the replacement for s, the text value of the attribute key. The parameter v is the verdict for
// the key.
func (r *Redactor) Value(v Verdict, key, s string) string {
	switch v {
	case Search:
		return r.text(key, s)
	case Replace:
		return r.whole(key, s)
	}
	return s
}

// Text returns s with the secrets in it replaced. If s has no secrets, Text returns s itself, and does not
// allocate.
func (r *Redactor) Text(s string) string { return r.text("", s) }

// whole returns the replacement for s, which is a secret as a whole.
func (r *Redactor) whole(key, s string) string {
	if s == "" || isMark(s) || isNone(s) && !matchAny(r.p.keys, key) {
		return s
	}
	if isConnection(key) && !matchAny(r.p.keys, key) && strings.ContainsAny(s, "=:/@;") {
		if t := r.text(key, s); t != s || !hasUserInfo(s) {
			return t
		}
	}
	r.count(ruleKey, key)
	return r.replacement(s)
}

// hasUserInfo reports whether s has more than the name of a user before its last @.
func hasUserInfo(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return false
	}
	_, info, hasScheme := strings.Cut(s[:at], "://")
	if !hasScheme {
		info = s[:at]
	}
	return !isUserName(info)
}

// isMark reports whether s is the replacement of a secret.
func isMark(s string) bool {
	return strings.HasPrefix(s, mark) && strings.IndexByte(s, ']') == len(s)-1
}

// replacement returns the text that replaces a secret.
func (r *Redactor) replacement(secret string) string {
	if r.p.hashKey == nil {
		return Mark
	}
	h := hmac.New(sha256.New, r.p.hashKey)
	_, _ = h.Write([]byte(secret)) // Write never fails
	return mark + " " + hex.EncodeToString(h.Sum(nil)[:8]) + "]"
}

// text is Text for the value of the attribute called key. A nil Redactor is allowed.
func (r *Redactor) text(key, s string) string {
	if r == nil || len(s) < shortest {
		return s
	}
	if t := strings.TrimSpace(s); t != "" && (t[0] == '{' && t[len(t)-1] == '}' || t[0] == '[' && t[len(t)-1] == ']') {
		if t, ok := r.walk(key, s); ok {
			return t
		}
	}
	f := finder{r: r, s: s}
	if r.p.standard {
		f.find()
	}
	if len(r.p.rules) > 0 && !f.rules() {
		r.count(rulePanic, key)
		return MarkPanic
	}
	if len(f.edits) == 0 {
		return s
	}
	return f.replace(key)
}
