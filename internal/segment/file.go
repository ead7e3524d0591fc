package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/mapfile"
	"github.com/entrace-go/entrace/internal/osfile"
)

// ErrFull is returned when there is no segment left.
var ErrFull = errors.New("no segment is free")

// growBy is how many segments a file grows by at once.
const growBy = 64

// A File is a pool of segments, in a file that is mapped or on the heap. It is
// safe for concurrent use, but for Checkpoint.
type File struct {
	f    *os.File // nil: on the heap
	name string
	most int // segments

	mu sync.Mutex

	regions []*mapfile.Region // the header, then the segments
	count   int               // segments
	free    []*Segment        // those used last are taken first: they are in the cache

	sequence uint64 // of the last checkpoint
}

// New returns a pool on the heap of at most so many segments.
func New(most int) *File { return &File{most: most} }

// Create makes the file name, which must not exist, locks it and maps it. It has
// a few segments from the start, all of them allocated on disk, and at most as many as most says.
func Create(name string, most int) (*File, error) {
	f, err := createLocked(name)
	if err != nil {
		return nil, err
	}
	p := &File{f: f, name: name, most: most}
	if err := p.begin(); err != nil {
		p.unmap()
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), osfile.Remove(f, name), closed(f))
	}
	return p, nil
}

func closed(f *os.File) error {
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// createLocked makes a file and locks it. Who looks for files of the dead may be
// faster with the lock, and remove it: then it is made again.
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
			return nil, errors.Join(err, osfile.Remove(f, name), closed(f))
		}
		_ = f.Close() // it was removed
		if try == tries {
			return nil, osfile.ErrLocked
		}
	}
}

func (p *File) begin() error {
	if err := osfile.Allocate(p.f, 0, headerSize); err != nil {
		return err
	}
	r, err := mapfile.Map(p.f, 0, headerSize)
	if err != nil {
		return err
	}
	p.regions = append(p.regions, r)
	b := r.Bytes()
	if err := mapfile.Guard(b, func() {
		binary.LittleEndian.PutUint32(b[8:], version)
		binary.LittleEndian.PutUint32(b[12:], Size)
		copy(b, magic[:])
	}); err != nil {
		return err
	}
	return p.grow()
}

// grow adds segments. The lock is held, or p is nobody else's yet.
func (p *File) grow() error {
	n := min(growBy, p.most-p.count)
	if n <= 0 {
		return ErrFull
	}
	var mem []byte
	if p.f == nil {
		mem = make([]byte, n*Size)
	} else {
		off := headerSize + int64(p.count)*Size
		if err := osfile.Allocate(p.f, off, int64(n)*Size); err != nil {
			return err
		}
		r, err := mapfile.Map(p.f, off, n*Size)
		if err != nil {
			return err
		}
		p.regions = append(p.regions, r)
		mem = r.Bytes()
	}
	p.count += n
	for i := n - 1; i >= 0; i-- {
		p.free = append(p.free, &Segment{mem: mem[i*Size : (i+1)*Size : (i+1)*Size], mapped: p.f != nil})
	}
	return nil
}

// Take returns an empty segment for a stream, whose number has 32 bits, or ErrFull.
// Where grow says so, it makes more when none is free.
func (p *File) Take(stream, base uint64, grow bool) (*Segment, error) {
	p.mu.Lock()
	if len(p.free) == 0 {
		err := ErrFull
		if grow || p.count == 0 {
			err = p.grow()
		}
		if err != nil {
			p.mu.Unlock()
			return nil, err
		}
	}
	s := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.mu.Unlock()
	return s, s.start(uint32(stream), base)
}

// Release gives a segment back. No checkpoint may need it any more.
func (p *File) Release(s *Segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, s)
}

// Checkpoint puts data in force, in one step, in the place of what was before.
func (p *File) Checkpoint(data []byte) error {
	if p.f == nil {
		return nil
	}
	p.sequence++
	b := p.regions[0].Bytes()
	at := slotAt + int(p.sequence%numSlots)*slotSize
	n := 16 + (len(data)+7)&^7
	return mapfile.Guard(b, func() {
		store(b, at, 0)
		binary.LittleEndian.PutUint64(b[at+8:], p.sequence)
		clear(b[at+16+len(data) : at+n])
		copy(b[at+16:], data)
		store(b, at, commitWord(Sum(b[at+8:at+n]), uint64(at), n))
	})
}

// Name returns the name of the file, "" on the heap.
func (p *File) Name() string { return p.name }

// Sync makes what is in the file survive a loss of power.
func (p *File) Sync() error {
	if p.f == nil {
		return nil
	}
	return p.f.Sync()
}

func (p *File) unmap() {
	for _, r := range p.regions {
		_ = r.Unmap() // there is nothing to be done about it
	}
	p.regions, p.free = nil, nil
}

// Close unmaps and closes the file. Its segments must not be used any more.
func (p *File) Close() error {
	if p.f == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unmap()
	return closed(p.f)
}

// Remove is Close, and removes the file.
func (p *File) Remove() error {
	if p.f == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unmap()
	var err error
	if osfile.SameFile(p.f, p.name) {
		err = osfile.Remove(p.f, p.name)
	}
	return errors.Join(err, closed(p.f))
}
