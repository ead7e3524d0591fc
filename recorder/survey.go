package recorder

import (
	"bytes"
	"errors"
	"io"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/placer"
	"github.com/entrace-go/entrace/internal/record"
	"github.com/entrace-go/entrace/internal/wire"
)

// fits reports whether the IET f is the one that the checkpoint is about.
func (b *deadBuffer) fits(f io.ReaderAt, size int64) bool {
	if b.point.size < format.MagicSize || b.point.size > size {
		return false
	}
	have, err := tailOf(f, b.point.size)
	n := min(b.point.size, tailSize)
	return err == nil && bytes.Equal(have.b[tailSize-n:], b.point.tail[tailSize-n:])
}

// tailOf returns the tail of the first size bytes of f.
func tailOf(f io.ReaderAt, size int64) (t tail, err error) {
	buf := make([]byte, min(size, tailSize))
	if _, err := f.ReadAt(buf, size-int64(len(buf))); err != nil {
		return t, err
	}
	t.add(buf)
	return t, nil
}

// A survey is the result of reading an IET before its journal is replayed: where the whole
// entries end, and the ids of the spans and resources that the journal refers to.
type survey struct {
	version   format.Version
	same      bool // the IET is the one that the checkpoint is about
	entries   int
	size      int64 // of the whole entries, with the magic
	ended     bool  // the last entry says how the recording ended
	crashed   bool  // the last entry but that one is the text of the runtime
	spans     map[record.Ref]uint32
	resources map[uint16]uint32 // ids by number
}

// end returns where entries are to follow, with the magic and the root if there are none.
func (s *survey) end() int64 {
	if s.entries == 0 {
		return 0
	}
	return s.size
}

// survey reads through what counts of the IET f of so many bytes, and finds what the
// records refer to. With lenient, damage only ends it.
func (b *deadBuffer) survey(f io.ReaderAt, size int64, lenient bool) (*survey, error) {
	same := b.fits(f, size)
	if same {
		size = b.point.size // what is behind it is in the journal, too
	}
	s, err := b.look(f, size)
	if err != nil && (s == nil || !lenient || !isCorrupt(err)) {
		return nil, err
	}
	s.same = same
	if s.crashed {
		b.text = "" // a recovery was killed that had written it
	}
	switch {
	case s.entries == 0:
		if b.point.version.Known() {
			s.version = b.point.version
		}
	case b.records > 0 && s.version != b.point.version:
		return nil, &format.VersionError{Version: s.version} // it is another file
	}
	return s, nil
}

// look is survey of the first size bytes, which returns what it has found with an error, too.
func (b *deadBuffer) look(f io.ReaderAt, size int64) (*survey, error) {
	s := &survey{version: format.DefaultVersion, spans: make(map[record.Ref]uint32), resources: make(map[uint16]uint32)}
	r, err := format.NewReader(io.NewSectionReader(f, 0, size), nil)
	if errors.Is(err, format.ErrTruncated) {
		return s, nil // not even the magic
	}
	if err != nil {
		return nil, err
	}
	if r.Format() != format.IET {
		return nil, &format.StorageFormatError{Format: r.Format()}
	}
	s.version, s.size = r.Version(), format.MagicSize
	wanted, resources := b.wanted(s.version)
	var traces [][16]byte
	var trace []uint32 // of each entry: its place in traces, from 1 on
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, format.ErrTruncated) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		id := uint32(s.entries)
		of := uint32(0)
		if id > 0 {
			of = trace[e.Parent]
		}
		if v, ok := e.Attribute(format.AttrTraceID); ok {
			if t, ok := wire.ParseID[[16]byte](v.Text()); ok {
				traces = append(traces, t)
				of = uint32(len(traces))
			}
		}
		trace = append(trace, of)
		if of > 0 && !e.Message.Valid {
			v, _ := e.Attribute(format.AttrSpanID)
			_, timed := e.Attribute(format.AttrTime)
			if span, ok := wire.ParseID[[8]byte](v.Text()); ok && timed {
				ref := format.SpanRef{TraceID: traces[of-1], SpanID: span}
				if key := keyOf(&ref); wanted[key] {
					s.spans[key] = id
				}
			}
		}
		if e.Parent == 0 && id > 0 && e.Metadata.Name == format.NameResource {
			if number, ok := resources[string(r.Raw())]; ok {
				s.resources[number] = id
			}
		}
		s.entries++
		s.size = r.Offset()
		s.ended = e.IsEnd() || e.IsRecovered()
		s.crashed = b.text != "" && isCrash(e, b.text) || s.crashed && e.IsRecovered()
	}
}

// isCrash reports whether e is the log record of such a text.
func isCrash(e *format.TraceEntry, text string) bool {
	return e.Metadata.Name == format.NameCrash && e.Message.Value == text
}

// hasText reports whether the entry of the text is the last of f.
func (b *deadBuffer) hasText(f *format.File) bool {
	if f.Len() == 0 || b.f != nil {
		return false
	}
	e, err := f.Entry(uint32(f.Len() - 1))
	if err == nil && e.IsRecovered() {
		e, err = f.Entry(uint32(f.Len() - 2))
	}
	return err == nil && isCrash(e, b.text)
}

// wanted returns the spans that the records refer to, and the numbers of the resources by
// their encodings.
func (b *deadBuffer) wanted(v format.Version) (spans map[record.Ref]bool, resources map[string]uint16) {
	spans, resources = make(map[record.Ref]bool), make(map[string]uint16)
	p := placer.New(b.table, &placer.Options{Columns: v.HasColumns(), MaxEntrySize: format.DefaultMaxEntrySize})
	var r record.Record
	b.each(func(e *journal.Entry) {
		if !r.Parse(e) {
			return
		}
		spans[r.Ref], spans[r.Parent] = true, true
		if raw, ok := p.AppendResource(nil, r.Resource); ok {
			resources[string(raw)] = r.Resource
		}
	})
	delete(spans, record.Ref{})
	return spans, resources
}

// isOf reports whether the IET name is the one that the checkpoint is about.
func (b *deadBuffer) isOf(name string) bool {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	return err == nil && b.fits(f, fi.Size())
}
