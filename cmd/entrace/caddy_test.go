package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

// TestCaddy opens lines that Caddy wrote, with the spans that it sent for the same requests and without them. Caddy
// sends the spans of three requests that failed without a status, because it handles their errors after the span.
func TestCaddy(t *testing.T) {
	data := filepath.Join("..", "..", "internal", "read", "loglines", "testdata")
	log, spans := filepath.Join(data, "caddy.log"), filepath.Join(data, "caddy.jsonl")
	c, err := convert.Open(t.Context(), []string{log, spans}, nil)
	must(t, err)
	defer c.Close()
	var below, beside, failed, requests int
	v := c.View()
	for r := range v.Rows() {
		switch v.Role(r) {
		case view.RoleSpan:
			requests++
			if v.Flags(r).Failed() {
				failed++
			}
		case view.RoleLog:
			if v.Ref(v.Owner(r)).IsValid() {
				below++
			} else {
				beside++
			}
		}
	}
	expect.Slice(t, []int{requests, failed, below, beside}, []int{13, 6, 13, 7}, "spans, failed spans, records below spans, other records")

	for _, files := range [][]string{{log}, {log, spans}, {spans, log}} {
		out := fine(t, nil, append([]string{"explain"}, files...)...)
		for _, want := range []string{
			"failed requests: 6 of 13", "3 of 3 requests GET /dead/<number> fail: ", ", status 502", "3 of 3 requests GET /busy/<number> fail: ",
		} {
			if len(files) == 1 {
				want = strings.Replace(want, "<number>", "{id}", 1)
			}
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in %s", files, want, out)
			}
		}
	}
}
