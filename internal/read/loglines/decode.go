package loglines

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/input"
)

// blockSize is how many bytes are read at a time.
const blockSize = 1 << 20

var errBinary = errors.New("not text: it has a NUL")

// Is reports whether a file that begins with head is a log: one of its lines has a shape and a time. JSON or logfmt
// instead needs two of the following: a time, a level, a message, and the parts of an HTTP request.
func Is(head []byte) bool {
	cut := bytes.LastIndexByte(head, '\n') + 1
	if cut == 0 {
		cut = len(head)
	}
	if bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(head[:cut]) {
		return false
	}
	p := NewParser(time.Now(), func(*Record) {})
	for s := string(head[:cut]); s != ""; {
		s = s[p.Next(s):]
		if r := p.pending; r != nil && r.isKnown() {
			return true
		}
	}
	return false
}

// Decode reads lines from r and writes their records to w. It does not close w. If a line has no year, Decode chooses
// the year so that the time is before the last change of the file r, or before now if r is not a file. Decode accepts
// any text as a log, but a NUL in the first 64 KiB is an error.
func Decode(ctx context.Context, r io.Reader, w *format.Writer) error {
	limit := time.Now()
	if f, ok := r.(input.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			limit = info.ModTime()
		}
	}
	_, err := w.Write(format.Root())
	if err != nil {
		return err
	}
	names, _ := ctx.Value(fieldsKey{}).([][2]string)
	d := decoder{w: w, limit: limit, names: names, holders: map[string]uint32{"": 0}, counts: make(map[string]uint64)}
	defer d.running.Wait()
	return d.decode(ctx, r)
}

// WithFields returns a context for Decode that gives fields a meaning: a field called names[i][1] has the meaning
// names[i][0], which must be one of [Meanings].
func WithFields(ctx context.Context, names [][2]string) context.Context {
	return context.WithValue(ctx, fieldsKey{}, names)
}

type fieldsKey struct{}

// A decoder divides lines into chunks, which goroutines parse, and writes their records in the order of the lines.
type decoder struct {
	w       *format.Writer
	limit   time.Time
	names   [][2]string
	made    [sha256.Size]byte // the beginning of generated trace ids
	chunks  []*chunk          // chunks whose records are not written yet, in the order of the lines
	spare   output            // the memory of a chunk that was written
	moved   []byte            // an encoded entry
	running sync.WaitGroup
	holders map[string]uint32 // the entries of resources, by service
	counts  map[string]uint64 // the number of records, by shape
}

// A chunk is a part of the input: some consecutive lines.
type chunk struct {
	*decoder

	after  *chunk // the previous chunk, if the first lines may belong to its last record
	text   string
	whole  bool // the last record of the chunk ends in the chunk
	parser *Parser
	at     int64 // offset of the line that is being read
	output
	parsed chan struct{} // closed at the end of parse
}

// An output holds the lines of a chunk, and the encoded records that parse makes of them. Its memory is reused.
type output struct {
	lines   []byte
	entry   format.TraceEntry // the last entry
	fields  otel.Entry        // writes to entry
	raw     []byte            // encoded entries
	records []writtenRecord
}

// A writtenRecord describes an encoded record.
type writtenRecord struct {
	size    int
	service string
	shape   *Shape
}

func (d *decoder) decode(ctx context.Context, r io.Reader) error {
	block := make([]byte, blockSize)
	c := &chunk{whole: true}
	for had, at := 0, int64(0); ; {
		n, err := io.ReadFull(r, block[had:])
		end := had + n
		if at == 0 {
			head := block[:min(end, maxRecord)]
			if at := bytes.IndexByte(head, 0); at >= 0 {
				return &input.Error{Offset: int64(at), Err: errBinary}
			}
			d.made = sha256.Sum256(head)
		}
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), err)
		}
		cut := end
		if !ended {
			cut = d.cut(block[:end])
		}
		next := &chunk{decoder: d, whole: cut > 0 || ended, at: at, output: d.spare, parsed: make(chan struct{})}
		d.spare = output{}
		if !c.whole {
			next.after = c
		}
		if !next.whole {
			cut = end
		}
		c = next
		c.lines = append(c.lines[:0], block[:cut]...)
		c.text = wire.View(c.lines)
		d.chunks = append(d.chunks, c)
		d.running.Go(c.parse)
		for len(d.chunks) > runtime.GOMAXPROCS(0) || ended && len(d.chunks) > 0 {
			err = d.chunks[0].write()
			if err != nil {
				return err
			}
			d.chunks = d.chunks[1:]
		}
		if ended {
			return d.end()
		}
		at += int64(cut)
		had = copy(block, block[cut:end])
	}
}

