// Package chunked has a list that grows without copying.
package chunked

// A List is a slice that grows in chunks. Growing copies at most the first chunk. Copying the whole list would need
// twice its memory. The zero List is empty.
type List[T any] struct {
	chunks [][]T
	n      int
}

const chunkBits = 13

// Len returns the number of items.
func (l *List[T]) Len() int { return l.n }

// At returns a pointer to item i. A pointer into the first chunk is valid only until the next call of Add.
func (l *List[T]) At(i int) *T { return &l.chunks[i>>chunkBits][i&(1<<chunkBits-1)] }

// Add appends an item and returns a pointer to it.
func (l *List[T]) Add(v T) *T {
	at := l.n >> chunkBits
	if at == len(l.chunks) {
		var chunk []T
		if l.n > 0 {
			chunk = make([]T, 0, 1<<chunkBits)
		}
		l.chunks = append(l.chunks, chunk)
	}
	last := &l.chunks[at]
	*last = append(*last, v)
	l.n++
	return l.At(l.n - 1)
}

// Reset empties the list. Later calls of Add reuse its memory.
func (l *List[T]) Reset() {
	for i := range l.chunks {
		l.chunks[i] = l.chunks[i][:0]
	}
	l.n = 0
}
