package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// lastSize is the maximum number of bytes that readLast reads.
const lastSize = 4 << 20

// A lastPart holds the entries at the end of a file.
type lastPart struct {
	entries []*format.TraceEntry // at least one
	end     int64                // the offset at which the last entry ends
	isET    bool                 // nothing can follow the entries
}

// ended reports whether the last entry marks a clean end.
func (p *lastPart) ended() bool { return p.entries[len(p.entries)-1].IsEnd() }

// readLast reads the entries in the last lastSize bytes of a file. If it returns nil, [recorder.Open] must read
// the whole file.
func readLast(name string) (*lastPart, error) {
	name = format.Find(name)
	if strings.HasSuffix(name, tracename.ET) {
		return lastOfET(name)
	}
	return lastOfIET(name)
}

// lastOfET reads the last entries of an ET with the help of the ET's index. It returns nil unless the ET has
// exactly one end mark, at its end: only then a recorder wrote it, and its entries are in the order of time.
func lastOfET(name string) (*lastPart, error) {
	f, err := format.Open(name, nil)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // the caller then reads the whole file and returns this error
	}
	defer f.Close()
	all := f.Raw()
	if f.Format() != format.ET || all.End()-all.Offset(0) < 4*lastSize {
		return nil, nil //nolint:nilnil // a small file is read as a whole
	}
	from := f.Len()
	for from > 0 && all.End()-all.Offset(uint32(from-1)) <= lastSize {
		from--
	}
	p := &lastPart{end: f.WholeSize(), isET: true}
	ends := 0
	err = f.Walk(uint32(from), func(_ uint32, e *format.TraceEntry) error {
		p.entries = append(p.entries, e.Clone())
		if e.IsEnd() || e.IsRecovered() {
			ends++
		}
		return nil
	})
	if n := len(p.entries); err != nil || ends != 1 || !p.entries[n-1].IsEnd() && !p.entries[n-1].IsRecovered() {
		return nil, nil //nolint:nilnil,nilerr // the caller then reads the whole file and returns the error, if any
	}
	return p, nil
}

// lastOfIET reads the last entries of an IET. An IET has no index of its entries, so lastOfIET searches for an
// offset from which entries follow each other to the end of the file.
//
// lastOfIET returns nil in the following cases, and recorder.Open must read the file:
//   - The search finds no such chain of entries, or more than one.
//   - The file is small or has another format.
//   - The journal of a dead writer holds a part of the trace.
//
// If an attribute near the end of the file holds a whole trace of several megabytes, lastOfIET wrongly returns the
// entries of that trace.
func lastOfIET(name string) (*lastPart, error) {
	src, err := deadtrace.OpenSource(name, false)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	grows := errors.Is(src.Missing, format.ErrLocked)
	v, stored, err := format.ReadMagic(src)
	if err != nil || stored != format.IET || src.Size() < 4*lastSize || src.Size() != src.Stored || src.Missing != nil && !grows {
		return nil, err
	}
	base := src.Size() - lastSize
	b := make([]byte, lastSize)
	_, err = src.ReadAt(b, base)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if src.Shrunk() {
		return nil, format.ErrShrunk
	}
	c := chains{b: b, version: v, grows: grows}
	at := c.find()
	if at == nil {
		return nil, nil //nolint:nilnil // the caller then reads the whole file
	}
	p := &lastPart{end: base + int64(at[len(at)-1])}
	for i := 1; i < len(at); i++ {
		e := new(format.TraceEntry)
		if _, err := format.DecodeTraceEntry(b[at[i-1]:at[i]], v, e); err != nil {
			return nil, nil //nolint:nilnil,nilerr // Open reports where the error is
		}
		p.entries = append(p.entries, e)
	}
	return p, nil
}

// chains searches the last bytes of a file for a chain: entries that follow each other without a gap.
type chains struct {
	b       []byte
	version format.Version
	grows   bool  // the last entry may be incomplete
	at      []int // the offsets in b at which the entries of a chain begin, then the end of the last entry
}

// fewEntries is the largest number of entries in a chain that find rejects as a coincidence.
const fewEntries = 32

// find returns the only chain that starts in the first eighth of b and reaches the end of the file: the offsets of
// its entries, and the end of the last one. It omits the entries in the first eighth, because a chain can start at
// a wrong offset and meet the real entries later.
//
// find returns nil if two chains never meet: one of them consists of the bytes of an attribute, and find cannot
// know which. It also returns nil if all chains together are more than eight times as long as b, because crafted
// bytes can make every chain long.
func (c *chains) find() []int {
	left := 8 * len(c.b)
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

// chain sets c.at to the offsets of the entries that follow each other from the offset from on, and returns the
// end of the last entry. It stops early at an offset in known: end is then this offset, and same is true.
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
