package format

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/internal/segment"
)

// FuzzOpenRing reads rings whose records are anything, with right checksums: what
// comes of them is a whole trace.
func FuzzOpenRing(f *testing.F) {
	if !segment.Supported {
		f.Skip("no rings in files here")
	}
	g, err := NewRing(&RingOptions{Path: filepath.Join(f.TempDir(), "x.ring"), Bytes: minRingBytes})
	must(f, err)
	g.Keep(^Providers(0))
	var seed []byte
	b := g.Recorder().Batch()
	for _, s := range []*Span{faultSpan("a", 1, 0), faultSpan("b", 2, 1)} {
		s.Open = true
		b.Add(s)
	}
	b.Entry(faultEntry("event"))
	b.Log(faultRef(1), 5)
	b.Entry(faultEntry("link"))
	b.Entry(faultEntry(NameSpanEnd))
	b.EndSpan(faultRef(2), 7)
	for i := range b.ops {
		o := &b.ops[i]
		seed = append(append(seed, byte(i), byte(o.end-o.start-8)), b.buf[o.start+8:o.end]...)
	}
	must(f, b.Write())
	must(f, g.Close())
	f.Add(seed, []byte("RING\x01\x00\x01\x00........n"), uint8(0))
	f.Add(seed, []byte("RING\x02\x00\x01\x00........n"), uint8(3))
	f.Add([]byte{}, []byte{}, uint8(1))
	f.Fuzz(func(t *testing.T, records, note []byte, window uint8) {
		if len(note) > segment.MaxCheckpoint {
			return
		}
		name := filepath.Join(t.TempDir(), "x.ring")
		p, err := segment.Create(name, 8)
		must(t, err)
		must(t, p.Checkpoint(note))
		segs := make(map[uint64]*segment.Segment)
		for len(records) > 2 {
			stream, n := uint64(records[0])%(carryStream+1), min(int(records[1]), len(records)-2)
			data := append(make([]byte, 8, 8+n), records[2:2+n]...)
			records = records[2+n:]
			for len(data)%8 != 0 {
				data = append(data, 0)
			}
			s := segs[stream]
			if s == nil {
				if s, err = p.Take(stream, 0, true); err != nil {
					break
				}
				segs[stream] = s
			}
			if s.Fits(len(data)) {
				must(t, s.Append(data, segment.Sum(data[8:])))
			}
		}
		must(t, p.Close())
		d, err := OpenRing(name)
		if err != nil {
			return // it says why
		}
		o := SnapshotOptions{Providers: ^Providers(0)}
		if window > 0 {
			o.From = d.Last.Add(-1 << (window % 64))
		}
		iet := filepath.Join(t.TempDir(), "y.iet")
		r, err := Create(iet, &RecorderOptions{Version: d.Version, Durability: DurabilityWriteThrough})
		must(t, err)
		must(t, d.Snapshot(o).Copy(r))
		st := r.Stats().Entries
		if st.Offered != st.Written+st.Dropped.Total() {
			t.Errorf("the account is %+v", st)
		}
		must(t, r.Close(context.Background()))
		if rep, err := Inspect(iet); err != nil || rep.Damage != nil {
			t.Errorf("the trace is %+v, %v", rep, err)
		}
		must(t, d.Remove())
		if _, err := os.Stat(name); err == nil {
			t.Error("the ring is still there")
		}
	})
}
