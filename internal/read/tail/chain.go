package tail

import (
	"bytes"
	"errors"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// chains searches the last bytes of a file for a chain: entries that follow each other without a gap.
type chains struct {
	b       []byte
	version format.Version
	grows   bool  // the last entry may be incomplete
	at      []int // the offsets in b at which the entries of a chain begin, then the end of the last entry
}

// find returns the only chain that starts in the first eighth of b and reaches the end of the file: the offsets of
// its entries, and the end of the last entry. It omits the entries in the first eighth, because a chain can start at
// a wrong offset and meet the real entries later.
//
// find returns nil if two chains never meet: one of them consists of the bytes of an attribute, but find does not
// know which one. It also returns nil if all chains together are longer than eight times partSize, because crafted
// bytes can make every chain long.
//
// If an attribute near the end of an IET holds a whole trace of several megabytes, find wrongly returns the entries of
// that trace.
func (c *chains) find() []int {
	left := 8 * partSize
	var first []int
	for from := range len(c.b) / 8 {
		end, same := c.chain(from, first)
		left -= end - from
		if left < 0 {
			return nil
		}
		if same {
			continue
		}
		c.at = append(c.at, end)
		if !c.isEnd(end) {
			continue
		}
		if first != nil {
			return nil
		}
		first, c.at = c.at, nil
	}
	from, _ := slices.BinarySearch(first, len(c.b)/8)
	if len(first)-from <= fewEntries {
		return nil
	}
	return first[from:]
}

// chain sets c.at to the offsets of the entries that follow each other from the offset from on, and returns the end
// of the last entry. It stops early at an offset in known: in this case end is this offset, and same is true.
func (c *chains) chain(from int, known []int) (end int, same bool) {
	c.at = c.at[:0]
	columns := c.version == format.V2
	for pos := from; ; {
		if _, same := slices.BinarySearch(known, pos); same {
			return pos, true
		}
		_, size, ok := wire.SkipEntry(c.b[pos:], columns)
		if !ok {
			return pos, false
		}
		c.at = append(c.at, pos)
		pos += size
	}
}

// isEnd reports whether a chain that ends at offset end reaches the end of the file. A file that grows may end
// with an incomplete entry, which does not belong to the chain, or with zeros, which isEnd removes from the chain.
func (c *chains) isEnd(end int) bool {
	if end < len(c.b) {
		_, err := format.DecodeTraceEntry(c.b[end:], c.version, new(format.TraceEntry))
		if !c.grows || !errors.Is(err, format.ErrTruncated) {
			return false
		}
	}
	for n := len(c.at); n > 1 && len(bytes.TrimLeft(c.b[c.at[n-2]:c.at[n-1]], "\x00")) == 0; n-- {
		if !c.grows {
			return false
		}
		c.at = c.at[:n-1]
	}
	return len(c.at) > fewEntries
}
