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

// fits reports whether the checkpoint describes the IET f, which has size bytes.
func (b *journalTail) fits(f io.ReaderAt, size int64) bool {
	if b.point.Size < wire.MagicSize || b.point.Size > size {
		return false
	}
	have, err := TailOf(f, b.point.Size)
	n := min(b.point.Size, TailSize)
	return err == nil && bytes.Equal(have[TailSize-n:], b.point.Tail[TailSize-n:])
}

// A survey is the result of reading an IET before its journal is replayed: where its complete entries end,
// and the ids of the spans and resources to which the journal refers.
type survey struct {
	version   format.Version
	same      bool // the checkpoint describes this IET
	entries   int
	size      int64 // size in bytes of the magic and the complete entries
	index     entrybytes.Index
	ended     bool    // the last entry says how the recording ended
	closed    bool    // the last entry says that the recording was closed
	damage    string  // the reason why the complete entries end, as recovery has written it or will write it
	dropped   uint64  // number of lost entries that an earlier recovery has written
	newest    int64   // the time of the newest record, or 0; records long after the crash text do not count
	times     []int64 // if there is a crash text: the start times of the entries
	behind    int     // number of entries after the part that the checkpoint describes; the journal also has them
	crashed   bool    // the crash text is the last entry, or the last before the mark of recovery
	spans     map[record.Ref]uint32
	resources map[uint16]uint32 // ids by resource number
}

// end returns the offset at which entries are appended. It is 0 if the IET has no entries, because the
// magic and the root are then written again.
func (s *survey) end() int64 {
	if s.entries == 0 {
		return 0
	}
	return s.size
}

// add adds an entry of size bytes, which has the next id.
func (s *survey) add(size int, id, parent uint32) {
	s.index.Add(size, id, parent, false)
	s.entries++
	s.size += int64(size)
}

// root returns the magic and the root if the IET has no entries, and adds them to s. Otherwise it returns nil.
func (s *survey) root() []byte {
	if s.entries > 0 {
		return nil
	}
	b := wire.AppendMagic(nil, s.version, format.IET)
	s.size = int64(len(b))
	b = format.AppendTraceEntry(b, s.version, format.Root())
	s.add(len(b)-int(s.size), 0, 0)
	return b
}

// survey reads the IET f, which has size bytes, and finds the spans and resources to which the records of b refer. If
// the checkpoint describes f and b has records, the survey ends at the checkpoint. The error damage is the reason if
// the entries end early.
func (b *journalTail) survey(f io.ReaderAt, size int64) (s *survey, damage, err error) {
	same := b.fits(f, size)
	until := size
	if same && b.records > 0 {
		until = b.point.Size // the journal has all entries after the checkpoint
	}
	s, damage = b.look(f, size, until)
	if s == nil || damage != nil && !isCorrupt(damage) && !errors.Is(damage, format.ErrTruncated) {
		return nil, nil, damage
	}
	s.same = same
	if same && s.size == b.point.Size {
		damage = nil // the journal has the entries in the damaged part
	}
	if isCorrupt(damage) {
		s.damage = mapping.CutCorrupt
	}
	if s.crashed {
		b.text = "" // an earlier recovery has written the text, and was killed
	}
	switch {
	case s.entries == 0:
		if b.point.Version.Check() == nil {
			s.version = b.point.Version
		}
	case b.records > 0 && s.version != b.point.Version:
		return nil, nil, fmt.Errorf("%w: the file has version %d, but its journal has version %d", format.ErrUnsupported, s.version, b.point.Version) // a different file
	}
	return s, damage, nil
}

// notStream returns the error for a file with a storage format other than IET.
func notStream(stored format.StorageFormat) error {
	return fmt.Errorf("%w: the storage format is %v, not iet", format.ErrUnsupported, stored)
}

// look surveys the bytes of f before the offset until, and counts the entries after it. If look returns an
// error and a survey, the survey describes the entries before the error.
func (b *journalTail) look(f io.ReaderAt, size, until int64) (*survey, error) {
	s := &survey{version: format.DefaultVersion, spans: make(map[record.Ref]uint32), resources: make(map[uint16]uint32)}
	r, err := format.NewReader(io.NewSectionReader(f, 0, size), nil)
	if errors.Is(err, format.ErrTruncated) {
		return s, err // the magic is incomplete
	}
	if err != nil {
		return nil, err
	}
	if r.Format() != format.IET && (r.Format() == format.ET || b.name != "") {
		return nil, notStream(r.Format())
	}
	s.version, s.size = r.Version(), wire.MagicSize
	var refs refs
	refs.wanted, refs.resources = b.wanted(s.version)
	whole, wholeSize := 0, s.size // number and size of the entries up to the last one with a byte that is not zero
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
		s.add(int(r.Offset()-s.size), id, e.Parent)
		if r.Format() != format.IET || !wire.IsZero(r.Raw()) {
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

// clockLag is how far the times of files can be behind the clock, at most.
const clockLag = time.Second

// noteTime updates s.newest with the time of e, or with the end of the span if e is a span or its end. It
// ignores times long after the death of the process, because the program may set any time.
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

// refs finds the entries to which the records of a journal refer.
type refs struct {
	wanted    map[record.Ref]bool
	resources map[string]uint16 // numbers by encoded entry
	traces    [][16]byte
	trace     []uint32 // for each entry: 1 plus the index in traces, 0 if its trace is unknown
}

// look examines e, the next entry of the survey s. The parameter raw is the encoding of e.
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

// dropZeros drops all entries but the first n, which have size bytes with the magic. The others are all
// zeros, and damage follows them: they are a part of the damage.
func (s *survey) dropZeros(n int, size int64) {
	if n < s.entries {
		s.index.CutTo(n)
		s.entries, s.size = n, size
	}
}

// pending returns how many entries only b has. s is the survey of the IET.
func (b *journalTail) pending(s *survey) int {
	n := b.entries
	if b.text != "" {
		n++
	}
	return max(n-s.behind, 0)
}

// wanted returns the spans to which the records of b refer, and the numbers of resources by their encoded
// entries.
func (b *journalTail) wanted(v format.Version) (spans map[record.Ref]bool, resources map[string]uint16) {
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

// isOf reports whether the checkpoint describes the IET name.
func (b *journalTail) isOf(name string) bool {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	return err == nil && b.fits(f, fi.Size())
}
