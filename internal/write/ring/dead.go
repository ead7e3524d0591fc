package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// A Dead is the content of the file of a [Ring] whose process died.
type Dead struct {
	// Note is the note of the ring, see Options.Note and [Ring.SetNote].
	Note []byte
	// Version is the disk version for a trace that is made from the ring.
	Version format.Version
	// Began is the time at which the ring was made. First and Last are the times of the oldest and the
	// newest record, zero if the ring has no records.
	Began, First, Last time.Time
	// Damaged is the number of segments that are not completely readable, because of a loss of power, a bad
	// disk, or another program that changed the file.
	Damaged int
	// Gone is [recorder.ErrJournalGone] if the ring was in memory that is lost, else nil.
	Gone error

	f    *journal.DeadFile // nil: the ring is gone
	name string
	sn   Snapshot
}

// A NotRingError means that a file is not the file of a ring. Size is the size of the file in bytes.
type NotRingError struct{ Size int64 }

func (e *NotRingError) Error() string {
	return fmt.Sprintf("the file, of %d bytes, is not a ring", e.Size)
}

// Open reads the file of a ring. The error is [format.ErrLocked] if the process of the ring lives,
// [recorder.ErrJournalElsewhere] if this process cannot reach the ring, and a *journal.LayoutError if
// another version of this package wrote the ring. The caller must call Close or Remove.
func Open(name string) (*Dead, error) {
	f, err := journal.OpenDead(name, true)
	if errors.Is(err, journal.ErrGone) {
		return &Dead{Gone: err, Version: format.DefaultVersion, name: name, sn: Snapshot{table: record.ReadTable(new(journal.Dead))}}, nil
	}
	if err != nil {
		return nil, err
	}
	d := &Dead{f: f, name: name}
	if err := d.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("ring %s: %w", name, err), d.Close())
	}
	return d, nil
}

func (d *Dead) read() error {
	if err := osfile.LockPatiently(d.f.File, true); errors.Is(err, osfile.ErrLocked) {
		return format.ErrLocked
	} else if err != nil {
		return err
	}
	if !d.f.HasName() {
		return fs.ErrNotExist // another process has removed the ring
	}
	fi, err := d.f.Stat()
	if err != nil {
		return err
	}
	dead, err := journal.ReadDead(d.f, fi.Size(), func([]byte) func(uint32) uint64 {
		return func(uint32) uint64 { return 0 }
	})
	if errors.Is(err, journal.ErrNotJournal) {
		dead, err = d.empty(fi.Size())
	}
	if err != nil {
		return err
	}
	d.Damaged, d.Version, d.sn.table = dead.Damaged, format.DefaultVersion, record.ReadTable(dead)
	if b := dead.Checkpoint; len(b) >= noteHead {
		if [4]byte(b[:4]) != noteKind {
			return &NotRingError{Size: fi.Size()} // this is the journal of a recorder
		}
		d.Version = format.Version(b[4])
		if err := d.Version.Check(); err != nil {
			return err
		}
		n := int(binary.LittleEndian.Uint16(b[6:]))
		d.Began = time.Unix(0, int64(binary.LittleEndian.Uint64(b[8:])))
		d.Note = b[noteHead:min(noteHead+n, len(b))]
	}
	d.records(dead)
	return nil
}

// empty returns an empty journal for a file without a complete header, whose process died before it
// recorded anything. The error is a *NotRingError if the file has other bytes.
func (d *Dead) empty(size int64) (*journal.Dead, error) {
	var magic [8]byte
	if n, _ := d.f.ReadAt(magic[:], 0); n > 0 && magic != [8]byte{} {
		return nil, &NotRingError{Size: size}
	}
	empty, err := journal.IsEmpty(d.f, size)
	if err == nil && !empty {
		err = &NotRingError{Size: size} // the file has segments, but no header
	}
	return new(journal.Dead), err
}

// records sets First and Last of d, and the parts and From of its snapshot, from the records of the journal
// dead.
func (d *Dead) records(dead *journal.Dead) {
	sn := &d.sn
	first, last, from := int64(math.MaxInt64), int64(math.MinInt64), int64(math.MinInt64)
	collect := func(stream uint32) (parts []*part) {
		begun := int64(math.MinInt64) // time of the first record in the stream, if earlier segments were evicted
		seen := false
		dead.Each(stream, func(position uint64, e *journal.Entry) {
			if !seen && position >= journal.SegmentSize {
				begun = e.Time
			}
			seen = true
			first, last = min(first, e.Time), max(last, e.Time)
		})
		if stream != journal.StreamRetained {
			from = max(from, begun)
		}
		for _, p := range dead.Parts(stream) {
			b, _ := p.Read(nil, 0, p.End) // cannot fail, because the part is in memory
			parts = append(parts, &part{base: p.Base, end: p.End, data: b})
		}
		return parts
	}
	for i := range dead.Shards() {
		sn.streams = append(sn.streams, collect(journal.StreamSpans+uint32(i)))
	}
	sn.retained = collect(journal.StreamRetained)
	if last >= first {
		d.First, d.Last = time.Unix(0, first), time.Unix(0, last)
	}
	sn.From = d.Began
	if from > d.Began.UnixNano() {
		sn.From = time.Unix(0, from)
	}
}

// Snapshot returns the content of the ring. It may be called only once.
func (d *Dead) Snapshot(o SnapshotOptions) *Snapshot {
	sn := &d.sn
	sn.o, sn.version = o, d.Version
	sn.Taken = d.Last
	if o.From.After(sn.From) {
		sn.From = o.From
	}
	return sn
}

// Remove closes the ring and removes its file. The caller must have saved the content.
func (d *Dead) Remove() error {
	switch {
	case d.f == nil:
		return journal.RemoveUnreachable(d.name)
	case !d.f.HasName():
		return d.Close()
	}
	return d.f.Remove()
}

// Close closes the file without removing it.
func (d *Dead) Close() error {
	if d.f == nil {
		return nil
	}
	return osfile.Ignore(d.f.Close(), os.ErrClosed)
}
