package recorder

import (
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// An output is the growing file, or the Tee of a recorder without a file, together with the placer of its entries. When
// a new file begins, a successor replaces the output. Only the goroutine of the writer uses it.
type output struct {
	sink     sink
	file     *fileSink // the same as sink, if the sink is a file
	placer   *placer.Placer
	rotation rotation
	leaving  bool // the file was removed, and its entries count as unsaved
}

// begin begins the sink and stages the first entry, the root.
func (t *output) begin(v format.Version) {
	t.sink.begin(v)
	t.placer.Resume(0, t.sink.size(), 0)
	t.placer.Root()
}

func (t *output) staged() bool {
	b, _ := t.placer.Out()
	return len(b) > 0
}

// A rotation decides when an output gets a successor.
type rotation struct {
	began     time.Time // when the file began
	first     uint64    // the id of the first entry after the open spans from the earlier file
	head      int64     // size in bytes of everything before that entry
	notBefore time.Time // earliest time of the next attempt
	mended    bool      // another program has changed the file: replace it as soon as possible
	stranger  bool      // callers may have ids of an earlier file, even if the options set no bounds
	synced    time.Time // before this time, a failed sync of the file does not begin a new file
}

// on reports whether the options set a bound at which a new file begins.
func (*rotation) on(o *Options) bool {
	return o.MaxFileSize > 0 || o.MaxFileAge > 0 || o.MaxFileEntries > 0
}

// tooBig reports whether the file, including the staged entries, has reached a bound.
func (r *rotation) tooBig(o *Options, p *placer.Placer) bool {
	if !r.on(o) {
		return false
	}
	b, _ := p.Out()
	size := p.Size() + int64(len(b)) - r.head
	next := p.Entries()
	return o.MaxFileSize > 0 && size >= bound(o.MaxFileSize, r.head) ||
		o.MaxFileEntries > 0 && next-r.first >= uint64(bound(int64(o.MaxFileEntries), int64(r.first))) || next >= fullAt
}

// bound returns how much a file may hold after its head. The parameter most is the bound of the whole file.
// The result is at least three quarters of most: even if many spans are open, the file has room for new
// entries.
func bound(most, head int64) int64 { return max(most-head, most-most/headShare) }

// due returns the time until the writer must check the age of the file.
func (r *rotation) due(o *Options, p *placer.Placer) time.Duration {
	if o.MaxFileAge <= 0 {
		return math.MaxInt64
	}
	d := max(time.Until(r.began.Add(o.MaxFileAge)), time.Until(r.notBefore), writeAfter)
	if p.Entries() < r.first+minFileEntries {
		d = max(d, checkEvery) // too few entries for a new file: check again later
	}
	return d
}

// checkEvery is how often a writer checks whether its files were removed or renamed.
const checkEvery = time.Second

// fullAt is the number of entries at which a new file begins if the options set a bound. A file can hold a
// few more.
const fullAt = 1<<32 - 1<<16

const (
	// minFileEntries is the minimum number of new entries in a file. Without it, a very small bound would
	// begin a new file all the time.
	minFileEntries = 16
	rotateAgain    = time.Minute // the pause after a failure to begin a new file

	// headShare limits the open spans at the beginning of a file to a quarter of the bounds of a file. If
	// files have no bound, the limit is a quarter of headSize bytes.
	headShare = 4
	headSize  = 256 << 20
)

// isDue reports whether the file has reached a bound, so that a new file must begin.
func (r *rotation) isDue(o *Options, p *placer.Placer, now time.Time) bool {
	return r.on(o) && p.Entries() >= r.first+minFileEntries &&
		(r.tooBig(o, p) || o.MaxFileAge > 0 && now.Sub(r.began) >= o.MaxFileAge)
}

// entries returns the number of entries that are lost if the file disappears, for the checkpoint.
func (t *output) entries() uint64 {
	if t.leaving {
		return 0
	}
	return t.placer.Entries()
}

// A successor is a file that will replace the growing file. It has a temporary name.
type successor struct {
	output

	keeps bool // keep the written entries in kept, for a Tee
	kept  []keptEntries
}

type keptEntries struct {
	b      []byte
	staged []placer.Staged
}

// successor returns a file that begins with the open spans of t, and will get the given name. t does not change. The
// spans that wait for their parents remain in the placer of t until the next placer adopts them.
func (t *output) successor(o *Options, name string, keeps bool) (*successor, error) {
	tmp, err := osfile.CreateTempAppend(name)
	if err != nil {
		return nil, err
	}
	file := newFileSink(tmp, name)
	n := &successor{output: output{sink: file, file: file, placer: t.placer.Next()}, keeps: keeps}
	err = osfile.Ignore(osfile.Lock(tmp, true), osfile.ErrNoLocks)
	if err == nil {
		err = n.begin(t, o)
	}
	if err != nil {
		return nil, n.discard(err)
	}
	return n, nil
}

// discard removes n, which cannot be used because of err.
func (n *successor) discard(err error) error {
	n.placer.DropLeft()
	f := n.file.f
	return errors.Join(err, osfile.Remove(f, f.Name()), osfile.Ignore(f.Close(), os.ErrClosed))
}

// flush writes the staged entries if they have more than size bytes.
func (n *successor) flush(size int) error {
	b, staged := n.placer.Out()
	if len(b) <= size {
		return nil
	}
	kept, err := n.sink.write(b, staged)
	if n.keeps {
		n.kept = append(n.kept, keptEntries{slices.Clone(b), slices.Clone(staged)})
	}
	n.placer.Flushed(kept)
	return err
}

// begin writes the beginning of n: the root and the open spans of t with their resources. If not all open spans
// fit, it writes the youngest.
func (n *successor) begin(t *output, o *Options) error {
	n.output.begin(o.Version)
	spans := t.placer.OpenSpans()
	goesOn := carried(o, spans)
	// There may be hundreds of thousands of spans, and calls wait during this loop: reuse the memory.
	var e format.TraceEntry
	var b Batch
	in := spanReader{f: t.file.w}
	for i := range spans {
		s := &spans[i]
		raw, err := in.read(spans[i:])
		if err == nil {
			err = readBack(raw, o.Version, &e)
		}
		if err != nil {
			n.placer.Forget()
			continue
		}
		if !goesOn[i] {
			n.placer.Leave(b.continuedSpan(s, &format.TraceEntry{Metadata: e.Metadata, Attributes: slices.DeleteFunc(e.Attributes, isDetail)}))
			continue
		}
		n.placer.Continue(b.continuedSpan(s, &e))
		if err := n.flush(flushSize); err != nil {
			return err
		}
	}
	return n.flush(0)
}

// isDetail reports whether an attribute of an open span can be left out when the next file does not begin
// with the span but gets it later.
func isDetail(a format.Attribute) bool {
	return a.Name != format.AttrSpanID && a.Name != format.AttrTime && a.Name != mapping.AttrKind
}

// carried returns for each span whether the next file begins with it. It selects the youngest spans that
// fit into the share for open spans.
func carried(o *Options, spans []placer.OpenSpan) []bool {
	const added = 128 // estimate of the bytes that are added to each span
	size, most := int64(headSize), uint64(fullAt)
	if o.MaxFileSize > 0 {
		size = o.MaxFileSize
	}
	if o.MaxFileEntries > 0 {
		most = uint64(max(o.MaxFileEntries, minFileEntries))
	}
	size, most = size/headShare, most/headShare
	goesOn := make([]bool, len(spans))
	for i := len(spans) - 1; i >= 0 && most > 0; i-- {
		if n := int64(spans[i].Size) + added; n <= size {
			goesOn[i] = true
			size, most = size-n, most-1
		}
	}
	return goesOn
}

// continuedSpan returns a record of the open span s, with the mark that the span began in an earlier file.
// e is the entry of s. The record is valid until b is used again.
func (b *Batch) continuedSpan(s *placer.OpenSpan, e *format.TraceEntry) *journal.Entry {
	flags := uint8(record.FlagRef | record.FlagOpen)
	var parent record.Ref
	if s.Parent != [8]byte{} {
		flags |= record.FlagParent
		copy(parent[:], s.Ref.TraceID())
		copy(parent[16:], s.Parent[:])
	}
	b.b.Reset(flags, &s.Ref, &parent)
	b.Begin(e.Message, &e.Metadata)
	for i := range e.Attributes {
		switch a := &e.Attributes[i]; a.Name {
		case format.AttrTraceID, format.AttrParentSpanID, mapping.AttrContinued:
		default:
			b.Attr(a.Name, a.Value)
		}
	}
	b.Attr(mapping.AttrContinued, format.BoolValue(true))
	b.End()
	return &journal.Entry{
		Time: entryTime(e), Info: record.Info(record.KindSpan, uint8(record.ProviderSpans), flags, s.Resource, 1),
		Data: b.b.Data(),
	}
}

// A spanReader reads the encoded entries of spans. One read covers entries that are near to each other.
type spanReader struct {
	f  io.ReaderAt
	b  []byte
	at int64 // offset of b in the file
}

// readAhead is the maximum number of bytes of one such read, unless a single entry is larger.
const readAhead = 64 << 10

// read returns the encoded entry of spans[0]. The slice is valid until the next call.
func (a *spanReader) read(spans []placer.OpenSpan) ([]byte, error) {
	from, end := spans[0].Offset, spans[0].Offset+int64(spans[0].Size)
	if from < a.at || end > a.at+int64(len(a.b)) {
		for _, s := range spans[1:] {
			if s.Offset+int64(s.Size) > from+readAhead {
				break
			}
			end = s.Offset + int64(s.Size)
		}
		n := int(end - from)
		a.b, a.at = slices.Grow(a.b[:0], n)[:n], from
		if _, err := a.f.ReadAt(a.b, from); err != nil {
			a.b = a.b[:0]
			return nil, err
		}
	}
	return a.b[from-a.at:][:spans[0].Size], nil
}

// readBack decodes b, the encoded entry of a span, into e. Bytes after the entry are an error.
func readBack(b []byte, v format.Version, e *format.TraceEntry) error {
	n, err := format.DecodeTraceEntry(b, v, e)
	if err == nil && n != len(b) {
		err = format.ErrTruncated
	}
	return err
}
