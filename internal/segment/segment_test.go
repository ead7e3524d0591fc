package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// framed returns a record with that text, with room for its commit word.
func framed(text string) []byte {
	b := append(make([]byte, 8), text...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

func text(data []byte) string { return strings.TrimRight(string(data), "\x00") }

// put appends a record.
func put(t testing.TB, s *Segment, record string) {
	t.Helper()
	b := framed(record)
	must(t, s.Append(b, Sum(b[8:])))
}

func needMap(t testing.TB) {
	t.Helper()
	if !Supported {
		t.Skip("no maps here")
	}
}

// sample returns the content of a file with streams 1 and 2 of two segments each,
// ten records a segment and three checkpoints.
func sample(t testing.TB) []byte {
	t.Helper()
	needMap(t)
	name := filepath.Join(t.TempDir(), "x")
	p, err := Create(name, 8)
	must(t, err)
	for base := range uint64(2) {
		for stream := uint64(1); stream <= 2; stream++ {
			s, err := p.Take(stream, base*Size, false)
			must(t, err)
			for i := range 10 {
				put(t, s, fmt.Sprintf("%d %d %s", stream, int(base)*10+i, strings.Repeat("x", i)))
			}
		}
	}
	for i := range 3 {
		must(t, p.Checkpoint(fmt.Appendf(nil, "checkpoint %d", i)))
	}
	must(t, p.Close())
	b, err := os.ReadFile(name)
	must(t, err)
	return b[:headerSize+4*Size]
}

// all returns the records of a stream in what Read makes of b.
func all(t testing.TB, b []byte, stream, from uint64) (d *Dead, list []string) {
	t.Helper()
	d, err := Read(bytes.NewReader(b), int64(len(b)), everything)
	if errors.Is(err, ErrNotBuffer) {
		return nil, nil
	}
	must(t, err)
	must(t, d.Records(stream, from, func(_ uint64, data []byte) error {
		list = append(list, text(data))
		return nil
	}))
	return d, list
}

func everything([]byte) func(uint64) uint64 { return func(uint64) uint64 { return 0 } }

func wantRecords(t *testing.T, what string, list []string, stream, n int) {
	t.Helper()
	if len(list) != n {
		t.Errorf("%s: stream %d has %d records, want %d", what, stream, len(list), n)
	}
	last := -1
	for _, s := range list {
		var of, i int
		if _, err := fmt.Sscanf(s, "%d %d", &of, &i); err != nil || of != stream || i <= last || !strings.HasSuffix(s, strings.Repeat("x", i%10)) {
			t.Errorf("%s: stream %d has the record %q after %d", what, stream, s, last)
		}
		last = i
	}
}

func TestReadWhole(t *testing.T) {
	b := sample(t)
	for stream := range 4 {
		d, list := all(t, b, uint64(stream), 0)
		n := 0
		if stream == 1 || stream == 2 {
			n = 20
		}
		wantRecords(t, "whole", list, stream, n)
		if string(bytes.TrimRight(d.Checkpoint, "\x00")) != "checkpoint 2" || d.Damaged != 0 {
			t.Errorf("the checkpoint is %q, %d segments are damaged", d.Checkpoint, d.Damaged)
		}
	}
}

// TestReadFrom begins at every position of a stream.
func TestReadFrom(t *testing.T) {
	b := sample(t)
	d, _ := all(t, b, 1, 0)
	var positions []uint64
	must(t, d.Records(1, 0, func(position uint64, _ []byte) error {
		positions = append(positions, position)
		return nil
	}))
	for i, from := range append(positions, math.MaxUint64) {
		d, err := Read(bytes.NewReader(b), int64(len(b)), func([]byte) func(uint64) uint64 {
			return func(uint64) uint64 { return from }
		})
		must(t, err)
		n := 0
		must(t, d.Records(1, from, func(position uint64, _ []byte) error {
			if position != positions[i+n] {
				t.Errorf("from %d: record %d is at %d, want %d", from, n, position, positions[i+n])
			}
			n++
			return nil
		}))
		if n != len(positions)-i {
			t.Errorf("from %d: %d records, want %d", from, n, len(positions)-i)
		}
	}
}

// TestReadCut cuts the file at every word that is not zero.
func TestReadCut(t *testing.T) {
	b := sample(t)
	last := [3]int{}
	for n := 0; n <= len(b); n += 8 {
		if n < len(b) && n > 4096 && n%Size > 1024 && n%4096 != 0 {
			continue // there is nothing
		}
		for stream := 1; stream <= 2; stream++ {
			d, list := all(t, b[:n], uint64(stream), 0)
			if d == nil && n >= headerSize {
				t.Errorf("%d bytes are no file of segments", n)
			}
			if len(list) < last[stream] {
				t.Errorf("%d bytes: %d records, there were %d", n, len(list), last[stream])
			}
			last[stream] = len(list)
			wantRecords(t, fmt.Sprint(n, " bytes"), list, stream, len(list))
		}
	}
	if last != [3]int{0, 20, 20} {
		t.Errorf("in the end there are %v records", last)
	}
}

// TestReadTorn breaks each byte that is in use, in three ways: what is read was
// written, in order, and only what is behind the damage in its segment is lost.
func TestReadTorn(t *testing.T) {
	whole := sample(t)
	b := bytes.Clone(whole)
	for at := range b {
		if whole[at] == 0 && at%64 != 0 || at >= 8 && at < 16 {
			continue // the version and the size are an error, see TestReadForeign
		}
		for _, x := range []byte{whole[at] ^ 1, whole[at] ^ 0x80, 0, 0xff} {
			if x == whole[at] {
				continue
			}
			b[at] = x
			total := 0
			for stream := 1; stream <= 2; stream++ {
				d, list := all(t, b, uint64(stream), 0)
				if d == nil {
					if at >= 8 {
						t.Errorf("byte %d: no file of segments", at)
					}
					continue
				}
				total += len(list)
				wantRecords(t, fmt.Sprint("byte ", at), list, stream, len(list))
				if s := string(bytes.TrimRight(d.Checkpoint, "\x00")); s != "checkpoint 2" && (s != "checkpoint 1" || at < slotAt || at >= headerSize) {
					t.Errorf("byte %d: the checkpoint is %q", at, s)
				}
			}
			if at >= 16 && total < 30 {
				t.Errorf("byte %d: %d records are left", at, total)
			}
		}
		b[at] = whole[at]
	}
}

// TestReadForeign meets files of another kind.
func TestReadForeign(t *testing.T) {
	b := sample(t)
	for n := range 20 {
		if _, err := Read(bytes.NewReader(b[:n]), int64(n), everything); !errors.Is(err, ErrNotBuffer) {
			t.Errorf("%d bytes: %v, want ErrNotBuffer", n, err)
		}
	}
	for _, at := range []int{8, 12} {
		c := bytes.Clone(b)
		c[at]++
		if _, err := Read(bytes.NewReader(c), int64(len(c)), everything); err == nil || errors.Is(err, ErrNotBuffer) {
			t.Errorf("another number at %d: %v, want an error that says so", at, err)
		}
	}
	c := append([]byte("X"), b[1:]...)
	if _, err := Read(bytes.NewReader(c), int64(len(c)), everything); !errors.Is(err, ErrNotBuffer) {
		t.Errorf("another magic: %v, want ErrNotBuffer", err)
	}
}

// TestCheckpointTorn stops a checkpoint after every word of it: the one before is
// in force until the last.
func TestCheckpointTorn(t *testing.T) {
	b := sample(t)
	old := bytes.Clone(b[:headerSize])
	at := slotAt + 3%numSlots*slotSize // the third one
	clear(old[at : at+slotSize])
	size := int(binary.LittleEndian.Uint32(b[at:]))
	for n := 8; n <= size; n += 8 {
		torn := bytes.Clone(old)
		copy(torn[at+8:], b[at+8:at+n])
		if _, data := checkpoint(torn); text(data) != "checkpoint 1" {
			t.Errorf("after %d bytes the checkpoint is %q", n, data)
		}
		copy(torn[at:], b[at:at+n]) // as no process leaves it, but a loss of power may
		if _, data := checkpoint(torn); text(data) != "checkpoint 1" && n < size {
			t.Errorf("with %d bytes the checkpoint is %q", n, data)
		}
	}
}

// TestReplace puts checkpoints into the file of a dead process.
func TestReplace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	must(t, os.WriteFile(name, sample(t), 0o600))
	for i := range 5 {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		must(t, err)
		fi, err := f.Stat()
		must(t, err)
		d, err := Read(f, fi.Size(), everything)
		must(t, err)
		want := fmt.Sprint("replaced ", i)
		must(t, d.Replace(f, []byte(want)))
		if string(d.Checkpoint) != want {
			t.Errorf("Checkpoint is %q, want %q", d.Checkpoint, want)
		}
		d, err = Read(f, fi.Size(), everything)
		must(t, err)
		if text(d.Checkpoint) != want {
			t.Errorf("what is read is %q, want %q", d.Checkpoint, want)
		}
		if err := d.Replace(f, make([]byte, MaxCheckpoint+1)); err == nil {
			t.Error("Replace takes more than there is room for")
		}
		must(t, d.Replace(f, make([]byte, MaxCheckpoint)))
		must(t, f.Close())
	}
}

// TestSegmentReuse: of an earlier use nothing is met.
func TestSegmentReuse(t *testing.T) {
	needMap(t)
	name := filepath.Join(t.TempDir(), "x")
	p, err := Create(name, 1)
	must(t, err)
	for round := range uint64(5) {
		s, err := p.Take(3, round*Size, false)
		must(t, err)
		if _, err := p.Take(3, 0, true); !errors.Is(err, ErrFull) {
			t.Errorf("a second segment of one: %v, want ErrFull", err)
		}
		n := 0
		for record := fmt.Sprint("round ", round); n < int(9-round) && s.Fits(len(framed(record))); n++ {
			put(t, s, record)
		}
		b, err := os.ReadFile(name)
		must(t, err)
		if _, list := all(t, b, 3, round*Size); len(list) != n || list[0] != fmt.Sprint("round ", round) {
			t.Errorf("round %d: the records are %q", round, list)
		}
		if _, list := all(t, b, 3, (round+1)*Size); len(list) > 0 {
			t.Errorf("round %d: behind it are %q", round, list)
		}
		if round == 3 {
			s.Void()
			b, err := os.ReadFile(name)
			must(t, err)
			if _, list := all(t, b, 3, 0); len(list) > 0 {
				t.Errorf("a segment that is void has %q", list)
			}
		}
		p.Release(s)
	}
	must(t, p.Remove())
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Remove leaves the file: %v", err)
	}
}

