package main

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/deadtrace"
	"github.com/entrace-go/entrace/internal/wire"
)

// lastSize is how much of a file readLast looks at.
const lastSize = 4 << 20

// readLast reads the entries in the last lastSize bytes of an IET, however large it is, and says where
// in the file the last of them ends. An IET does not say where its entries begin: readLast looks for
// an offset from which entry follows entry to the end of the file. It returns no entries if there is
// no such chain or more than one, if the file is small or of another format, and if some of the trace
// is in the journal of a dead writer: recorder.Open reads those. It is wrong about a file in whose last
// bytes an attribute holds a trace of several megabytes: it takes the entries of that.
func readLast(name string) (entries []*format.TraceEntry, end int64, err error) {
	src, err := deadtrace.OpenSource(format.Find(name), false)
	if err != nil {
		return nil, 0, err
	}
	defer src.Close()
	grows := errors.Is(src.Missing, format.ErrLocked)
	v, stored, err := format.ReadMagic(src)
	if err != nil || stored != format.IET || src.Size() < 4*lastSize || src.Size() != src.Stored || src.Missing != nil && !grows {
		return nil, 0, err
	}
	base := src.Size() - lastSize
	b := make([]byte, lastSize)
	if _, err = src.ReadAt(b, base); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	if src.Shrunk() {
		return nil, 0, format.ErrShrunk
	}
	c := chains{b: b, version: v, grows: grows}
	at := c.find()
	for i := 1; i < len(at); i++ {
		e := new(format.TraceEntry)
		if _, err := format.DecodeTraceEntry(b[at[i-1]:at[i]], v, e); err != nil {
			return nil, 0, nil // which Open says where
		}
		entries, end = append(entries, e), base+int64(at[i])
	}
	return entries, end, nil
}

// chains are the chains of entries in the last bytes of a file.
type chains struct {
	b       []byte
	version format.Version
	grows   bool  // the last entry may be incomplete
	at      []int // where the entries of a chain begin, and where the last ends
}

// fewEntries is the number of entries above which a chain is believed.
const fewEntries = 32

// find returns where the entries begin, and where the last ends. The first ones of a chain may be
// none: they only lead to one that is. So what begins in the first eighth is not taken. Nothing is,
// if another chain from there leads to the end as well: what is in an attribute can look like
// entries. All chains together are not longer than a few times b: bytes that are made for it make each
// of them long.
func (c *chains) find() []int {
	left := 8 * len(c.b)
	var first []int
	for from := range len(c.b) / 8 {
		end, same := c.chain(from, first)
		if left -= end - from; left < 0 {
			return nil
		}
		if same {
			continue
		}
		if c.at = append(c.at, end); !c.isEnd(end) {
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

// chain fills at with the entries that follow each other from a place on, and returns where the
// last one ends, or comes to an entry of a chain that is known.
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

// isEnd reports whether a chain that ends at a place leads to the end of the file, or, of one that
// grows, to an entry that is being written. Zeros at the end of such a file are no entries yet.
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
