package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// telling are attributes that people look for first.
var telling = map[string]bool{
	"http.response.status_code": true, "http.status_code": true, "rpc.grpc.status_code": true, "error.type": true, "error": true, "err": true,
	"exception.type": true, "exception.message": true, "http.route": true, "url.path": true, "http.target": true,
	"enduser.id": true, "user.id": true, "user": true, "user_id": true,
}

// dull are attributes that seldom tell anything.
func dull(name string) bool {
	switch name {
	case "server.address", "server.port", "client.address", "url.scheme", "http.request.method", "http.method", "http.scheme", "user_agent.original":
		return true
	}
	return strings.HasPrefix(name, "network.") || strings.HasPrefix(name, "net.")
}

// alike says which attributes are the same in all children of a parent.
type alike struct {
	parent view.Row
	known  bool
	roles  map[view.Role]map[string]bool
}

// fewSiblings is how many of the children of an entry are compared.
const fewSiblings = 200

// siblings compares the children of a row. Each role counts by itself.
func (p *printer) siblings(parent view.Row) (alike, error) {
	type seen struct {
		first []format.Attribute
		other []bool // which of them are not the same in all
	}
	kids := p.v.FirstChildren(parent, fewSiblings)
	var counts [view.RoleRecorder + 1]int
	for _, r := range kids {
		counts[p.v.Role(r)]++
	}
	var roles [view.RoleRecorder + 1]*seen
	for _, r := range kids {
		role := p.v.Role(r)
		if counts[role] < 2 {
			continue // there is nothing to compare it with
		}
		if roles[role] == nil {
			e, err := p.v.Entry(r) // which stays
			if err != nil {
				return alike{}, err
			}
			roles[role] = &seen{first: e.UserAttributes(), other: make([]bool, len(e.Attributes))}
			continue
		}
		e, err := p.other.Entry(r)
		if err != nil {
			return alike{}, err
		}
		list := e.UserAttributes()
		s := roles[role]
		for i, a := range s.first {
			s.other[i] = s.other[i] || !slices.ContainsFunc(list, func(b format.Attribute) bool { return a.Name == b.Name && a.Value.Equal(b.Value) })
		}
	}
	out := alike{parent: parent, known: true, roles: make(map[view.Role]map[string]bool)}
	for role, s := range roles {
		if s == nil {
			continue
		}
		same := make(map[string]bool)
		for i, a := range s.first {
			if !s.other[i] {
				same[a.Name] = true
			}
		}
		out.roles[view.Role(role)] = same
	}
	return out, nil
}

// attributes returns the application's attributes of an entry: what tells siblings apart
// first, and last what is the same in all of them.
func (p *printer) attributes(r view.Row, e *format.TraceEntry, depth int) []format.Attribute {
	list := view.Readable(e)
	if len(list) < 2 {
		return list
	}
	if p.flat {
		byInterest(list, nil)
		return list
	}
	level := min(depth, maxIndent+1)
	if a := &p.alike[level]; !a.known || a.parent != p.v.Parent(r) {
		found, err := p.siblings(p.v.Parent(r))
		if err != nil {
			return list // in the order of the file
		}
		*a = found
	}
	same := p.alike[level].roles[p.v.Role(r)]
	byInterest(list, same)
	return list
}

// byInterest sorts attributes: those that people look for first, and last those in same.
func byInterest(list []format.Attribute, same map[string]bool) {
	rank := func(a format.Attribute) int {
		switch {
		case same[a.Name]:
			return 3
		case telling[a.Name]:
			return 0
		case dull(a.Name):
			return 2
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b format.Attribute) int { return cmp.Compare(rank(a), rank(b)) })
}

// A timeStyle is how times are printed.
type timeStyle string

const (
	timeNone   timeStyle = "none"
	timeOffset timeStyle = "offset"
	timeUTC    timeStyle = "utc"
	timeLocal  timeStyle = "local"
)

func (s timeStyle) check() error {
	switch s {
	case timeNone, timeOffset, timeUTC, timeLocal:
		return nil
	}
	return usagef("--time is %q, it can be offset, utc, local or none", string(s))
}

// clock is the layout of a time of day.
const clock = "15:04:05.000000"

// format returns a time with a space behind it; first is where offsets begin.
func (s timeStyle) format(t, first time.Time) string {
	switch s {
	case timeOffset:
		text := "+" + duration(t.Sub(first))
		if d := t.Sub(first); d >= time.Second {
			text = fmt.Sprintf("+%d.%06ds", d/time.Second, d%time.Second/time.Microsecond)
		}
		return strings.Repeat(" ", max(0, 8-len([]rune(text)))) + text + " "
	case timeUTC:
		return t.UTC().Format(clock) + "Z "
	case timeLocal:
		return t.Local().Format(clock) + " "
	}
	return ""
}

// timeOf returns the column with the time of an entry.
func (p *printer) timeOf(r view.Row) string {
	if p.time == timeNone {
		return ""
	}
	if t, ok := p.v.Time(r); ok {
		return p.time.format(t, p.first)
	}
	return strings.Repeat(" ", len([]rune(p.time.format(p.first, p.first))))
}