// TestSegmentFull fills a segment to its last byte.
func TestSegmentFull(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		p := New(1)
		if mapped {
			needMap(t)
			var err error
			p, err = Create(filepath.Join(t.TempDir(), "x"), 1)
			must(t, err)
		}
		s, err := p.Take(0, 0, false)
		must(t, err)
		if !s.Fits(MaxRecord) || s.Fits(MaxRecord+8) {
			t.Error("MaxRecord is not the size of the largest record")
		}
		b := make([]byte, MaxRecord)
		for i := range b[8:] {
			b[8+i] = byte(i)
		}
		must(t, s.Append(b, Sum(b[8:])))
		if s.Fits(8) {
			t.Error("one more fits")
		}
		data, next := s.Record(First, s.End())
		if !bytes.Equal(data, b[8:]) || next != s.End() {
			t.Errorf("the record has %d bytes, want %d", len(data), len(b)-8)
		}
		must(t, p.Remove())
	}
}

// TestSegmentTruncated: a file that is truncated under the map gives errors.
func TestSegmentTruncated(t *testing.T) {
	needMap(t)
	name := filepath.Join(t.TempDir(), "x")
	p, err := Create(name, 4)
	must(t, err)
	s, err := p.Take(0, 0, false)
	must(t, err)
	put(t, s, "before")
	if err := os.Truncate(name, 0); err != nil {
		t.Skip(err) // not while it is mapped
	}
	b := framed("after")
	if err := s.Append(b, Sum(b[8:])); err == nil {
		t.Error("Append to a page that is gone")
	}
	if err := s.Guard(func() { s.Record(First, s.End()) }); err == nil {
		t.Error("Record of a page that is gone")
	}
	if err := p.Checkpoint([]byte("x")); err == nil {
		t.Error("Checkpoint to a page that is gone")
	}
	if _, err := p.Take(0, Size, false); err == nil {
		t.Error("Take of a page that is gone")
	}
	must(t, p.Remove())
}

