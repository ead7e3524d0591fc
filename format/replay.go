package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/segment"
)

// A deadBuffer is what a crash buffer holds whose writer died.
type deadBuffer struct {
	f       *os.File
	name    string
	change  bool // f is open for writing
	dead    *segment.Dead
	size    int64 // of the IET that the checkpoint is about, -1 without one
	version Version
	home    uint32
	moved   bool // another IET has taken the place of the one that the ledger is about
	tail    [tailSize]byte
	parked  []replayed
	streams [][]replayed // what is not in that part of the IET; the spans last
	parts   []*Resource  // by number, without an owner
	latest  uint32
	records int
	entries int
	// unreadable says that the buffer holds data and no valid checkpoint, so that
	// nothing tells which of it is already in the IET.
	unreadable bool
}

// A replayed record is one that is to be written again.
type replayed struct {
	position uint64
	key      int64
	data     []byte
}

// openBuffer reads the crash buffer of stream, nil if there is none. It is
// [ErrLocked] while its writer lives.
func openBuffer(stream string, change bool) (*deadBuffer, error) {
	name := stream + extBuffer
	open := osfile.OpenRead
	if change {
		open = osfile.OpenWrite
	}
	f, err := open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := readBuffer(f, name, change)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("crash buffer %s: %w", name, err), closedErr(f.Close()))
	}
	return b, nil
}

func readBuffer(f *os.File, name string, change bool) (*deadBuffer, error) {
	if err := lock(f, change); err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := &deadBuffer{f: f, name: name, change: change, size: -1}
	var from, to uint64
	var positions []uint64
	b.dead, err = segment.Read(f, fi.Size(), func(data []byte) func(uint64) uint64 {
		if len(data) >= checkpointHead {
			b.size = int64(binary.LittleEndian.Uint64(data))
			copy(b.tail[:], data[8:])
			rest := data[8+tailSize:]
			b.version, b.moved, b.home, rest = Version(rest[0]), rest[1] != 0, binary.LittleEndian.Uint32(rest[2:]), rest[8:]
			from, to = leUint64(rest), leUint64(rest[8:])
			for n := min(leUint64(rest[16:]), uint64(len(rest)-24)/8, maxStripes+1); uint64(len(positions)) < n; {
				positions = append(positions, leUint64(rest[24+8*len(positions):]))
			}
		}
		return func(stream uint64) uint64 {
			switch {
			case stream < uint64(len(positions)):
				return positions[stream]
			case stream == ledgerStream:
				return from
			}
			return math.MaxUint64
		}
	})
	if errors.Is(err, segment.ErrNotBuffer) {
		b.dead, err = new(segment.Dead), nil // it was not whole yet, so nothing is in it
	}
	if err != nil {
		return nil, err
	}
	if len(b.dead.Checkpoint) == 0 {
		empty, err := segment.Empty(f, fi.Size())
		if err != nil {
			return nil, err
		}
		b.unreadable = !empty
	}
	if err := b.readLedger(from, to); err != nil {
		return nil, err
	}
	for i, position := range positions {
		var list []replayed
		key := int64(math.MinInt64)
		err := b.dead.Records(uint64(i), position, func(position uint64, data []byte) error {
			var o record
			if !o.parse(data) || o.kind < opLog || o.kind > opEither {
				return nil // of a later version
			}
			key = max(key, o.key)
			list = append(list, replayed{position, key, data})
			b.count(&o)
			return nil
		})
		if err != nil {
			return nil, err
		}
		b.streams = append(b.streams, list)
	}
	return b, nil
}

func (b *deadBuffer) count(o *record) {
	b.records++
	b.entries += countBodies(o.bodies)
	if o.kind == opEither {
		b.entries--
	}
}

