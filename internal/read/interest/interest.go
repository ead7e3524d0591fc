// Package interest sorts the attributes of an entry by how interesting they are, and formats them for display.
package interest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/view"
)

// A Ranker sorts the attributes of rows. It puts attributes that distinguish a row from its siblings first. A Ranker
// is not safe for concurrent use.
type Ranker struct {
	v     *view.View
	read  *view.Reader                        // reads siblings
	whole *view.Reader                        // reads the outermost span of a request
	first [view.RoleRecorder + 1]*view.Reader // by role: reads the first of several siblings
	// Caches of siblings by parent. The index is the row number of the parent modulo 64. Parents with few and with
	// many children are in separate caches, so that a parent with few children does not evict a parent with many
	// children.
	few, many    [64]siblings
	list, sorted []format.Attribute
	ranks        []int
	names        map[string]string // makes equal names share memory
}

// NewRanker returns a Ranker of v.
func NewRanker(v *view.View) *Ranker {
	return &Ranker{v: v, read: v.NewReader(), whole: v.NewReader(), names: make(map[string]string)}
}

// siblings says which attributes are equal in all children of a parent.
type siblings struct {
	parent view.Row
	known  bool
	same   [view.RoleRecorder + 1][]string // by role of the children: the names of these attributes
}

const (
	// fewSiblings is the maximum number of children of a row that are compared.
	fewSiblings = 200
	// manySiblings is the minimum number of children for which the result is cached in many.
	manySiblings = 16
	// fewNames is the maximum number of attributes of an entry that are compared with its siblings.
	fewNames = 128
	// maxNames is the maximum number of names that a Ranker keeps.
	maxNames = 4096
)

// Attributes returns the application's attributes of e, the entry of row r, in the form of [Readable]. The most
// interesting attributes are first, and attributes that are equal in all siblings are last. The list is valid until
// the next call.
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
		rank := rankOf(k.list[i].Name, same)
		if said := k.list[i].Value.Text(); len(said) > 3 && strings.Contains(e.Metadata.Name, said) {
			rank = ranks - 1 // the name already contains the value; a shorter value may be in the name by chance
		}
		k.ranks = append(k.ranks, rank)
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

// of returns which attributes are equal in all children of a row.
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

// firstChildren returns the first children of a row, at most fewSiblings.
func firstChildren(t *view.Tree, parent view.Row) (kids []view.Row) {
	for rank := t.Rank(parent) + 1; rank < t.End(parent) && len(kids) < fewSiblings; rank = t.End(kids[len(kids)-1]) {
		kids = append(kids, t.Row(rank))
	}
	return kids
}

// compare fills s with the attributes that are equal in all kids. It compares the kids of each role separately,
// and skips kids that cannot be read.
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
			continue // the only child with this role has no sibling to compare with
		}
		for i := range min(len(e.Attributes), fewNames) {
			if name, own := mapping.UserName(e.Attributes[i].Name); own && !differs[role][i] {
				s.same[role] = append(s.same[role], k.name(name))
			}
		}
	}
}

// has reports whether a list contains the attribute a. It checks index i first, because siblings often have their
// attributes in the same order.
func has(list []format.Attribute, a *format.Attribute, i int) bool {
	is := func(b format.Attribute) bool { return a.Name == b.Name && a.Value.Equal(b.Value) }
	return i < len(list) && is(list[i]) || slices.ContainsFunc(list, is)
}

// name returns a copy of a name. For equal names, it returns the same copy.
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

// Sort sorts attributes from the most to the least interesting.
func Sort(list []format.Attribute) {
	slices.SortStableFunc(list, func(a, b format.Attribute) int { return cmp.Compare(rankOf(a.Name, nil), rankOf(b.Name, nil)) })
}

// ranks is the number of ranks of attributes.
const ranks = 4

// rankOf returns the rank of an attribute. Rank 0 is the most interesting. The parameter same has the names of the
// attributes that are equal in all siblings.
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

// Request returns a text that identifies the request of the span at row r, such as "of POST /job kind=report". It
// consists of the name of the outermost span, unless that span is r itself, and of its most interesting
// attributes. If r belongs to the same request as the span at row own, the text is "".
func (k *Ranker) Request(r, own view.Row) string {
	whole := k.v.Outermost(r)
	if whole == k.v.Outermost(own) {
		return ""
	}
	e, err := k.whole.Entry(whole) // k.read is in use when siblings of this span are read
	if err != nil {
		return ""
	}
	const few = 2
	var words []string
	if whole != r {
		words = append(words, "of", strings.Clone(e.Metadata.Name))
	}
	list := k.Attributes(whole, e)
	for i := range list[:min(few, len(list))] {
		words = append(words, list[i].Name+"="+text.Cut(list[i].Value.String(), 80))
	}
	return strings.Join(words, " ")
}

// telling has the names of the most interesting attributes.
var telling = map[string]bool{
	"http.response.status_code": true, "http.status_code": true, "rpc.grpc.status_code": true, "error.type": true, "error": true, "err": true,
	"exception.type": true, "exception.message": true, "http.route": true, "url.path": true, "http.target": true,
	"enduser.id": true, "user.id": true, "user": true, "user_id": true,
}

// dull reports whether an attribute is rarely interesting.
func dull(name string) bool {
	switch name {
	case "server.address", "server.port", "client.address", "url.scheme", "http.request.method", "http.method", "http.scheme", "user_agent.original":
		return true
	}
	return strings.HasPrefix(name, "network.") || strings.HasPrefix(name, "net.")
}

// Readable returns the application's attributes of an entry in readable form: a value that was recorded as a
// duration becomes a text such as 24ms.
func Readable(e *format.TraceEntry) []format.Attribute { return readable(e.UserAttributes(), e) }

// readable does the same as Readable for list, which has the application's attributes of e.
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
