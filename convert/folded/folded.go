package folded

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/view"
)

const (
	// maxFrames bounds the depth of the stack of a line, because the size of the lines of a chain of spans
	// grows with the square of its length.
	maxFrames  = 512
	maxStack   = 16 << 10 // the same bound, in bytes
	bufferSize = 64 << 10
)

// EncodeFolded writes the spans of v to w as folded stacks of self time in nanoseconds, as the
// documentation of the package describes them. It returns the errors of v, w and ctx.
func EncodeFolded(ctx context.Context, w io.Writer, v *view.View) error {
	var name []byte
	s, err := read(ctx, v, func(m *format.Metadata) frame {
		if isPlain(m.Name) {
			return frame{name: m.Name}
		}
		name = appendName(name[:0], m.Name)
		return frame{name: string(name)}
	})
	if err != nil {
		return err
	}
	t := newTree(s)
	t.sort()
	return t.write(ctx, w)
}

// A tree has a node for each stack.
type tree struct {
	nodes []node
}

// A node is a stack: the stack of its parent node and one more frame.
type node struct {
	name        string
	self        uint64 // nanoseconds
	depth       int32
	bytes       int   // of the names from the root to this one
	first, next int32 // child and sibling, -1 for none
}

// newTree sums up the self times of equal stacks.
func newTree(s *stacks) *tree {
	type step struct{ from, frame int32 }
	t := new(tree)
	roots := make(map[string]int32)
	tops := make([]int32, len(s.services))
	for i, service := range s.services {
		name := string(appendName(nil, service))
		if at, ok := roots[name]; ok {
			tops[i] = at
			continue
		}
		tops[i] = t.add(-1, name, 1)
		roots[name] = tops[i]
	}
	self := timeline.SelfTimes(s.intervals, s.lanes, s.order)
	steps := make(map[step]int32)
	at := make([]int32, len(s.intervals)) // the node of each span
	for _, i := range s.order {
		from := tops[s.intervals[i].Group]
		if o := s.outers[i]; o >= 0 {
			from = at[o]
		}
		at[i] = from
		name := s.names[s.frames[i]].name
		if t.nodes[from].depth < maxFrames && t.nodes[from].bytes+len(name) < maxStack {
			k := step{from, s.frames[i]}
			n, ok := steps[k]
			if !ok {
				n = t.add(from, name, t.nodes[from].depth+1)
				steps[k] = n
			}
			at[i] = n
		}
		n := &t.nodes[at[i]]
		if n.self += uint64(self[i]); n.self < uint64(self[i]) {
			n.self = math.MaxUint64
		}
	}
	return t
}

func (t *tree) add(from int32, name string, depth int32) int32 {
	n := node{name: name, depth: depth, first: -1, next: -1}
	at := int32(len(t.nodes))
	n.bytes = len(name)
	if from >= 0 {
		n.bytes += t.nodes[from].bytes
		n.next, t.nodes[from].first = t.nodes[from].first, at
	}
	t.nodes = append(t.nodes, n)
	return at
}

// sort puts siblings in the order of their names.
func (t *tree) sort() {
	var kids []int32
	for i := range t.nodes {
		kids = kids[:0]
		for k := t.nodes[i].first; k >= 0; k = t.nodes[k].next {
			kids = append(kids, k)
		}
		if len(kids) > 1 {
			t.nodes[i].first = t.chain(kids)
		}
	}
}

// chain makes nodes siblings in order, and returns the first.
func (t *tree) chain(nodes []int32) int32 {
	slices.SortFunc(nodes, func(a, b int32) int { return cmp.Compare(t.nodes[a].name, t.nodes[b].name) })
	for i, n := range nodes {
		t.nodes[n].next = -1
		if i > 0 {
			t.nodes[nodes[i-1]].next = n
		}
	}
	return nodes[0]
}

// write writes the lines of t.
func (t *tree) write(ctx context.Context, w io.Writer) error {
	var roots []int32
	for i := range t.nodes {
		if t.nodes[i].depth == 1 {
			roots = append(roots, int32(i))
		}
	}
	if len(roots) == 0 {
		return ctx.Err()
	}
	out := bufio.NewWriterSize(w, bufferSize)
	var stack []byte
	ends := make([]int, 1, maxFrames+1) // where the frames of stack end, by depth
	left := []int32{t.chain(roots)}     // for each depth, the node whose siblings are still to be written
	for count := 0; len(left) > 0; {
		at := left[len(left)-1]
		if at < 0 {
			left = left[:len(left)-1]
			continue
		}
		n := &t.nodes[at]
		left[len(left)-1] = n.next
		ends = ends[:n.depth]
		stack = stack[:ends[n.depth-1]]
		if n.depth > 1 {
			stack = append(stack, ';')
		}
		stack = append(stack, n.name...)
		ends = append(ends, len(stack))
		left = append(left, n.first)
		if n.self == 0 {
			continue
		}
		if count++; count%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		stack = strconv.AppendUint(append(stack, ' '), n.self, 10)
		stack = append(stack, '\n')
		if _, err := out.Write(stack); err != nil {
			return err
		}
		stack = stack[:ends[n.depth]]
	}
	return out.Flush()
}

// isPlain reports whether a quick check shows that appendName would not change s.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == ';' {
			return false
		}
	}
	return s != ""
}

// appendName appends s as the name of a frame.
func appendName(b []byte, s string) []byte {
	from := len(b)
	for _, r := range strings.TrimSpace(s) {
		switch {
		case r == ';':
			b = append(b, ':')
		case jsontext.Acts(r):
			b = append(b, ' ')
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	// Trim here, because the replacements may have made blanks.
	name := strings.TrimSpace(string(b[from:]))
	b = append(b[:from], name...)
	if name == "" {
		return append(b, "(unnamed)"...)
	}
	if blank := countBlank(name); blank >= 0 {
		b[from+blank] = '_'
	}
	return b
}

// countBlank returns the position of a blank before a number at the end of name, -1 if there is none.
// Readers would read that number as a count.
func countBlank(name string) int {
	at := strings.LastIndexByte(name, ' ')
	if at < 0 {
		return -1
	}
	for _, c := range []byte(name[at+1:]) {
		if (c < '0' || c > '9') && c != '.' {
			return -1
		}
	}
	return at
}
