package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestExplainIncidents explains incidents from log files alone, which real programs wrote. The verdict must name the
// record with which the incident began, and not an earlier or a later error.
func TestExplainIncidents(t *testing.T) {
	for _, x := range []struct{ about, files, verdict string }{
		{"nginx, whose upstream ends", "nginx-error.log", "new: *<number> connect() failed (<number>: Connection refused) while connecting to upstream"},
		{"a client of Redis, which is killed", "cart.log redis.log", "new: cart <number> cannot be loaded, 37×"},
		{"a Go program that panics", "panic.log", "new: panic: runtime error: invalid memory address or nil pointer dereference"},
		{"a slow tenant", "tenant.log", `cause: (no service), GET /orders/{id}, where .tenant = "acme"`},
		{"a full disk", "disk.log", "new: batch <number> not written: [Errno <number>] No space left on device"},
	} {
		t.Run(x.about, func(t *testing.T) {
			args := []string{"explain"}
			for name := range strings.FieldsSeq(x.files) {
				args = append(args, filepath.Join("testdata", "incidents", name))
			}
			out := fine(t, nil, args...)
			_, verdict, _ := strings.Cut(out, "\n\n")
			if !strings.HasPrefix(verdict, x.verdict) {
				t.Errorf("it says %s", verdict)
			}
		})
	}
}
