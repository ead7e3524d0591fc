package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/redact"
)

// redactFlag adds the flag --redact to c. Its value is "" without the flag.
func redactFlag(c *cobra.Command, to *string, what string) {
	c.Flags().StringVar(to, "redact", "", what+"; with a `FILE` by the policy in it")
	c.Flags().Lookup("redact").NoOptDefVal = "default"
}

// policyOf returns the policy that the flag --redact names.
func policyOf(flag string) (*redact.Policy, error) {
	if flag == "" {
		return redact.Off, nil
	}
	p, err := redact.Open(flag)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--redact: %w", err)}
	}
	return p, nil
}
