// Package interest puts the attributes of an entry in the order in which people look for them, and
// writes them as people read them.
package interest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/view"
)

// A Ranker sorts the attributes of rows so that what tells a row from its siblings comes first. It
// must not be used concurrently.
type Ranker struct {
	v     *view.View
	read  *view.Reader
	first [view.RoleRecorder + 1]*view.Reader // of the first of some siblings, by role
	// The parents that were asked for last, each at its number modulo 64: those with many
	// children stay when one with few is asked for.
	few, many    [64]siblings
	list, sorted []format.Attribute
	ranks        []int
	names        map[string]string // the same name is one string
}

// NewRanker returns a Ranker of v.
func NewRanker(v *view.View) *Ranker {
	return &Ranker{v: v, read: v.NewReader(), names: make(map[string]string)}
}

// siblings says which attributes are the same in all children of a parent.
type siblings struct {
	parent view.Row
	known  bool
	same   [view.RoleRecorder + 1][]string // names, by the role of the children
}

const (
	// fewSiblings is how many of the children of a row are compared.
	fewSiblings = 200
	// manySiblings is from where on comparing them is worth remembering for longer.
	manySiblings = 16
	// fewNames is how many attributes of an entry are compared with those of its siblings.
	fewNames = 128
	// maxNames is how many names a Ranker remembers.
	maxNames = 4096
)

// Attributes returns the application's attributes of e, the entry of row r, as [Readable] does: those
// that people look for first, and those that are the same in all siblings last. The list is valid
// until the next call.
func (k *Ranker) Attributes(r view.Row, e *format.TraceEntry) []format.Attribute {
	k.list = k.list[:0]
	for i := range e.Attributes {
		if name, own := mapping.UserName(e.Attributes[i].Name); own {
			k.list = append(k.list, format.Attribute{Name: name, Value: e.Attributes[i].Value})
		}
	}
	k.list = readable(k.list, e)
	if len(k.list) < 2 {
		return k.list
	}
	same := k.of(k.v.Parent(r)).same[k.v.Role(r)]
	k.ranks = k.ranks[:0]
	for i := range k.list {
		k.ranks = append(k.ranks, rankOf(k.list[i].Name, same))
	}
	k.sorted = k.sorted[:0]
	for rank := range ranks {
		for i := range k.list {
			if k.ranks[i] == rank {
				k.sorted = append(k.sorted, k.list[i])
			}
		}
	}
	return k.sorted
}

// of returns what the children of a row have in common.
func (k *Ranker) of(parent view.Row) *siblings {
	at := parent % view.Row(len(k.few))
	for _, s := range []*siblings{&k.few[at], &k.many[at]} {
		if s.known && s.parent == parent {
			return s
		}
	}
	kids := firstChildren(k.v.Tree(), parent)
	s := &k.few[at]
	if len(kids) >= manySiblings {
		s = &k.many[at]
	}
	s.parent, s.known = parent, true
	k.compare(kids, s)
	return s
}

// firstChildren returns the first fewSiblings children of a row.
func firstChildren(t *view.Tree, parent view.Row) (kids []view.Row) {
	for rank := t.Rank(parent) + 1; rank < t.End(parent) && len(kids) < fewSiblings; rank = t.End(kids[len(kids)-1]) {
		kids = append(kids, t.Row(rank))
	}
	return kids
}

// compare compares siblings. Each role counts by itself. One that cannot be read is left out.
func (k *Ranker) compare(kids []view.Row, s *siblings) {
	var first [view.RoleRecorder + 1]*format.TraceEntry
	var differs [view.RoleRecorder + 1][fewNames]bool
	var compared [view.RoleRecorder + 1]bool
	for _, r := range kids {
		role := k.v.Role(r)
		if first[role] == nil {
			if k.first[role] == nil {
				k.first[role] = k.v.NewReader()
			}
			first[role], _ = k.first[role].WithoutIDs(r)
			continue
		}
		e, err := k.read.WithoutIDs(r)
		if err != nil {
			continue
		}
		compared[role] = true
		for i := range min(len(first[role].Attributes), fewNames) {
			if !differs[role][i] {
				differs[role][i] = !has(e.Attributes, &first[role].Attributes[i], i)
			}
		}
	}
	for role, e := range first {
		s.same[role] = s.same[role][:0]
		if !compared[role] {
			continue // there is nothing to compare it with
		}
		for i := range min(len(e.Attributes), fewNames) {
			if name, own := mapping.UserName(e.Attributes[i].Name); own && !differs[role][i] {
				s.same[role] = append(s.same[role], k.name(name))
			}
		}
	}
}

// has reports whether a list has an attribute, which is at index i of a list that is mostly like it.
func has(list []format.Attribute, a *format.Attribute, i int) bool {
	is := func(b format.Attribute) bool { return a.Name == b.Name && a.Value.Equal(b.Value) }
	return i < len(list) && is(list[i]) || slices.ContainsFunc(list, is)
}

// name returns a copy of a name.
func (k *Ranker) name(name string) string {
	if known, ok := k.names[name]; ok {
		return known
	}
	if len(k.names) == maxNames {
		clear(k.names)
	}
	name = strings.Clone(name)
	k.names[name] = name
	return name
}

// Sort sorts attributes: those that people look for first, and last those that seldom tell
// anything.
func Sort(list []format.Attribute) {
	slices.SortStableFunc(list, func(a, b format.Attribute) int { return cmp.Compare(rankOf(a.Name, nil), rankOf(b.Name, nil)) })
}

// ranks is how many ranks of attributes there are.
const ranks = 4

// rankOf returns the rank of an attribute, 0 for the first; same are those that are the same in all
// siblings.
func rankOf(name string, same []string) int {
	switch {
	case slices.Contains(same, name):
		return 3
	case telling[name]:
		return 0
	case dull(name):
		return 2
	}
	return 1
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

// Readable returns the application's attributes of an entry as people read them: one that was
// recorded as a duration is a text such as 24ms.
func Readable(e *format.TraceEntry) []format.Attribute { return readable(e.UserAttributes(), e) }

// readable is Readable of the list of the application's attributes.
func readable(list []format.Attribute, e *format.TraceEntry) []format.Attribute {
	v, ok := e.Attribute(mapping.AttrDurations)
	if !ok {
		return list
	}
	var names []string
	if json.Unmarshal(v.Bytes(), &names) != nil {
		return list
	}
	for i := range list {
		n, isInt := list[i].Value.I64()
		if isInt && (slices.Contains(names, list[i].Name) || slices.Contains(names, "otel.attr."+list[i].Name)) {
			list[i].Value = format.StringValue(time.Duration(n).String())
		}
	}
	return list
}
