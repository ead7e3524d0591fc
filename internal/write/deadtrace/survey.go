package deadtrace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// fits reports whether the IET f is the one that the checkpoint is about.
func (b *rest) fits(f io.ReaderAt, size int64) bool {
	if b.point.Size < wire.MagicSize || b.point.Size > size {
		return false
	}
	have, err := TailOf(f, b.point.Size)
	n := min(b.point.Size, TailSize)
	return err == nil && bytes.Equal(have[TailSize-n:], b.point.Tail[TailSize-n:])
}

// A survey is the result of reading an IET before its journal is replayed: where the whole
// entries end, and the ids of the spans and resources that the journal refers to.
type survey struct {
	version    format.Version
	same       bool // the IET is the one that the checkpoint is about
	entries    int
	size       int64 // of the whole entries, with the magic
	index      entrybytes.Index
	ended      bool    // the last entry says how the recording ended
	closed     bool    // and that it was closed
	damage     string  // recovery has saved what was whole, or is about to
	dropped    uint64  // an earlier recovery has said so
	newest     int64   // the time of the newest record, of those that may be newer than the text of the runtime
	times      []int64 // with such a text: the starts of the entries
	behind     int     // entries behind what the checkpoint is about, which are in the journal as well
	behindSize int64
	crashed    bool // the last entry but that one is the text of the runtime
	spans      map[record.Ref]uint32
	resources  map[uint16]uint32 // ids by number
}

// end returns where entries are to follow, with the magic and the root if there are none.
func (s *survey) end() int64 {
	if s.entries == 0 {
		return 0
	}
	return s.size
}

// survey reads through what counts of the IET f of so many bytes, and finds what the
// records refer to. Damage is where it ends early, if it does.
func (b *rest) survey(f io.ReaderAt, size int64) (s *survey, damage, err error) {
	same := b.fits(f, size)
	until := size
	if same {
		until = b.point.Size // the journal has what is behind it as well
	}
	s, damage = b.look(f, size, until)
	if s == nil || damage != nil && !isCorrupt(damage) && !errors.Is(damage, format.ErrTruncated) {
		return nil, nil, damage
	}
	if s.same = same; same && s.size == until {
		damage = nil // of what the journal has as well
	}
	if isCorrupt(damage) {
		s.damage = mapping.CutCorrupt
	}
	if s.crashed {
		b.text = "" // a recovery was killed that had written it
	}
	switch {
	case s.entries == 0:
		if b.point.Version.Check() == nil {
			s.version = b.point.Version
		}
	case b.records > 0 && s.version != b.point.Version:
		return nil, nil, fmt.Errorf("%w: the file has version %d, its journal %d", format.ErrUnsupported, s.version, b.point.Version) // it is another file
	}
	return s, damage, nil
}

// notStream says that a file is no IET.
func notStream(stored format.StorageFormat) error {
	return fmt.Errorf("%w: the storage format is %v, not iet", format.ErrUnsupported, stored)
}

// look is survey of the first until bytes, behind which it counts entries. With an error it returns
// what it found before.
func (b *rest) look(f io.ReaderAt, size, until int64) (*survey, error) {
	s := &survey{version: format.DefaultVersion, spans: make(map[record.Ref]uint32), resources: make(map[uint16]uint32)}
	r, err := format.NewReader(io.NewSectionReader(f, 0, size), nil)
	if errors.Is(err, format.ErrTruncated) {
		return s, err // not even the magic
	}
	if err != nil {
		return nil, err
	}
	if r.Format() != format.IET {
		return nil, notStream(r.Format())
	}
	s.version, s.size = r.Version(), wire.MagicSize
	var refs refs
	refs.wanted, refs.resources = b.wanted(s.version)
	whole, wholeSize := 0, s.size // up to the last entry that is not all zeros
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			if s.behind == 0 {
				s.dropZeros(whole, wholeSize)
			}
			return s, err
		}
		if r.Offset() > until {
			s.behind++
			s.behindSize = r.Offset() - s.size
			continue
		}
		id := uint32(s.entries)
		if b.records > 0 {
			refs.look(s, e, r.Raw())
		}
		if b.text != "" {
			s.times = append(s.times, 0)
			s.noteTime(e, id, b.died)
		}
		s.index.Add(int(r.Offset()-s.size), id, e.Parent, false)
		s.entries++
		s.size = r.Offset()
		if !wire.IsZero(r.Raw()) {
			whole, wholeSize = s.entries, s.size
		}
		s.closed = e.IsEnd()
		s.ended, s.damage = s.closed, ""
		if e.IsRecovered() {
			s.ended = true
			v, _ := e.Attribute(mapping.AttrDamage)
			s.damage = strings.Clone(v.Text())
			n, _ := e.Attribute(mapping.AttrDropped)
			s.dropped, _ = n.U64()
		}
		s.crashed = b.text != "" && e.Metadata.Name == mapping.NameCrash && e.Message.Value == b.text || s.crashed && e.IsRecovered()
	}
}