// readLedger finds what waited and what the resources are.
func (b *deadBuffer) readLedger(from, to uint64) error {
	parked := make(map[uint64]bool)
	var order []replayed
	err := b.dead.Records(ledgerStream, from, func(position uint64, data []byte) error {
		var o record
		if !o.parse(data) || position >= to && o.kind != opResource { // that is true at any time
			return nil
		}
		switch o.kind {
		case opPark:
			parked[position] = true
			order = append(order, replayed{position: position, data: o.bodies})
		case opUnpark:
			delete(parked, uint64(o.key))
		case opResource:
			if o.resource == 0 || o.resource > 1<<20 {
				return nil
			}
			for uint32(len(b.parts)) < o.resource {
				b.parts = append(b.parts, new(Resource))
			}
			res := b.parts[o.resource-1]
			res.id = uint32(o.key)
			if body, head, _, ok := nextBody(o.bodies); ok {
				res.body, res.head = body, head
			}
			b.latest = o.resource
		}
		return nil
	})
	for _, p := range order {
		var o record
		if parked[p.position] && o.parse(p.data) {
			b.parked = append(b.parked, p)
			b.count(&o)
		}
	}
	return err
}

// close gives the buffer back as it is.
func (b *deadBuffer) close() error {
	if b == nil {
		return nil
	}
	return closedErr(b.f.Close())
}

// remove removes the buffer, whose records are all in the IET by now. It renames a
// buffer that cannot be read.
func (b *deadBuffer) remove() error {
	err := error(nil)
	switch {
	case !osfile.SameFile(b.f, b.name):
	case b.unreadable:
		for i := 1; ; i++ {
			to := fmt.Sprintf("%s.%d.broken", b.name, i)
			if err = osfile.RenameOpen(b.f, b.name, to); !errors.Is(err, fs.ErrExist) {
				break
			}
		}
		err = errors.Join(err, osfile.SyncDir(b.name))
	default:
		err = errors.Join(osfile.Remove(b.f, b.name), osfile.SyncDir(b.name))
	}
	return errors.Join(err, b.close())
}

// fits reports whether the IET f is the one that the checkpoint is about.
func (b *deadBuffer) fits(f io.ReaderAt, size int64) bool {
	if b.size < MagicSize || b.size > size {
		return false
	}
	have, err := tailOf(f, b.size)
	n := min(b.size, tailSize)
	return err == nil && bytes.Equal(have.b[tailSize-n:], b.tail[tailSize-n:])
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

// move makes the first size bytes of f, of which nothing is in the buffer, what the
// checkpoint is about: who finds both again, after this replay was killed, cuts f
// to that.
func (b *deadBuffer) move(f *os.File, size int64) error {
	if !b.change || b.records == 0 {
		return nil // f is a copy
	}
	t, err := tailOf(f, size)
	if err != nil {
		return err
	}
	data := slices.Clone(b.dead.Checkpoint)
	binary.LittleEndian.PutUint64(data, uint64(size))
	copy(data[8:], t.b[:])
	data[8+tailSize+1] = 1
	// The file has to be on disk before what says so.
	return errors.Join(f.Sync(), b.dead.Replace(b.f, data), b.f.Sync())
}

// replay writes what the buffer holds behind the whole entries of f, which is
// open for writing, locked, and an IET. When it succeeds everything is in f and on
// disk. When it does not, or is killed, it can be done again. An IET that is
// corrupt is an error, but for lenient: then what is behind the damage is lost.
func (b *deadBuffer) replay(f *os.File, lenient bool) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	size := fi.Size()
	same := b.fits(f, size)
	if same {
		size = b.size // what is behind it is in the buffer, too
	}
	s, err := b.survey(f, size)
	if err != nil && (!lenient || !isCorrupt(err)) {
		return err
	}
	if b.records == 0 && s.size == fi.Size() {
		return nil
	}
	if s.entries == 0 {
		s.version = b.version
	} else if b.records > 0 && s.version != b.version {
		return &VersionError{Version: s.version} // it is another file
	}
	if s.entries == 0 {
		s.size = 0 // the magic comes with the root
	}
	if err := f.Truncate(s.size); err != nil {
		return err
	}
	if _, err := f.Seek(s.size, io.SeekStart); err != nil {
		return err
	}
	r := newRecorder(f, &RecorderOptions{
		Version: s.version, Durability: DurabilityWriteThrough,
		MaxWaitingSpans: math.MaxInt, MaxWaitingBytes: math.MaxInt, MaxWaitingAge: math.MaxInt64,
	})
	r.stream = f.Name()
	r.size, r.next = s.size, uint64(s.entries)
	if s.entries == 0 {
		if err := r.begin(); err != nil {
			return err
		}
	}
	if !same {
		if err := b.move(f, r.size); err != nil {
			return err
		}
	}
	for ref, id := range s.spans {
		r.spans.put(ref, spanSlot{id: id, ended: true})
	}
	for i, res := range b.parts {
		res.owner, res.index = r, uint32(i+1)
		if res.body != nil {
			res.id = s.resources[string(res.body)]
		} else if !same || b.moved || int64(res.id) >= int64(s.entries) {
			res.id = 0
		}
		r.all = append(r.all, res)
	}
	r.latest = r.resource(b.latest)
	if same && !b.moved && int64(b.home) < int64(s.entries) {
		r.home = b.home
	}
	if err := b.write(r); err != nil {
		return err
	}
	for r.waiting.oldest != nil {
		r.writeFirst()
	}
	if err := r.flush(); err != nil {
		return err
	}
	return f.Sync()
}

