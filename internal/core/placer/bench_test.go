package placer_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// logRecord builds a log record of ten attributes, or of two if n is not 10.
func logRecord(b *record.Builder, p *record.Place, n int) journal.Record {
	b.Reset(0, nil, nil)
	b.Place(p, 3, "request handled by the upstream")
	b.U64("time", uint64(time.Now().UnixNano()))
	b.User()
	b.I64("status", 200)
	b.String("path", "/api/v1/tenants/4711/carts/0815/items?expand=all")
	if n == 10 {
		b.I64("bytes", 123456)
		b.String("method", "GET")
		b.String("user", "ada")
		b.Time("start", time.Date(2026, time.November, 20, 21, 27, 12, 21_345_678, time.UTC))
		b.Duration("elapsed", 1234567)
		b.String("err", "dial tcp 10.20.30.40:5432: i/o timeout, try again")
		b.Bool("cached", true)
		b.Float("ratio", 0x3fe8000000000000)
	}
	b.End()
	var r journal.Record
	b.Record(&r)
	r.Time = time.Now().UnixNano()
	r.Info = record.Info(record.KindLog, 1, 0, 0, 1)
	r.Leaf = true
	return r
}

// BenchmarkPlace places log records that it reads from a journal.
func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{10, 2} {
		for _, columns := range []bool{false, true} {
			b.Run(fmt.Sprintf("attrs=%d/columns=%t", n, columns), func(b *testing.B) {
				j, err := journal.New(journal.Options{Segments: 64, MaxWait: time.Second})
				if err != nil {
					b.Fatal(err)
				}
				in := record.NewInterner(nil, nil)
				rb := &record.Builder{In: in}
				p := in.Place(&wire.Head{Name: "event a.go:1", Target: "shop", Message: "request handled by the upstream", HasMessage: true, File: "a.go", HasFile: true, Line: 1, HasLine: true})
				rd := j.NewReader()
				pl := placer.New(&in.Table, &placer.Options{
					Columns: columns, MaxEntrySize: 1 << 20, MaxPendingSpans: 1, MaxPendingBytes: 1, MaxPendingAge: time.Hour,
				})
				rd.Needs = pl.Needs
				hint := j.NewHint()
				b.ReportAllocs()
				size := 0
				for left := b.N; left > 0; {
					b.StopTimer()
					for {
						r := logRecord(rb, p, n)
						if _, err := j.Append(&r, &hint); errors.Is(err, journal.ErrFull) {
							break
						} else if err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
					rd.Capture()
					for e := rd.Next(); e != nil && left > 0; e = rd.Next() {
						pl.Place(e)
						if out, staged := pl.Out(); len(out) >= 1<<18 {
							size += len(out)
							pl.Flushed(len(staged))
						}
						left--
					}
					rd.Release()
				}
				b.ReportMetric(float64(size)/float64(b.N), "B/entry")
			})
		}
	}
}

// BenchmarkPlaceSpans places spans and their ends. Most of the spans that the Placer remembers have ended.
func BenchmarkPlaceSpans(b *testing.B) {
	r := newRig(placer.Options{})
	begin := r.record(record.KindSpan, record.FlagOpen, 0, 1, 0, named("GET /"))
	log := r.record(record.KindLog, 0, 0, 1, 0, named("event"))
	end := r.record(record.KindEnd, 0, 0, 1, 0, named("entrace.span.end"))
	rnd := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		binary.LittleEndian.PutUint64(begin.Data[16:], rnd.Uint64())
		copy(log.Data, begin.Data[:record.RefSize])
		copy(end.Data, begin.Data[:record.RefSize])
		r.Place(begin)
		r.Place(log)
		r.Place(end)
		if out, staged := r.Out(); len(out) >= 1<<18 {
			r.Flushed(len(staged))
		}
	}
}
