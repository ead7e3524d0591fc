package remote_test

import (
	"bytes"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

// BenchmarkReceive sends an encoded stream to a receiver.
func BenchmarkReceive(b *testing.B) {
	one := &format.TraceEntry{Parent: 1, Message: format.Some("a message"), Metadata: format.Metadata{Name: "a name", Target: "a target"}, Attributes: tracetest.Attributes(format.AttrTime, uint64(1<<60), "http.request.method", "GET", "n", uint64(7))}
	s := stream(format.Root(), named(0, "resource"))
	f := frame(nil, one)
	s = append(s, bytes.Repeat(f, 200_000)...)
	r := receive(b, remote.Receiver{}, "127.0.0.1:0")
	b.SetBytes(int64(len(s)))
	n := 0
	for b.Loop() {
		c := r.dial()
		if _, err := c.Write(s); err != nil {
			b.Fatal(err)
		}
		c.Close()
		n++
		if got := r.await(n)[n-1]; got.Err != nil || got.Entries != 200_002 {
			b.Fatalf("received %+v", got)
		}
	}
}

// BenchmarkSend passes entries to a Sender and waits until they are sent.
func BenchmarkSend(b *testing.B) {
	raw := format.AppendTraceEntry(nil, format.V1, &format.TraceEntry{Parent: 1, Message: format.Some("a message"), Metadata: format.Metadata{Name: "a name", Target: "a target"}, Attributes: tracetest.Attributes(format.AttrTime, uint64(1<<60), "http.request.method", "GET", "n", uint64(7))})
	const count = 200_000
	b.SetBytes(count * int64(len(raw)))
	r := receive(b, remote.Receiver{}, "127.0.0.1:0")
	for b.Loop() {
		s, err := remote.NewSender(r.addr, &remote.SenderOptions{MaxBuffer: 1 << 30})
		must(b, err)
		batch := make([]recorder.TeeEntry, 0, 256)
		for id := uint32(1); id <= count; id++ {
			e := recorder.TeeEntry{ID: id, Parent: 1, Raw: raw}
			if id == 1 {
				e.Parent = 0
			}
			if id%4 == 0 {
				e.Ref = ref(int(id))
			}
			batch = append(batch, e)
			if len(batch) == cap(batch) || id == count {
				s.Take(batch)
				batch = batch[:0]
			}
		}
		must(b, s.Close(b.Context()))
		if st := s.Stats(); st.Sent != count {
			b.Fatalf("the account is %+v", st)
		}
	}
}
