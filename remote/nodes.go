package remote

import (
	"sync"

	"github.com/entrace-go/entrace/format"
)

// A key identifies an entry. The field trace is the number of the recorder's file, and id is the id of the entry in
// this file.
type key struct{ trace, id uint32 }

// A node describes an entry that may still get children.
type node struct {
	parent uint32 // id in the recorder's file
	conn   uint32 // the last connection on which the entry was sent; 0: none
	id     uint32 // id of the entry on conn
	ref    format.SpanRef
}

// The maximum number of remembered entries.
const (
	maxSpans  = 1 << 15 // of each of the two generations
	maxOthers = 1 << 14 // a power of two
)

// nodes remembers recent entries. A span may get children much later, so spans have two generations, young and old.
// When the young generation is full, it becomes the old generation, and the spans of the former old generation are
// forgotten. The method get moves a span to the young generation, so a span that gets children from time to time
// stays remembered.
type nodes struct {
	mu sync.Mutex

	young, old map[key]node
	others     []other // by the low bits of the entry's id
}

type other struct {
	key  key
	node node
}

// put remembers the node x of an entry.
func (n *nodes) put(k key, x node) {
	if x.ref == (format.SpanRef{}) {
		if n.others == nil {
			n.others = make([]other, maxOthers)
		}
		n.others[k.id%maxOthers] = other{k, x}
		return
	}
	if len(n.young) >= maxSpans {
		n.young, n.old = n.old, n.young
		clear(n.young)
	}
	if n.young == nil {
		n.young = make(map[key]node)
	}
	n.young[k] = x
}

// get returns the node of an entry. It returns false if the entry is not remembered.
func (n *nodes) get(k key) (node, bool) {
	if x, ok := n.young[k]; ok {
		return x, true
	}
	if x, ok := n.old[k]; ok {
		delete(n.old, k)
		n.put(k, x)
		return x, true
	}
	if n.others != nil {
		if o := &n.others[k.id%maxOthers]; o.key == k && k.id != 0 {
			return o.node, true
		}
	}
	return node{}, false
}
