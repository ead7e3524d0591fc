package tail

import (
	"bytes"
	"errors"
	"io"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

const (
	// partSize is the number of bytes at the end of a file in which a Part finds its entries.
	partSize = 4 << 20
	// largeSize is the minimum size of a file for which Open returns a Part.
	largeSize = 4 * partSize
	// leastSize is the number of bytes at the end of an ET that are searched first.
	leastSize = 64 << 10
	// fewEntries is the largest number of entries that count as a coincidence if they follow each other.
	fewEntries = 32
)

// A Part holds the last entries of a file, in the order in which they are stored.
type Part struct {
	Version format.Version
	IsET    bool  // the file is an ET, so no entries can follow
	End     int64 // the offset in the file at which the last entry ends

	b  []byte
	at []int // for each entry, its offset in b; then the offset at which the last entry ends

	from int // the first entry of the last lines
}

// A source has the bytes of a file.
type source interface {
	io.ReaderAt
	Size() int64
}

// Open returns the last entries of the file called name, with at least n lines (see [IsLine]). It returns nil if the file has to
// be read as a whole.
func Open(name string, n int) *Part {
	src, err := deadtrace.OpenSource(name)
	if err != nil {
		return nil
	}
	defer src.Close()
	grows := errors.Is(src.Missing, format.ErrLocked)
	if src.Size() != src.Stored || src.Missing != nil && !grows {
		return nil
	}
	p := read(src, n, grows)
	if src.Shrunk() {
		return nil
	}
	return p
}

// read returns the last entries of src, or nil if src must be read as a whole.
func read(src source, n int, grows bool) *Part {
	size := src.Size()
	version, stored, err := format.ReadMagic(io.NewSectionReader(src, 0, size))
	if err != nil || size < largeSize || stored == format.IETPrefix {
		return nil
	}
	b := make([]byte, partSize)
	if _, err := src.ReadAt(b, size-partSize); err != nil {
		return nil
	}
	p := &Part{Version: version, IsET: stored == format.ET}
	if !p.IsET {
		if !p.find(b, n, grows) {
			return nil
		}
		p.End = size - partSize + int64(p.at[p.Len()])
		return p
	}
	marks := bytes.Count(b, []byte(mapping.NameEnd)) + bytes.Count(b, []byte(mapping.NameRecovered))
	few := leastSize
	for !p.find(b[partSize-few:], n, false) {
		few *= 8
		if few > partSize {
			return nil
		}
	}
	last, err := p.Entry(p.Len() - 1)
	if err != nil || marks != 1 || !last.IsEnd() && !last.IsRecovered() || !isEndOfET(src, p.at[:p.Len()]) {
		return nil
	}
	return p
}

// find searches b, the last bytes of the file, for entries with n lines. It returns false if it finds fewer lines.
func (p *Part) find(b []byte, n int, grows bool) bool {
	c := chains{b: b, version: p.Version, grows: grows}
	p.b, p.at = b, c.find()
	p.from = p.Len()
	for ; n > 0 && p.from > 0; p.from-- {
		e, err := p.Entry(p.from - 1)
		if err != nil {
			return false
		}
		if IsLine(e) {
			n--
		}
	}
	return n == 0 && p.at != nil
}

// Len returns the number of entries.
func (p *Part) Len() int { return max(0, len(p.at)-1) }

// Raw returns the encoding of entry i of p.
func (p *Part) Raw(i int) []byte { return p.b[p.at[i]:p.at[i+1]] }

// Entry returns entry i of p. Its texts alias memory of p.
func (p *Part) Entry(i int) (*format.TraceEntry, error) {
	e := new(format.TraceEntry)
	_, err := format.DecodeTraceEntry(p.Raw(i), p.Version, e)
	return e, err
}

// Window returns a Window of the file that has the last lines. The parameter find is passed to [NewWindow].
func (p *Part) Window(find func(end *format.TraceEntry) []byte) *Window {
	w := NewWindow(p.Version, find)
	for i := range p.Len() {
		// Before the last lines, only the entries that begin spans are needed.
		if e, err := p.Entry(i); err == nil && (i >= p.from || !IsLine(e)) {
			w.Add(p.Raw(i), e)
		}
	}
	return w
}
