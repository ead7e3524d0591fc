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
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
)

// blockSize is how many bytes are read at a time.
const blockSize = 1 << 20

var errBinary = errors.New("not text: it has a NUL")

// Is reports whether a file that begins with head is a log: one of its lines has a shape and a time. JSON must also have
// a level, a message or the parts of a request, or two of these if it has no time.
func Is(head []byte) bool {
	cut := bytes.LastIndexByte(head, '\n') + 1
	if cut == 0 {
		cut = len(head)
	}
	if bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(head[:cut]) {
		return false
	}
	p := NewParser(time.Now(), func(Entry) {})
	for s := string(head[:cut]); s != ""; {
		s = s[p.Next(s):]
		if e := p.pending; e != nil && e.isKnown() {
			return true
		}
	}
	return false
}

// Decode reads lines from r and writes their records to w. It does not close w. Lines that lack a year are from before
// the last change of the file, if r is one. Every text is a log, but a NUL in its first 64 KiB is an error.
func Decode(ctx context.Context, r io.Reader, w *format.Writer) error {
	limit := time.Now()
	if f, ok := r.(input.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			limit = info.ModTime()
		}
	}
	if _, err := w.Write(format.Root()); err != nil {
		return err
	}
	d := decoder{w: w, counts: make(map[string]uint64)}
	p := NewParser(limit, d.add)
	block := make([]byte, blockSize)
	for had := 0; ; {
		n, err := io.ReadFull(r, block[had:])
		end := had + n
		if at := bytes.IndexByte(block[:min(end, maxRecord)], 0); d.at == 0 && at >= 0 {
			return &input.Error{Offset: int64(at), Err: errBinary}
		}
		if d.at == 0 {
			d.made = sha256.Sum256(block[:min(end, maxRecord)])
		}
		rest := string(block[:end])
		for rest != "" && (err != nil || len(rest) > 2*maxRecord) && d.err == nil { // before the end, more of the lines may follow
			size := p.Next(rest)
			rest = rest[size:]
			d.at += int64(size)
		}
		switch {
		case cmp.Or(d.err, ctx.Err()) != nil:
			return cmp.Or(d.err, ctx.Err())
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			p.Flush()
			return cmp.Or(d.err, d.end())
		case err != nil:
			return err
		}
		had = copy(block, rest)
	}
}

// A decoder writes records.
type decoder struct {
	w         *format.Writer
	at        int64             // offset of the line that is being read
	made      [sha256.Size]byte // the beginning of made trace ids
	entry     format.TraceEntry
	resources otel.Resources
	service   string            // of the last record
	counts    map[string]uint64 // of records, by shape
	holder    uint32            // the entry of the resource of the last record
	err       error
}

// add writes a record. Ids that a span lacks are made from the place of its line.
func (d *decoder) add(e Entry) {
	d.counts[e.Shape]++
	if e.service != d.service {
		d.service = strings.Clone(e.service)
		resource := otel.Resource{Attributes: otel.Attributes{{Name: "service.name", Value: format.StringValue(wire.ValidText(d.service))}}}
		d.holder, d.err = d.resources.WriteFor(d.w, &resource)
		if e.service == "" {
			d.holder = 0
		}
	}
	if s := e.Span; s != nil {
		s.MadeIDs = s.SpanID == [8]byte{}
		if s.MadeIDs {
			binary.BigEndian.PutUint64(s.SpanID[:], uint64(d.at)+1)
		}
		if s.TraceID == [16]byte{} {
			copy(s.TraceID[:], d.made[:])
			copy(s.TraceID[8:], s.SpanID[:])
		}
		s.Name = wire.ValidText(s.Name)
		s.Fill(&d.entry, otel.Where{})
	} else {
		e.Log.Body.Text = wire.ValidText(e.Log.Body.Text)
		e.Log.Fill(&d.entry, otel.Where{})
	}
	d.entry.Parent = d.holder
	if d.err == nil {
		_, d.err = d.w.Write(&d.entry)
	}
}

// end writes how many records have which shape.
func (d *decoder) end() error {
	e := &format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameLines, Level: format.LevelTrace}}
	for _, shape := range slices.Sorted(maps.Keys(d.counts)) {
		e.Add(shape, format.U64Value(d.counts[shape]))
	}
	_, err := d.w.Write(e)
	return err
}
