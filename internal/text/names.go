package text

import (
	"slices"
	"strconv"
)

// Names makes names unique. If a name equals an earlier one, it gets the suffix "#2", or the next higher number
// that makes it unique. The zero value contains no names.
type Names struct {
	list []string       // all names, while there are at most few
	last map[string]int // with more names: by name, the last number that was used
}

// few is the maximum number of names for which a linear search is fastest.
const few = 16

// Reset forgets all names.
func (n *Names) Reset() {
	clear(n.list)
	n.list = n.list[:0]
	clear(n.last)
}

// Add adds a name. It returns the name, or the name with a suffix if an earlier name is equal.
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
	// Continue with the last number, so that adding many equal names takes linear time.
	for i := n.last[name]; n.last[other] != 0; {
		i++
		other = numbered(name, i)
		n.last[name] = i
	}
	n.last[other] = max(n.last[other], 1)
	return other
}

func numbered(name string, n int) string { return name + "#" + strconv.Itoa(n) }