// write applies the records in their order.
func (b *deadBuffer) write(r *Recorder) error {
	var o record
	apply := func(p *replayed) error {
		if !o.parse(p.data) {
			return nil
		}
		if o.kind == opEnd && r.spans.get(&o.ref) == nil {
			r.applyEnd(&o)
		} else {
			_ = r.apply(&o, p.data) // what could not be recorded cannot be now
		}
		if len(r.out) < flushSize {
			return nil
		}
		return r.flush()
	}
	for i := range b.parked {
		if o.parse(b.parked[i].data) && o.flags&flagRef != 0 && r.spans.get(&o.ref) != nil {
			continue // it is in the file: what says that it does not wait any more is lost
		}
		if err := apply(&b.parked[i]); err != nil {
			return err
		}
	}
	streams := slices.Clone(b.streams)
	spans := len(streams) - 1
	for {
		next := -1
		for i, s := range streams {
			if len(s) > 0 && (next < 0 || s[0].key < streams[next][0].key) {
				next = i
			}
		}
		if next < 0 {
			return nil
		}
		if next != spans && len(streams[spans]) > 0 && o.parse(streams[next][0].data) && o.flags&flagRef != 0 {
			if r.spans.get(&o.ref) == nil {
				next = spans
			}
		}
		if err := apply(&streams[next][0]); err != nil {
			return err
		}
		streams[next] = streams[next][1:]
	}
}

// applyEnd writes what is told at the end of a span that is in a file which is
// gone: below the latest resource, with the ids of the span.
func (r *Recorder) applyEnd(o *record) {
	for bodies := o.bodies; ; {
		body, head, rest, ok := nextBody(bodies)
		if !ok {
			return
		}
		marks := []mark{{AttrSpanID, o.ref.SpanID[:]}, {AttrTraceID, o.ref.TraceID[:]}}
		var e TraceEntry
		if _, err := DecodeTraceEntry(append([]byte{0}, body...), r.version, &e); err == nil {
			marks = slices.DeleteFunc(marks, func(m mark) bool {
				_, has := e.Attribute(m.name)
				return has
			})
		}
		_, _ = r.stage(body, head, r.place(r.latest), marks) // what could not be recorded cannot be now
		bodies = rest
	}
}

// A survey is what a buffer has to know of its IET.
type survey struct {
	version   Version
	entries   int
	size      int64 // of the whole entries, with the magic
	spans     map[SpanRef]uint32
	resources map[string]uint32
}

