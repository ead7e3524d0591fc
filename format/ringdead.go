package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/segment"
)

// A DeadRing is what the file of a [Ring] holds whose process died.
type DeadRing struct {
	// Note is what the ring kept there for whoever finds it.
	Note []byte
	// Version is the disk version of what is in it.
	Version Version
	// Began is when the ring was made, First and Last are the times of the oldest and
	// the newest record in it, zero if there is none.
	Began, First, Last time.Time
	// Damaged is of how many segments not everything could be read. Nothing but a
	// loss of power or somebody else's hand leaves any.
	Damaged int

	f     *os.File
	name  string
	sn    Snapshot
	buf   []byte
	bare  []byte
	entry TraceEntry
}

// OpenRing reads the file of a ring. It is [ErrLocked] while its process lives. The
// caller closes or removes it.
func OpenRing(name string) (*DeadRing, error) {
	f, err := osfile.OpenWrite(name)
	if err != nil {
		return nil, err
	}
	d := &DeadRing{f: f, name: name}
	if err := d.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("ring %s: %w", name, err), closedErr(f.Close()))
	}
	return d, nil
}

func (d *DeadRing) read() error {
	if err := lock(d.f, true); err != nil {
		return err
	}
	if !osfile.SameFile(d.f, d.name) {
		return fs.ErrNotExist // somebody else was faster
	}
	fi, err := d.f.Stat()
	if err != nil {
		return err
	}
	dead, err := segment.Read(d.f, fi.Size(), func([]byte) func(uint64) uint64 {
		return func(uint64) uint64 { return 0 }
	})
	if errors.Is(err, segment.ErrNotBuffer) {
		var magic [8]byte
		if n, _ := d.f.ReadAt(magic[:], 0); !isZero(magic[:n]) {
			return &NotRingError{Size: fi.Size()}
		}
		empty, eerr := segment.Empty(d.f, fi.Size())
		if eerr != nil {
			return eerr
		}
		if !empty {
			return &NotRingError{Size: fi.Size()} // the head is lost, and the rest is not
		}
		dead, err = new(segment.Dead), nil // it died before there was anything
	}
	if err != nil {
		return err
	}
	d.Damaged = dead.Damaged + dead.Torn
	d.Version = DefaultVersion
	if b := dead.Checkpoint; len(b) >= noteHead {
		if [4]byte(b[:4]) != noteKind {
			return &NotRingError{Size: fi.Size()} // a crash buffer
		}
		if d.Version = Version(b[4]); !d.Version.known() {
			return &VersionError{Version: d.Version}
		}
		n := int(binary.LittleEndian.Uint16(b[6:]))
		d.Began = time.Unix(0, int64(leUint64(b[8:])))
		d.Note = b[noteHead:min(noteHead+n, len(b))]
	}
	d.sn = Snapshot{version: d.Version}
	if err := d.ledger(dead); err != nil {
		return err
	}
	return d.records(dead)
}

// A NotRingError says that a file is not that of a ring.
type NotRingError struct{ Size int64 }

func (e *NotRingError) Error() string {
	return fmt.Sprintf("a file of %d bytes that is not that of a ring", e.Size)
}

// ledger finds the resources, which are numbered from 1 on.
func (d *DeadRing) ledger(dead *segment.Dead) error {
	sn := &d.sn
	return dead.Records(ledgerStream, 0, func(_ uint64, data []byte) error {
		var o record
		if !o.parse(data) || o.kind != opResource || int64(o.resource) != int64(len(sn.resources))+1 {
			return nil
		}
		body, head, _, ok := nextBody(o.bodies)
		if !ok || !d.sound(body, head) {
			return nil
		}
		res := &Resource{index: o.resource, body: body, head: head}
		sn.resources = append(sn.resources, res)
		sn.latest = res
		return nil
	})
}

// sound reports whether a body is one of an entry, with its attributes where head
// says.
func (d *DeadRing) sound(body []byte, head int) bool {
	d.buf = append(append(d.buf[:0], 0), body...)
	e := &d.entry
	n, err := DecodeTraceEntry(d.buf, d.Version, e)
	if err != nil || n != 1+len(body) {
		return false
	}
	bare := TraceEntry{Message: e.Message, Metadata: e.Metadata}
	d.bare = AppendTraceEntry(d.bare[:0], d.Version, &bare)
	counts := 1
	if d.Version.hasAttrColumns() {
		counts = 2
	}
	return head == len(d.bare)-1-counts && bytes.Equal(d.bare[1:1+head], body[:head])
}

// records finds the records, each segment's as a part.
func (d *DeadRing) records(dead *segment.Dead) error {
	sn := &d.sn
	first, last, from := int64(math.MaxInt64), int64(math.MinInt64), int64(math.MinInt64)
	sn.stripes = make([][]*ringPart, maxStripes+1)
	for stream := range uint64(carryStream + 1) {
		if stream == ledgerStream {
			continue
		}
		var b []byte
		begun := int64(math.MinInt64) // of a stream that has lost its first segments
		err := dead.Records(stream, 0, func(position uint64, data []byte) error {
			var o record
			if !o.parse(data) {
				return nil
			}
			for bodies := o.bodies; ; {
				body, head, rest, ok := nextBody(bodies)
				if !ok {
					break
				}
				if !d.sound(body, head) {
					d.Damaged++
					return nil
				}
				bodies = rest
			}
			if o.kind != opMark && countBodies(o.bodies) == 0 {
				return nil
			}
			first, last = min(first, o.key), max(last, o.key)
			if len(b) == 0 && position >= segment.Size {
				begun = o.key
			}
			if o.kind == opSpan || o.kind == opEither {
				sn.spans = int(min(stream, maxStripes))
			}
			b = binary.LittleEndian.AppendUint64(b, uint64(8+len(data)))
			b = append(b, data...)
			return nil
		})
		if err != nil {
			return err
		}
		if stream != carryStream && begun > from {
			from = begun
		}
		switch p := (&ringPart{data: b}); {
		case len(b) == 0:
		case stream == carryStream:
			sn.carried = append(sn.carried, p)
		default:
			sn.stripes[stream] = append(sn.stripes[stream], p)
		}
	}
	if last >= first {
		d.First, d.Last = time.Unix(0, first), time.Unix(0, last)
	}
	if sn.From = d.Began; from > d.Began.UnixNano() {
		sn.From = time.Unix(0, from)
	}
	return nil
}

// Snapshot returns what is in the ring. There is one of it.
func (d *DeadRing) Snapshot(o SnapshotOptions) *Snapshot {
	sn := &d.sn
	sn.o = o
	sn.Taken = d.Last
	if o.From.After(sn.From) {
		sn.From = o.From
	}
	return sn
}

// Remove removes the file: what is in it is elsewhere. It closes the ring.
func (d *DeadRing) Remove() error {
	var err error
	if osfile.SameFile(d.f, d.name) {
		err = errors.Join(osfile.Remove(d.f, d.name), osfile.SyncDir(d.name))
	}
	return errors.Join(err, d.Close())
}

// Close leaves the file as it is.
func (d *DeadRing) Close() error { return closedErr(d.f.Close()) }
