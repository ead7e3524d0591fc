package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/redact"
)

// redactFlag adds the flag --redact. *to is "" if the flag is not given.
func redactFlag(flags *pflag.FlagSet, to *string, what string) {
	flags.StringVar(to, "redact", "", what+"; a `FILE` replaces the default policy")
	flags.Lookup("redact").NoOptDefVal = "default"
}

// redactRead is the help of --redact in commands that read files.
const redactRead = "replace secrets in the output; the files stay as they are"

// policyOf returns the policy that the flag --redact names.
func policyOf(flag string) (*redact.Policy, error) {
	if flag == "" {
		return redact.Off, nil
	}
	p, err := redact.Open(flag)
	if err != nil {
		return nil, usagef("read the policy for secrets: %w", err)
	}
	return p, nil
}

// tellReplaced prints how many secrets r has replaced, for each rule.
func tellReplaced(c *console, r *redact.Redactor) {
	if r == nil {
		return
	}
	text := "no secret was found"
	if n, rules := replaced(r); n > 0 {
		text = count(n, "secret is", "secrets are") + " replaced: " + rules
	}
	c.say("%s", text)
}

// replaced returns how many secrets r has replaced, and a text with the number for each rule.
func replaced(r *redact.Redactor) (all int, rules string) {
	var by []string
	r.Each(func(rule string, n uint64) {
		all += int(n)
		by = append(by, fmt.Sprintf("%s %d", show.Safe(rule), n))
	})
	return all, strings.Join(by, ", ")
}
