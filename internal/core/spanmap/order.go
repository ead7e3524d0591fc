package spanmap

import "slices"

// An Order sorts the spans of a batch so that a recorder can write each at once, parents
// first. A batch has spans in the order of their ends, children first, and mostly has their
// parents too. The zero Order is empty. An Order is not safe for concurrent use.
type Order struct {
	at      Map[int32]
	parents []Key
	up      []int32 // the place of each span's parent in the batch, or none
	out     []int32
	chain   []int32
}

const (
	none = -1
	done = -2
)

// Reset empties the order.
func (o *Order) Reset() {
	o.at.Clear()
	o.parents, o.up, o.out = o.parents[:0], o.up[:0], o.out[:0]
}

// Add adds the next span and its parent. Parent is zero if the span has no parent, or if the
// parent is in no batch of this process.
func (o *Order) Add(span, parent *Key) {
	at, _ := o.at.Put(span)
	*at = int32(len(o.up))
	o.parents = append(o.parents, *parent)
	o.up = append(o.up, none)
}

// Skip adds a place without a span.
func (o *Order) Skip() {
	o.parents = append(o.parents, Key{})
	o.up = append(o.up, done)
}

// ParentsFirst returns the places of the spans, each behind that of its parent, else in the
// order in which they were added. The result is valid until the next call of Reset.
func (o *Order) ParentsFirst() []int32 {
	for i := range o.up {
		if o.up[i] == done || o.parents[i] == (Key{}) {
			continue
		}
		if at := o.at.Get(&o.parents[i]); at != nil {
			o.up[i] = *at
		}
	}
	for i := range o.up {
		o.chain = o.chain[:0]
		for at := int32(i); at != none && o.up[at] != done; {
			up := o.up[at]
			o.up[at] = done // so that a circle of parents ends
			o.chain = append(o.chain, at)
			at = up
		}
		for _, at := range slices.Backward(o.chain) {
			o.out = append(o.out, at)
		}
	}
	return o.out
}
