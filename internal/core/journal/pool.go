package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// A Medium is the kind of memory or file that holds the segments of a journal.
type Medium uint8

// The media. The package documentation describes them.
const (
	Heap Medium = iota
	Mapped
	Written
)

// String returns the name of the medium.
func (m Medium) String() string {
	switch m {
	case Heap:
		return "memory"
	case Mapped:
		return "mapped"
	}
	return "written"
}

// growBy is the number of segments that a pool adds at once. They are enough for the records of a recorder and some
// of its definitions.
const growBy = 68

// A pool manages the segments of a journal, which are reused.
type pool struct {
	medium Medium
	f      *os.File // nil for Heap
	name   string
	head   *mapfile.Region // Mapped: the header

	mu sync.Mutex

	regions  []*mapfile.Region // Mapped: the segments
	count    int               // number of segments
	most     int               // the largest allowed value of count
	free     []*Segment        // a stack: the segment that was freed last is used first, because it is in the CPU cache
	sequence uint64            // sequence number of the last checkpoint
}

// newPool makes the file of a journal, locks it and writes its header.
func newPool(o *Options) (*pool, error) {
	p := &pool{medium: o.Medium, name: o.Name, most: o.Segments + o.Extra}
	if p.medium == Heap {
		return p, p.grow(growBy)
	}
	first := growBy
	if o.Evict != nil {
		first = p.most // such a journal soon needs all its segments
	}
	f, err := createLocked(p.name)
	if err != nil {
		return nil, err
	}
	p.f = f
	if err := p.begin(o.Beside, first); err != nil {
		p.unmap()
		return nil, errors.Join(fmt.Errorf("%s: %w", p.name, err), osfile.Remove(f, p.name), closeFile(f))
	}
	return p, nil
}

// createLocked makes a file and locks it. Another process that cleans up after dead processes may lock and remove
// the file in between. createLocked then makes it again.
func createLocked(name string) (*os.File, error) {
	const tries = 100
	for try := 1; ; try++ {
		f, err := osfile.CreateNew(name)
		if err != nil {
			return nil, err
		}
		err = osfile.Lock(f, true)
		for n := 0; errors.Is(err, osfile.ErrLocked) && n < tries; n++ {
			time.Sleep(time.Millisecond)
			err = osfile.Lock(f, true)
		}
		if err == nil && osfile.SameFile(f, name) {
			return f, nil
		}
		if err != nil {
			return nil, errors.Join(err, osfile.Remove(f, name), closeFile(f))
		}
		_ = f.Close() // another process removed it
		if try == tries {
			return nil, osfile.ErrLocked
		}
	}
}

// begin writes the header and makes the first n segments.
func (p *pool) begin(beside string, n int) error {
	if err := osfile.Allocate(p.f, 0, headerSize); err != nil {
		return err
	}
	if p.medium == Mapped {
		r, err := mapfile.Map(p.f, 0, headerSize)
		if err != nil {
			return err
		}
		p.head = r
	}
	var head [16]byte
	copy(head[:], magic[:])
	binary.LittleEndian.PutUint32(head[8:], Version)
	binary.LittleEndian.PutUint32(head[12:], SegmentSize)
	if err := errors.Join(p.write(head[:], 0), p.write(encodeBeside(beside), besideAt)); err != nil {
		return err
	}
	if beside != "" {
		if err := p.noteLost(unneeded); err != nil { // until a file names it
			return err
		}
		if d := osfile.Device(filepath.Dir(beside)); len(d) < maxDevice {
			if err := p.write([]byte(d), deviceAt); err != nil {
				return err
			}
		}
	}
	return p.grow(n)
}

// noteLost is like the function noteLost, for the journal of p.
func (p *pool) noteLost(at int64) error { return p.write(appendLost(at), lostAt) }

// write writes b to the header, at the offset at.
func (p *pool) write(b []byte, at int) error {
	switch p.medium {
	case Mapped:
		m := p.head.Bytes()
		if m == nil {
			return mapfile.ErrClosed
		}
		return mapfile.Guard(m, func() { copy(m[at:], b) })
	case Written:
		_, err := p.f.WriteAt(b, int64(at))
		return err
	}
	return nil
}