// cut returns the offset of the last line in block that surely begins a record, or 0 if it finds no such line.
func (d *decoder) cut(block []byte) (cut int) {
	at := max(0, len(block)-searched)
	p := NewParser(d.limit, func(*Record) {})
	for s := string(block[at:]); strings.IndexByte(s, '\n') >= 0; {
		last, isJoined := p.pending, p.carry != ""
		n := p.Next(s)
		if last != nil && p.pending != last && !isJoined && p.has(aTime) && p.isKnown() {
			cut = at
		}
		at += n
		s = s[n:]
	}
	return cut
}

// searched is the number of bytes at the end of a block in which cut searches.
const searched = 16 << 10

// parse reads the lines of the chunk. If the chunk is not whole, parse leaves some lines in text, because lines of
// the next chunk may belong to the same record.
func (c *chunk) parse() {
	defer close(c.parsed)
	if c.after == nil {
		c.parser = NewParser(c.limit, c.add)
		for _, x := range c.names {
			c.parser.names[x[1]] = &meaning{raw: x[1], name: x[1], kind: kind(slices.Index(kinds, x[0]))}
		}
	} else {
		<-c.after.parsed
		c.parser, c.at, c.text = c.after.parser, c.after.at, c.after.text+c.text
		c.parser.emit = c.add
		c.after = nil
	}
	for c.text != "" && (c.whole || len(c.text) > 2*maxRecord) {
		size := c.parser.Next(c.text)
		c.text = c.text[size:]
		c.at += int64(size)
	}
	if c.whole {
		c.parser.Flush()
	}
}

// write writes the records of the chunk.
func (c *chunk) write() error {
	<-c.parsed
	raw := c.raw
	for _, x := range c.records {
		c.counts[x.shape.Name]++
		holder, known := c.holders[x.service]
		if !known {
			resource := otel.Resource{Attributes: otel.Attributes{otel.Text("service.name", wire.ValidText(x.service))}}
			var err error
			holder, err = c.w.Write(resource.Entry())
			if err != nil {
				return err
			}
			c.holders[strings.Clone(x.service)] = holder
		}
		c.moved = wire.AppendMoved(c.moved[:0], raw[:x.size], holder)
		_, err := c.w.WriteRaw(c.moved, holder)
		if err != nil {
			return err
		}
		raw = raw[x.size:]
	}
	c.raw, c.records = c.raw[:0], c.records[:0]
	if c.whole { // otherwise, the next chunk needs the lines
		c.spare = c.output
	}
	return nil
}

// add encodes a record. It generates ids that a span lacks from the position of the span's line.
func (c *chunk) add(r *Record) {
	c.fields.E = &c.entry
	if s := r.Span; s != nil {
		s.MadeIDs = s.SpanID == [8]byte{}
		if s.MadeIDs {
			binary.BigEndian.PutUint64(s.SpanID[:], uint64(c.at)+1)
		}
		if s.TraceID == [16]byte{} {
			copy(s.TraceID[:], c.made[:])
			copy(s.TraceID[8:], s.SpanID[:])
		}
		s.Name = wire.ValidText(s.Name)
		s.Write(&c.fields, otel.Where{}, &s.Attributes)
	} else {
		r.Log.Body.Text = wire.ValidText(r.Log.Body.Text)
		r.Log.Write(&c.fields, otel.Where{}, &r.Log.Attributes)
	}
	if c.w.Version() == format.V2 {
		format.SortAttributes(c.entry.Attributes)
	}
	had := len(c.raw)
	c.raw = format.AppendTraceEntry(c.raw, c.w.Version(), &c.entry)
	c.records = append(c.records, writtenRecord{len(c.raw) - had, r.Service, r.Shape})
}

// end writes the entry with the number of records of each shape.
func (d *decoder) end() error {
	e := &format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameLines, Level: format.LevelTrace}}
	for _, shape := range slices.Sorted(maps.Keys(d.counts)) {
		e.Add(shape, format.U64Value(d.counts[shape]))
	}
	_, err := d.w.Write(e)
	return err
}