// survey reads through the first size bytes of f for the entries that the records
// refer to.
func (b *deadBuffer) survey(f io.ReaderAt, size int64) (*survey, error) {
	s := &survey{version: DefaultVersion, spans: make(map[SpanRef]uint32), resources: make(map[string]uint32)}
	wanted := b.wanted()
	bodies := make(map[string]bool)
	for _, res := range b.parts {
		bodies[string(res.body)] = true
	}
	r, err := NewReader(io.NewSectionReader(f, 0, size), nil)
	if errors.Is(err, ErrTruncated) {
		return s, nil // not even the magic
	}
	if err != nil {
		return nil, err
	}
	if r.Format() != IET {
		return nil, &StorageFormatError{Format: r.Format()}
	}
	s.version, s.size = r.Version(), MagicSize
	var traces [][16]byte
	var trace []uint32 // of each entry: its place in traces, from 1 on
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, ErrTruncated) {
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
		if v, ok := e.Attribute(AttrTraceID); ok {
			if t, ok := parseHex(v.Text(), 16); ok {
				traces = append(traces, [16]byte(t))
				of = uint32(len(traces))
			}
		}
		trace = append(trace, of)
		if of > 0 && !e.Message.Valid {
			v, _ := e.Attribute(AttrSpanID)
			_, timed := e.Attribute(AttrTime)
			if span, ok := parseHex(v.Text(), 8); ok && timed {
				if ref := (SpanRef{traces[of-1], [8]byte(span)}); wanted[ref] {
					s.spans[ref] = id
				}
			}
		}
		if e.Parent == 0 && id > 0 && e.Metadata.Name == NameResource {
			if body := r.Raw()[1:]; bodies[string(body)] {
				s.resources[string(body)] = id
			}
		}
		s.entries++
		s.size = r.Offset()
	}
}

// wanted returns the spans that the records refer to.
func (b *deadBuffer) wanted() map[SpanRef]bool {
	wanted := make(map[SpanRef]bool)
	var o record
	for _, list := range append(slices.Clone(b.streams), b.parked) {
		for i := range list {
			if o.parse(list[i].data) {
				wanted[o.ref], wanted[o.parent] = true, true
			}
		}
	}
	delete(wanted, SpanRef{})
	return wanted
}

// parseHex is the other direction of AppendHex, for n bytes.
func parseHex(s string, n int) ([]byte, bool) {
	if len(s) != 2*n {
		return nil, false
	}
	b := make([]byte, n)
	for i := range b {
		for _, c := range []byte(s[2*i : 2*i+2]) {
			d := bytes.IndexByte([]byte(hexDigits), c)
			if d < 0 {
				return nil, false
			}
			b[i] = b[i]<<4 | byte(d)
		}
	}
	return b, true
}

// bringBack gives the IET of a dead writer its name back that it had rotated out
// when it died before the next one had the name: what is in the crash buffer
// belongs to it.
func bringBack(stream string) error {
	if exists(stream) || !exists(stream+extBuffer) {
		return nil
	}
	b, err := openBuffer(stream, true)
	if err != nil || b == nil {
		return distinct(err, ErrLocked) // its writer is at it
	}
	defer b.f.Close()
	names, err := asides(stream)
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		if strings.HasSuffix(name, extIET) && b.isOf(name) {
			return distinct(osfile.RenameNew(name, stream), fs.ErrExist)
		}
	}
	return nil
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

// replayBuffer brings what a dead writer left in its crash buffer into its IET f,
// which is locked.
func replayBuffer(f *os.File, stream string) (entries int, err error) {
	b, err := openBuffer(stream, true)
	if err != nil || b == nil {
		return 0, err
	}
	if err := b.replay(f, false); err != nil {
		return 0, errors.Join(fmt.Errorf("crash buffer %s: %w", b.name, err), b.close())
	}
	return b.entries, b.remove()
}
