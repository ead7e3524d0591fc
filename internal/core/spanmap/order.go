package spanmap

import "slices"

// An Order sorts the spans of a batch so that each span follows its parent. The recorder then knows the parent and
// can write the span at once. Without sorting, children come first, because the spans of a batch are in the order
// of their ends. The zero Order is empty. An Order is not safe for concurrent use.
type Order struct {
	at      Map[int32] // the index of each span in the batch
	parents []Key
	up      []int32 // the index of each span's parent in the batch, or none or done
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

// Add adds the next span and its parent. The parent must be zero if it is a span of another process, or if there is
// none.
func (o *Order) Add(span, parent *Key) {
	at, _ := o.at.Put(span)
	*at = int32(len(o.up))
	o.parents = append(o.parents, *parent)
	o.up = append(o.up, none)
}

// Skip adds an index without a span.
func (o *Order) Skip() {
	o.parents = append(o.parents, Key{})
	o.up = append(o.up, done)
}

// ParentsFirst returns the indexes of the spans, sorted so that a parent's index precedes the indexes of its
// children. Apart from this, spans remain in the order in which they were added. The result is valid until the next
// call of Reset.
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
			o.up[at] = done // so that the loop ends if spans are each other's ancestors
			o.chain = append(o.chain, at)
			at = up
		}
		for _, at := range slices.Backward(o.chain) {
			o.out = append(o.out, at)
		}
	}
	return o.out
}
