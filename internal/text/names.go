package text

import (
	"slices"
	"strconv"
)

// Names makes names differ: of those that are equal, the second gets "#2" behind it, or the next number
// with which there is none. The zero value has no names.
type Names struct {
	list []string       // the names, up to few of them
	last map[string]int // of more: the last number behind each name
}

// few is up to which number of names looking at all of them is fastest.
const few = 16

// Reset forgets all names.
func (n *Names) Reset() {
	n.list = n.list[:0]
	clear(n.last)
}

// Add adds a name and returns it as it differs from all before.
func (n *Names) Add(name string) string {
	if len(n.list) < few {
		other := name
		for i := 2; slices.Contains(n.list, other); i++ {
			other = numbered(name, i)
		}
		n.list = append(n.list, other)
		return other
	}
	if n.last == nil {
		n.last = make(map[string]int)
	}
	if len(n.last) == 0 {
		for _, name := range n.list {
			n.last[name] = 1
		}
	}
	other := name
	// The last number is kept, so that many of one name take no longer.
	for i := n.last[name]; n.last[other] != 0; {
		i++
		other = numbered(name, i)
		n.last[name] = i
	}
	n.last[other] = max(n.last[other], 1)
	return other
}

func numbered(name string, n int) string { return name + "#" + strconv.Itoa(n) }
