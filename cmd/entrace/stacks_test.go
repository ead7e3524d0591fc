package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/viewer"
)

// TestFoldedStacksAreTheFlameGraph checks that convert --to folded and the flame graph of the page have the same stacks
// with the same self times. An open span has no time in either, but the time of an ended span below it counts.
func TestFoldedStacksAreTheFlameGraph(t *testing.T) {
	name := filepath.Join(t.TempDir(), "app.et")
	rec := traceOf("requests", name)
	r, id := recording{rec}, 100
	span := func(above uint32, name string, at, took time.Duration) uint32 {
		id++
		return r.span(above, named(name), id, begun.Add(at), took)
	}
	for _, service := range []string{"shop", "stock"} {
		open := span(r.resource(service), "open", 0, -1)
		reserve := span(open, "reserve", time.Second, 30*time.Millisecond)
		span(reserve, "UPDATE", time.Second, 10*time.Millisecond)
		span(reserve, "UPDATE", time.Second+5*time.Millisecond, 10*time.Millisecond) // at the same time as the first
		span(reserve, "still running", time.Second, -1)
	}
	must(t, rec.Close(t.Context()))

	trace, err := convert.Open(t.Context(), []string{name}, nil)
	must(t, err)
	defer trace.Close()
	page := viewer.New(trace.View(), &viewer.Options{Hosts: []string{"page"}, Authorize: func(*http.Request) bool { return true }})
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://page/api/flame", nil))
	expect.MustEqual(t, answer.Code, http.StatusOK, "the flame graph")
	var flame struct {
		Nodes []struct {
			Name, Service string
			Up            int
			Self          int64 `json:"self_nano"`
		}
	}
	must(t, json.Unmarshal(answer.Body.Bytes(), &flame))
	times := make(map[string]int64)
	for _, n := range flame.Nodes {
		stack := n.Name
		for up := n.Up; up >= 0; up = flame.Nodes[up].Up {
			stack = flame.Nodes[up].Name + ";" + stack
		}
		times[n.Service+";"+stack] += n.Self
	}
	expect.Equal(t, times["stock;open;reserve;UPDATE"], int64(20*time.Millisecond), "the self time of two calls at the same time")
	expect.Equal(t, times["stock;open"], int64(0), "the self time of an open span")
	var lines []string
	for _, stack := range slices.Sorted(maps.Keys(times)) {
		if times[stack] > 0 { // folded stacks omit times of 0
			lines = append(lines, fmt.Sprintf("%s %d", stack, times[stack]))
		}
	}
	folded := strings.Split(strings.TrimSuffix(fine(t, nil, "convert", name, "--to", "folded"), "\n"), "\n")
	slices.Sort(folded)
	slices.Sort(lines)
	expect.Equal(t, strings.Join(folded, "\n"), strings.Join(lines, "\n"), "the folded stacks, compared with the flame graph")
}
