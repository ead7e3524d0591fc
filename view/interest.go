package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
)

// A Ranker sorts the attributes of rows so that what tells a row from its siblings comes first. It
// must not be used concurrently.
type Ranker struct {
	v       *View
	read    *Reader
	parents [64]siblings // those of the parents that were asked for last, each at its number modulo 64
}

// NewRanker returns a Ranker of v.
func (v *View) NewRanker() *Ranker { return &Ranker{v: v, read: v.NewReader()} }

// siblings says which attributes are the same in all children of a parent.
type siblings struct {
	parent Row
	known  bool
	same   [RoleRecorder + 1]map[string]bool // by the role of the children
}

// fewSiblings is how many of the children of a row are compared.
const fewSiblings = 200

// Attributes returns the application's attributes of e, the entry of row r, as [Readable] does: those
// that people look for first, and those that are the same in all siblings last.
func (k *Ranker) Attributes(r Row, e *format.TraceEntry) []format.Attribute {
	list := Readable(e)
	if len(list) < 2 {
		return list
	}
	parent := k.v.Parent(r)
	s := &k.parents[parent%Row(len(k.parents))]
	if !s.known || s.parent != parent {
		*s = k.siblings(parent)
	}
	byInterest(list, s.same[k.v.Role(r)])
	return list
}

// siblings compares the children of a row. Each role counts by itself. A child that cannot be read
// is left out.
func (k *Ranker) siblings(parent Row) siblings {
	out := siblings{parent: parent, known: true}
	kids := k.v.FirstChildren(parent, fewSiblings)
	var counts [RoleRecorder + 1]int
	for _, r := range kids {
		counts[k.v.Role(r)]++
	}
	var first [RoleRecorder + 1][]format.Attribute
	for _, r := range kids {
		role := k.v.Role(r)
		if counts[role] < 2 {
			continue // there is nothing to compare it with
		}
		if out.same[role] == nil {
			e, err := k.v.Entry(r) // which stays
			if err != nil {
				continue
			}
			first[role] = e.UserAttributes()
			out.same[role] = make(map[string]bool, len(first[role]))
			for _, a := range first[role] {
				out.same[role][a.Name] = true
			}
			continue
		}
		e, err := k.read.Entry(r)
		if err != nil {
			continue
		}
		list := e.UserAttributes()
		for _, a := range first[role] {
			if out.same[role][a.Name] && !slices.ContainsFunc(list, func(b format.Attribute) bool { return a.Name == b.Name && a.Value.Equal(b.Value) }) {
				delete(out.same[role], a.Name)
			}
		}
	}
	return out
}

// ByInterest sorts attributes: those that people look for first, and last those that seldom tell
// anything.
func ByInterest(list []format.Attribute) { byInterest(list, nil) }

// byInterest is ByInterest with those of some names at the end.
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
