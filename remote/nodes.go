package remote

import (
	"sync"

	"github.com/entrace-go/entrace/format"
)

// A key is an entry of one of the recorder's files.
type key struct{ trace, id uint32 }

// A node stands for an entry that others may come below.
type node struct {
	parent uint32 // in the recorder's file
	conn   uint32 // the last connection that it went over, 0 for none
	id     uint32 // there
	ref    format.SpanRef
}

// How many entries are remembered. A span that gets children now and then stays.
const (
	maxSpans  = 1 << 15 // of each generation
	maxOthers = 1 << 14 // a power of two
)

// nodes remembers the entries that came last. Spans, which may have children long
// after, have two generations: when the young one is full it becomes the old
// one, and those of the old one that are asked for move to the young one.
type nodes struct {
	mu sync.Mutex

	young, old map[key]node
	others     []other // by the low bits of the id
}

type other struct {
	key  key
	node node
}

// put remembers an entry.
func (n *nodes) put(k key, x node) {
	if x.ref == (format.SpanRef{}) {
		if n.others == nil {
			n.others = make([]other, maxOthers)
		}
		n.others[k.id%maxOthers] = other{k, x}
		return
	}
	if n.young == nil {
		n.young = make(map[key]node)
	}
	if len(n.young) >= maxSpans {
		n.young, n.old = n.old, n.young
		clear(n.young)
		if n.young == nil {
			n.young = make(map[key]node)
		}
	}
	n.young[k] = x
}

// get returns what is remembered of an entry.
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
