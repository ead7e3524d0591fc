package analyze

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/read/columns"

	"github.com/entrace-go/entrace/view"
)

// A Clock is a correction for a clock that seems to be wrong.
type Clock struct {
	Name string // a service, or a file with only one service, in the form of the flag --clock
	Late time.Duration
	// Error is how exact Late is: requests in the two directions need not take the same time.
	Error time.Duration
}

// withinClockError reports whether the calls of an edge are slower by no more than the error of a corrected clock.
func (w *workload) withinClockError(s *series) bool {
	shown := s.shown()
	for _, c := range w.clocks {
		if (c.Name == s.service || c.Name == s.name) && shown.now-shown.med <= int64(c.Error) {
			return true
		}
	}
	return false
}

// Clocks compares the clocks of services by the requests between them: the span of a server should be within the
// span of the client that waits for it. If most of a service's server spans are not within their client spans,
// Clocks returns the service and the time to add to its times. The slice names has the names of the files.
func Clocks(v *view.View, names []string) []Clock {
	type unit struct {
		file    int
		service string
	}
	type calls struct {
		early   []int64 // how much the middle of each server span is before the middle of its client span
		outside int     // server spans that are not within their client spans
	}
	at := func(r view.Row) unit {
		file, _ := v.ID(r)
		return unit{file, v.Service(r)}
	}
	all := make(map[[2]unit]*calls) // client, server → their calls
	var order [][2]unit
	for r := range v.Rows() {
		f, up := v.Flags(r), v.Parent(r)
		if f.Role() != view.RoleSpan || f.Kind() != "server" || v.Flags(up).Kind() != "client" {
			continue
		}
		a, timedA := v.Start(up)
		b, timedB := v.Start(r)
		tookA, endedA := v.Duration(up)
		tookB, endedB := v.Duration(r)
		key := [2]unit{at(up), at(r)}
		if key[0] == key[1] || !timedA || !timedB || !endedA || !endedB || tookB > tookA {
			continue
		}
		c := all[key]
		if c == nil {
			c = new(calls)
			all[key], order = c, append(order, key)
		}
		c.early = append(c.early, a-b+int64(tookA-tookB)/2)
		if b < a || b+int64(tookB) > a+int64(tookA) {
			c.outside++
		}
	}
	// Compare each service with the service that calls it most, and that service with its own caller.
	caller, calling, late, spread := make(map[unit]unit), make(map[unit]int), make(map[unit]int64), make(map[unit]int64)
	var servers []unit
	for _, key := range order {
		c, server := all[key], key[1]
		n, known := calling[server]
		if !known {
			servers = append(servers, server)
		}
		if known && len(c.early) <= n {
			continue
		}
		caller[server], calling[server], late[server] = key[0], len(c.early), 0
		if 2*c.outside > len(c.early) {
			slices.Sort(c.early)
			n := len(c.early)
			late[server] = c.early[(n-1)/2]
			spread[server] = c.early[n-1-n/4] - c.early[n/4]
		}
	}
	services := make([]map[string]bool, len(names))
	for _, r := range columns.Of(v).Resources()[1:] {
		x := at(view.Row(r))
		if services[x.file] == nil {
			services[x.file] = make(map[string]bool)
		}
		services[x.file][x.service] = true
	}
	var out []Clock
	for _, x := range servers {
		sum := int64(0)
		for of, steps := x, 0; steps < len(servers); steps++ {
			up, ok := caller[of]
			if !ok || up == x && slices.Index(servers, x) < slices.Index(servers, of) {
				break // if services call each other, the clock of the first service counts as right
			}
			sum, of = sum+late[of], up
		}
		d := time.Duration(sum).Round(time.Millisecond)
		if d == 0 {
			continue
		}
		name := x.service
		if len(names) > 1 && len(services[x.file]) == 1 {
			whole := names[x.file]
			name = filepath.Base(whole)
			if slices.ContainsFunc(names, func(other string) bool { return other != whole && filepath.Base(other) == name }) {
				name = whole
			}
		}
		out = append(out, Clock{name, d, time.Millisecond + time.Duration(spread[x])})
	}
	return out
}

// Text returns the correction in the form of the flag --clock.
func (c Clock) Text() string {
	if c.Late > 0 {
		return "+" + c.Late.String()
	}
	return c.Late.String()
}
