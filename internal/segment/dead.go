package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrNotBuffer is returned for a file that is no file of segments.
var ErrNotBuffer = errors.New("no file of segments")

// Dead is what a file of segments holds whose process is gone.
type Dead struct {
	// Checkpoint is the data of the last one, nil if there was none.
	Checkpoint []byte
	// Damaged counts segments that began and cannot be read, but for what is
	// committed in them. Only a loss of power leaves any.
	Damaged int
	// Torn counts segments of which a part is left out: behind the last record
	// that can be read lies something that is none.
	Torn int

	sequence uint64 // of the checkpoint
	parts    []part
}

type part struct {
	stream, base uint64
	mem          []byte
	ends         []int // offsets behind the records; they begin at First
}

// Read reads a file of segments. It holds the records of all streams from the
// positions on that from, which gets the checkpoint, returns, so that segments
// that are done with cost nothing.
func Read(r io.ReaderAt, size int64, from func(checkpoint []byte) func(stream uint64) uint64) (*Dead, error) {
	var head [headerSize]byte
	if size < headerSize {
		return nil, ErrNotBuffer // it died before it was whole
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if [8]byte(head[:8]) != magic {
		return nil, ErrNotBuffer
	}
	v, n := binary.LittleEndian.Uint32(head[8:]), binary.LittleEndian.Uint32(head[12:])
	if v != version || n != Size {
		return nil, fmt.Errorf("file of segments of version %d with %d bytes each", v, n)
	}
	d := new(Dead)
	d.sequence, d.Checkpoint = checkpoint(head[:])
	begin := from(d.Checkpoint)
	buf := make([]byte, Size)
	for off := int64(headerSize); off < size; off += Size {
		m, err := r.ReadAt(buf[:min(Size, size-off)], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		clear(buf[m:])
		p, torn, ok := parse(buf)
		if torn {
			d.Torn++
		}
		if !ok {
			if binary.LittleEndian.Uint64(buf) != 0 {
				d.Damaged++
			}
			continue
		}
		if len(p.ends) == 0 || p.base+uint64(p.ends[len(p.ends)-1]) <= begin(p.stream) {
			continue
		}
		p.mem = slices.Clone(buf[:p.ends[len(p.ends)-1]])
		d.parts = append(d.parts, p)
	}
	slices.SortFunc(d.parts, func(a, b part) int {
		switch {
		case a.base < b.base:
			return -1
		case a.base > b.base:
			return 1
		}
		return 0
	})
	return d, nil
}

// Empty reports whether a file of segments never held a record, which means that it is
// zero behind its head.
func Empty(r io.ReaderAt, size int64) (bool, error) {
	buf, zeros := make([]byte, Size), make([]byte, Size)
	for off := int64(headerSize); off < size; off += Size {
		m, err := r.ReadAt(buf[:min(Size, size-off)], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if !bytes.Equal(buf[:m], zeros[:m]) {
			return false, nil
		}
	}
	return true, nil
}

// checkpoint returns the checkpoint in force.
func checkpoint(head []byte) (newest uint64, data []byte) {
	for i := range numSlots {
		at := slotAt + i*slotSize
		n := int(binary.LittleEndian.Uint32(head[at:]))
		if n < 16 || n > slotSize || n%8 != 0 ||
			binary.LittleEndian.Uint64(head[at:]) != commitWord(Sum(head[at+8:at+n]), uint64(at), n) {
			continue
		}
		if s := binary.LittleEndian.Uint64(head[at+8:]); s > newest {
			newest, data = s, slices.Clone(head[at+16:at+n])
		}
	}
	return newest, data
}

// Replace puts data in force in f, from which d was read, in the place of
// Checkpoint.
func (d *Dead) Replace(f io.WriterAt, data []byte) error {
	if len(data) > MaxCheckpoint {
		return ErrFull
	}
	sequence := d.sequence + 1
	at := slotAt + int64(sequence%numSlots)*slotSize
	b := binary.LittleEndian.AppendUint64(make([]byte, 8, slotSize), sequence)
	b = append(b, data...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	if _, err := f.WriteAt(b, at); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(b, commitWord(Sum(b[8:]), uint64(at), len(b)))
	if _, err := f.WriteAt(b[:8], at); err != nil {
		return err
	}
	d.sequence, d.Checkpoint = sequence, slices.Clone(data)
	return nil
}

// parse finds the records of a segment.
func parse(b []byte) (p part, torn, ok bool) {
	p = part{base: binary.LittleEndian.Uint64(b[8:]), stream: binary.LittleEndian.Uint64(b[16:])}
	if binary.LittleEndian.Uint64(b) != commitWord(Sum(b[8:First]), place(p.stream, p.base), First) {
		return part{}, false, false
	}
	for at := First; at+8 <= Size; {
		w := binary.LittleEndian.Uint64(b[at:])
		n := int(uint32(w))
		if n < 8 || n%8 != 0 || n > Size-at || w != commitWord(Sum(b[at+8:at+n]), place(p.stream, p.base+uint64(at)), n) {
			torn = w != 0
			break
		}
		at += n
		p.ends = append(p.ends, at)
	}
	return p, torn, true
}

// Records calls fn for the records of a stream from position from on, in their
// order. The data is valid for as long as d is.
func (d *Dead) Records(stream, from uint64, fn func(position uint64, data []byte) error) error {
	for i := range d.parts {
		p := &d.parts[i]
		if p.stream != stream {
			continue
		}
		at := First
		for _, end := range p.ends {
			if position := p.base + uint64(at); position >= from {
				if err := fn(position, p.mem[at+8:end:end]); err != nil {
					return err
				}
			}
			at = end
		}
	}
	return nil
}
