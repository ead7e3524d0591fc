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

	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/view"
)

const (
	// maxFrames is the maximum depth of a stack. Without a limit, the total size of the lines for a chain of spans
	// would grow with the square of the chain's length.
	maxFrames  = 512
	maxStack   = 16 << 10 // the maximum size of a stack, in bytes
	bufferSize = 64 << 10
	checkEvery = 4096 // number of rows or lines between two checks of the context
)

// EncodeFolded writes the spans of v to w as folded stacks of self time in nanoseconds. The package documentation
// describes folded stacks. The error is an error of v, w or ctx.
func EncodeFolded(ctx context.Context, w io.Writer, v *view.View) error {
	t := newTree()
	type frame struct {
		node    int32
		service string
	}
	var above []frame // for each row above the current one, the frame of the nearest span
	visited := 0
	err := v.Walk(0, func(r view.Row, depth int, _ bool) error {
		visited++
		if visited%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		above = above[:depth]
		here := frame{node: -1}
		if depth > 0 {
			here = above[depth-1]
		}
		if v.Role(r) == view.RoleSpan {
			if service := cmp.Or(v.Service(r), unknownService); here.node < 0 || service != here.service {
				here = frame{t.down(-1, service), service}
			}
			here.node = t.down(here.node, v.Name(r))
			self, _ := v.SelfTime(r)
			t.count(here.node, uint64(self))
		}
		above = append(above, here)
		return nil
	})
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	return t.write(ctx, w)
}

// unknownService is OpenTelemetry's name for a service without a name.
const unknownService = "unknown_service"

// A tree has a node for each different stack.
type tree struct {
	nodes []node
	steps map[step]int32
}

// A step leads from a node to its child called name. The field from is -1 if the child is a root.
type step struct {
	from int32
	name string
}

// A node represents a stack: the stack of its parent node plus one frame.
type node struct {
	name        string
	self        uint64 // self time in nanoseconds
	depth       int32
	bytes       int   // total length of the names from the root to this node
	first, next int32 // first child and next sibling; -1: none
}

func newTree() *tree { return &tree{steps: make(map[step]int32)} }

// down returns the child called name of the node from. If the stack is already too long, it returns from itself.
func (t *tree) down(from int32, name string) int32 {
	if !isPlain(name) {
		name = string(appendName(nil, name))
	}
	k, depth := step{from, name}, int32(1)
	if from >= 0 {
		up := &t.nodes[from]
		depth += up.depth
		if up.depth >= maxFrames || up.bytes+len(name) >= maxStack {
			return from
		}
	}
	at, ok := t.steps[k]
	if !ok {
		k.name = strings.Clone(name)
		at = t.add(from, k.name, depth)
		t.steps[k] = at
	}
	return at
}

// count adds nano to the self time of a node.
func (t *tree) count(at int32, nano uint64) {
	n := &t.nodes[at]
	n.self += nano
	if n.self < nano {
		n.self = math.MaxUint64
	}
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

// sort sorts siblings by name.
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

// chain links nodes as siblings, sorted by name, and returns the first.
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

// write writes a line for each stack of t.
func (t *tree) write(ctx context.Context, w io.Writer) error {
	t.sort()
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
	ends := make([]int, 1, maxFrames+1) // for each depth, the end of the frame in stack
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
		count++
		if count%checkEvery == 0 && ctx.Err() != nil {
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

// isPlain reports whether appendName would certainly not change s. It is a quick check.
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
	// Trim now, because the loop may have made spaces.
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

// countBlank returns the offset of the space before a number at the end of name, or -1 if there is none. Readers
// would take this number for the time.
func countBlank(name string) int {
	at := strings.LastIndexByte(name, ' ')
	if strings.Trim(name[at+1:], "0123456789.") != "" {
		return -1
	}
	return at
}