// clockLag is more than the clock for the times of files can be late.
const clockLag = time.Second

// noteTime makes newest the time of e, or the end of the span that e is or ends, if that is newer. Times far
// behind the death of the process are what the program made of them.
func (s *survey) noteTime(e *format.TraceEntry, id uint32, died time.Time) {
	if v, ok := e.Attribute(format.AttrTime); ok {
		n, _ := v.U64()
		s.times[id] = int64(min(n, math.MaxInt64))
	}
	at := s.times[id]
	if at == 0 {
		at = s.times[e.Parent]
	}
	if v, ok := e.Attribute(format.AttrDuration); ok {
		n, _ := v.U64()
		at += int64(min(n, uint64(math.MaxInt64-max(at, 0))))
	}
	if at <= died.Add(clockLag).UnixNano() {
		s.newest = max(s.newest, at)
	}
}

// refs finds what the records of a journal refer to.
type refs struct {
	wanted    map[record.Ref]bool
	resources map[string]uint16 // numbers by encodings
	traces    [][16]byte
	trace     []uint32 // of each entry: its place in traces, from 1 on
}

// look looks at e, the next entry that s counts, whose encoding is raw.
func (x *refs) look(s *survey, e *format.TraceEntry, raw []byte) {
	id, of := uint32(s.entries), uint32(0)
	if id > 0 {
		of = x.trace[e.Parent]
	}
	if v, ok := e.Attribute(format.AttrTraceID); ok {
		if t, ok := wire.ParseID[[16]byte](v.Text()); ok {
			x.traces = append(x.traces, t)
			of = uint32(len(x.traces))
		}
	}
	x.trace = append(x.trace, of)
	if of > 0 && !e.Message.Valid {
		v, _ := e.Attribute(format.AttrSpanID)
		_, timed := e.Attribute(format.AttrTime)
		if span, ok := wire.ParseID[[8]byte](v.Text()); ok && timed {
			var key record.Ref
			copy(key[:], x.traces[of-1][:])
			copy(key[16:], span[:])
			if x.wanted[key] {
				s.spans[key] = id
			}
		}
	}
	if e.Parent == 0 && id > 0 && e.Metadata.Name == format.NameResource {
		if number, ok := x.resources[string(raw)]; ok {
			s.resources[number] = id
		}
	}
}

// dropZeros leaves the first n entries, which take size bytes with the magic: zeros before damage
// belong to it.
func (s *survey) dropZeros(n int, size int64) {
	if n < s.entries {
		s.index.CutTo(n)
		s.entries, s.size = n, size
	}
}

// pending returns how many entries only b has, of those of which s is the survey.
func (b *rest) pending(s *survey) int {
	n := b.entries
	if b.text != "" {
		n++
	}
	return max(n-s.behind, 0)
}

// wanted returns the spans that the records refer to, and the numbers of the resources by
// their encodings.
func (b *rest) wanted(v format.Version) (spans map[record.Ref]bool, resources map[string]uint16) {
	spans, resources = make(map[record.Ref]bool), make(map[string]uint16)
	p := placer.New(b.table, &placer.Options{Columns: v == format.V2, MaxEntrySize: format.DefaultMaxEntrySize})
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
func (b *rest) isOf(name string) bool {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	return err == nil && b.fits(f, fi.Size())
}