func TestSum(t *testing.T) {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i * 7)
	}
	seen := make(map[uint64]string)
	note := func(what string, b []byte) {
		s := Sum(b)
		if other, known := seen[s]; known {
			t.Errorf("%s and %s have one checksum", what, other)
		}
		seen[s] = what
	}
	for n := 0; n <= len(b); n += 8 {
		note(fmt.Sprint(n, " bytes"), b[:n])
	}
	for i := range 8 * len(b) {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		note(fmt.Sprint("bit ", i), c)
	}
	for i := 8; i < len(b); i += 8 {
		c := bytes.Clone(b)
		copy(c[i-8:], b[i:i+8])
		copy(c[i:], b[i-8:i])
		note(fmt.Sprint("words swapped before ", i), c)
	}
	for _, zeros := range []int{8, 16, 24, 32, 64, 128, 1024} {
		note(fmt.Sprint(zeros, " zeros"), make([]byte, zeros))
	}
}

// FuzzRead reads anything. Checksums are made right where a record seems to be, so
// that what is behind them is met.
func FuzzRead(f *testing.F) {
	if Supported {
		whole := sample(f)
		f.Add(whole[:4096], whole[headerSize:headerSize+600])
	}
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, head, segment []byte) {
		b := make([]byte, headerSize+2*Size)
		copy(b[:headerSize], head)
		copy(b[headerSize:headerSize+Size], segment)
		copy(b[headerSize+Size:], segment)
		copy(b, magic[:])
		binary.LittleEndian.PutUint32(b[8:], version)
		binary.LittleEndian.PutUint32(b[12:], Size)
		seg := b[headerSize : headerSize+Size]
		stream, base := binary.LittleEndian.Uint64(seg[16:]), binary.LittleEndian.Uint64(seg[8:])
		binary.LittleEndian.PutUint64(seg, commitWord(Sum(seg[8:First]), place(stream, base), First))
		for at := First; at+8 <= Size; {
			n := int(binary.LittleEndian.Uint32(seg[at:]) &^ 7)
			if n < 8 || n > Size-at {
				break
			}
			binary.LittleEndian.PutUint64(seg[at:], commitWord(Sum(seg[at+8:at+n]), place(stream, base+uint64(at)), n))
			at += n
		}
		for i := range numSlots {
			at := slotAt + i*slotSize
			if n := int(binary.LittleEndian.Uint32(b[at:]) &^ 7); n >= 16 && n <= slotSize {
				binary.LittleEndian.PutUint64(b[at:], commitWord(Sum(b[at+8:at+n]), uint64(at), n))
			}
		}
		d, err := Read(bytes.NewReader(b), int64(len(b)), everything)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Checkpoint) > MaxCheckpoint+8 {
			t.Errorf("a checkpoint of %d bytes", len(d.Checkpoint))
		}
		size := 0
		for _, s := range []uint64{0, 1, stream, math.MaxUint64} {
			must(t, d.Records(s, 0, func(_ uint64, data []byte) error {
				if size += len(data); len(data) > Size-First-8 || len(data)%8 != 0 {
					t.Errorf("a record of %d bytes", len(data))
				}
				return nil
			}))
		}
		if size > 8*Size {
			t.Errorf("%d bytes of records", size)
		}
	})
}

// TestSegmentIsOneLine: what goroutines write to is not in a line that others have.
func TestSegmentIsOneLine(t *testing.T) {
	if n := unsafe.Sizeof(Segment{}); n != 64 && unsafe.Sizeof(0) == 8 {
		t.Errorf("it has %d bytes", n)
	}
}
