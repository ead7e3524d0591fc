package ring_test

import (
	"context"
	"os"
	"testing"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

// FuzzOpen opens rings with arbitrary records, whose checksums are right. If a ring can be
// opened, its snapshot must be a complete trace.
func FuzzOpen(f *testing.F) {
	seed := func(kind record.Kind, flags uint8, data ...byte) []byte {
		b := []byte{byte(kind), flags, byte(kind), byte(len(data))}
		return append(b, data...)
	}
	ref := make([]byte, record.RefSize)
	ref[0], ref[20] = 1, 2
	entry := append(append([]byte{}, ref...), 1, 2, 0, 1, 'n', 0, 1, 't', 1, 'm', 0, 1, 1, 'k', 0, 1, 'v', 1, 0x14, 5, 0, 3, 0, 1, 'g', 0, 0)
	f.Add(append(seed(record.KindSpan, record.FlagRef|record.FlagOpen, entry...), seed(record.KindEnd, record.FlagRef, entry...)...), []byte("RING\x01\x00\x01\x00........n"), uint8(0))
	f.Add(seed(record.KindLog, 0, entry[24:]...), []byte("RING\x02\x00\x01\x00........n"), uint8(3))
	f.Add([]byte{}, []byte{}, uint8(1))
	f.Fuzz(func(t *testing.T, records, note []byte, window uint8) {
		if len(note) > journal.MaxCheckpoint {
			return
		}
		name := hosttest.Path(t, "x.ring")
		j, err := journal.New(journal.Options{Medium: journal.Written, Name: name, Segments: 8, Extra: 8})
		must(t, err)
		must(t, j.Checkpoint(note))
		definitions, retained := j.NewStream(journal.StreamDefinitions), j.NewStream(journal.StreamRetained)
		var at int64
		for len(records) > 4 {
			kind, flags, where, n := record.Kind(records[0]&15), records[1], records[2], min(int(records[3]), len(records)-4)
			data := records[4 : 4+n]
			records = records[4+n:]
			at++
			info := record.Info(kind, where>>4, flags, uint16(where&7), n%3)
			switch where % 8 {
			case 0:
				_, err = definitions.Append(at%40, journal.NewInfo(0, 0, uint32(kind)), data)
			case 1:
				_, err = retained.Append(at, info, data)
			default:
				hint := j.NewHint()
				_, err = j.Append(&journal.Record{Time: at, Info: info, Data: append(make([]byte, journal.HeadSize), data...), Leaf: where%8 > 3}, &hint)
			}
			if err != nil {
				break // the ring is full
			}
		}
		must(t, j.Close())
		d, err := ring.Open(name)
		if err != nil {
			return // such a file may be refused
		}
		o := all()
		if window > 0 {
			o.From = d.Last.Add(-1 << (window % 64))
		}
		iet := hosttest.Path(t, "y.iet")
		sn := d.Snapshot(o)
		r, err := sn.Create(iet, &recorder.Options{Durability: recorder.DurabilityWriteThrough})
		must(t, err)
		must(t, sn.Copy(r))
		st := r.Stats().Entries
		if st.Offered != st.Written+st.Dropped.Total() {
			t.Errorf("the account is %+v", st)
		}
		must(t, r.Close(context.Background()))
		if rep, err := recorder.Inspect(iet); err != nil || rep.Damage != nil {
			t.Errorf("the trace is %+v, %v", rep, err)
		}
		must(t, d.Remove())
		if _, err := os.Stat(name); err == nil {
			t.Error("the ring is still there")
		}
	})
}
