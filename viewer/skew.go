package viewer

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/entrace-go/entrace/view"
)

// A skew describes a file whose clock seems to be wrong.
type skew struct {
	Name string `json:"name"`
	Late string `json:"late"` // the correction, in the form that the flag --clock accepts
}

// skews compares the clocks of files by the requests between them: the span of a server should be
// within the span of the client that waits for it. For each file with most of its server spans outside
// of their client spans, it returns the time to add to the file's times.
func (s *state) skews() []skew {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clocks == nil {
		s.clocks = []skew{}
		if len(s.v.Files()) > 1 {
			s.clocks = s.findSkews()
		}
	}
	return s.clocks
}

func (s *state) findSkews() []skew {
	type pair struct{ client, server int }
	type calls struct {
		early   []int64 // how much the middle of each server span is before the middle of its client span
		outside int     // number of server spans that are not within their client spans
	}
	all := make(map[pair]*calls)
	v := s.v
	for r := range v.Rows() {
		if f := v.Flags(r); f.Role() != view.RoleSpan || f.Kind() != "server" {
			continue
		}
		up := v.Parent(r)
		server, _ := v.ID(r)
		client, _ := v.ID(up)
		if server == client || v.Flags(up).Kind() != "client" {
			continue
		}
		a, timedA := v.Start(up)
		b, timedB := v.Start(r)
		tookA, endedA := v.Duration(up)
		tookB, endedB := v.Duration(r)
		if !timedA || !timedB || !endedA || !endedB || tookB > tookA {
			continue
		}
		c := all[pair{client, server}]
		if c == nil {
			c = new(calls)
			all[pair{client, server}] = c
		}
		c.early = append(c.early, a-b+int64(tookA-tookB)/2)
		if b < a || b+int64(tookB) > a+int64(tookA) {
			c.outside++
		}
	}
	// Compare each file with the file that calls it most, and that file with its own caller.
	caller, calling := make(map[int]int), make(map[int]int)
	late := make(map[int]int64)
	for p, c := range all {
		was, ok := caller[p.server]
		if n := len(c.early); !ok || n > calling[p.server] || n == calling[p.server] && p.client < was {
			caller[p.server], calling[p.server] = p.client, len(c.early)
			late[p.server] = 0
			if 2*c.outside > len(c.early) {
				slices.Sort(c.early)
				late[p.server] = c.early[(len(c.early)-1)/2]
			}
		}
	}
	out := []skew{}
	for i, name := range s.names {
		sum := int64(0)
		for at, steps := i, 0; steps < len(s.names); steps++ {
			up, ok := caller[at]
			if !ok || up == i && i < at {
				break // if files call each other, the clock of the first one counts as right
			}
			sum += late[at]
			at = up
		}
		if d := time.Duration(sum).Round(time.Millisecond); d != 0 && late[i] != 0 {
			text := d.String()
			if d > 0 {
				text = "+" + text
			}
			if base := filepath.Base(name); !slices.ContainsFunc(s.names, func(other string) bool { return other != name && filepath.Base(other) == base }) {
				name = base
			}
			out = append(out, skew{name, text})
		}
	}
	return out
}