// grow adds n segments, or fewer if p would exceed its maximum. It allocates their space in the file, so that a
// later store cannot fail for lack of space. The caller holds p.mu, or no other goroutine knows p yet.
func (p *pool) grow(n int) error {
	n = min(n, p.most-p.count)
	if n <= 0 {
		return ErrFull
	}
	off := headerSize + int64(p.count)*SegmentSize
	if p.count > 0 && !p.hasRoom(n) {
		return ErrFull
	}
	if p.f != nil {
		if err := osfile.Allocate(p.f, off, int64(n)*SegmentSize); err != nil {
			return p.noRoom(err)
		}
	}
	var mem []byte
	if p.medium == Mapped {
		r, err := mapfile.Map(p.f, off, n*SegmentSize)
		if err != nil {
			return p.noRoom(err)
		}
		p.regions = append(p.regions, r)
		mem = r.Bytes()
	} else {
		mem = make([]byte, n*SegmentSize)
	}
	p.count += n
	for i := n - 1; i >= 0; i-- {
		p.free = append(p.free, &Segment{
			mem: mem[i*SegmentSize : (i+1)*SegmentSize : (i+1)*SegmentSize], pool: p, off: off + int64(i)*SegmentSize,
		})
	}
	return nil
}

// hasRoom reports whether the rest of the system still has enough memory after p has grown by n segments.
func (p *pool) hasRoom(n int) bool {
	if limit := memoryLimit(); limit > 0 && int64(p.count+n)*SegmentSize > limit/8 {
		return false
	}
	return p.medium != Mapped || osfile.FreeBytes(filepath.Dir(p.name))/2 >= int64(n)*SegmentSize
}

// noRoom returns the error for a pool that could not grow because of err. If the pool has segments, they remain
// usable, and the error is ErrFull.
func (p *pool) noRoom(err error) error {
	if p.count == 0 {
		return err
	}
	return fmt.Errorf("%w: %w", ErrFull, err)
}

// take returns an empty segment. The error is ErrFull, or an error of allocating space, or a page fault in the
// mapping. After such a fault, the segment is not used again.
func (p *pool) take(stream uint32, base uint64) (*Segment, error) {
	p.mu.Lock()
	if len(p.free) == 0 {
		if err := p.grow(growBy); err != nil {
			p.mu.Unlock()
			return nil, err
		}
	}
	s := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.mu.Unlock()
	if err := s.begin(stream, base); err != nil {
		return nil, err
	}
	return s, nil
}

// release frees a segment for reuse. No checkpoint may need it any longer.
func (p *pool) release(s *Segment) {
	s.shared = [4]sharedAt{} // so that the Shared can be collected
	p.mu.Lock()
	p.free = append(p.free, s)
	p.mu.Unlock()
}

// checkpoint atomically makes data the newest checkpoint.
func (p *pool) checkpoint(data []byte) error {
	if p.f == nil {
		return nil
	}
	p.sequence++
	at := slotAt + int(p.sequence%numSlots)*slotSize
	return p.write(encodeCheckpoint(p.sequence, data, at), at)
}

// encodeCheckpoint returns a checkpoint, encoded for the slot at the offset at in the header.
func encodeCheckpoint(sequence uint64, data []byte, at int) []byte {
	b := append(binary.LittleEndian.AppendUint64(make([]byte, 8), sequence), data...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	binary.LittleEndian.PutUint64(b, commitWord(checksum(b[8:]), uint64(at), len(b)))
	return b
}

func (p *pool) unmap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.head != nil {
		_ = p.head.Unmap() // an error cannot be handled
	}
	for _, r := range p.regions {
		_ = r.Unmap() // as above
	}
	p.regions, p.free = nil, nil
}

// MediumOf returns the medium for a file in a folder.
func MediumOf(dir string) Medium {
	if osfile.OnTmpfs(dir) {
		return Mapped
	}
	return Written
}
