package main

import (
	"context"

	"github.com/spf13/pflag"
)

func redactCommand() *command {
	o := &convertFlags{rowFlags: rowFlags{time: timeLocal, inputFlags: inputFlags{redact: "default"}}}
	return &command{
		use:   "redact IN OUT",
		short: "Write a trace without its secrets",
		long: `redact writes a trace without its secrets.

  entrace redact app.et clean.et
  entrace redact app.et clean.et --policy policy.json
  entrace redact app.et clean.jsonl                      in another format, as convert does

redact replaces secrets with [redacted]. The default policy, or the policy in --policy, defines what a secret is.
redact prints how many values each rule has replaced. IN stays as it is; delete it when you have checked OUT.`,
		args: takes(2, 2),
		flags: func(flags *pflag.FlagSet) {
			o.addFrom(flags)
			flags.StringVar(&o.redact, "policy", o.redact, "the `FILE` with the policy, which defines what a secret is")
			o.addOut(flags)
		},
		run: func(ctx context.Context, c *console, args []string) error { return o.convert(ctx, c, args[0], args[1]) },
	}
}
