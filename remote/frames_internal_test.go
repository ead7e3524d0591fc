package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

var must = expect.Must

// A reading is a connection that returns the bytes of r in parts. The field some is the largest size of a part.
type reading struct {
	net.Conn

	r    io.Reader
	some int
}

func (r *reading) Read(b []byte) (int, error)      { return r.r.Read(b[:min(len(b), r.some)]) }
func (r *reading) SetReadDeadline(time.Time) error { return nil }

func framesOf(b []byte, some, limit int) *frames {
	return &frames{conn: &timed{Conn: &reading{r: bytes.NewReader(b), some: some}, ctx: context.Background()}, limit: limit, buffers: &budget{max: math.MaxInt64}}
}

// FuzzDecode passes random input to the receiver's reader, both at once and byte by byte. The reader of package
// format must accept the same entries.
func FuzzDecode(f *testing.F) {
	for _, v := range tracetest.BothVersions {
		b := wire.AppendMagic(nil, v, format.IETPrefix)
		for i, e := range []*format.TraceEntry{format.Root(), tracetest.Entry("a"), {Parent: 1, Message: format.Some("m")}} {
			raw := format.AppendTraceEntry(nil, v, e)
			b = append(binary.LittleEndian.AppendUint64(b, uint64(len(raw))), raw...)
			f.Add(b[:len(b)-i])
		}
		f.Add(append(b, 0, 0, 0, 0, 0, 0, 0, 0, 1))
		f.Add(append(b, 255, 255, 255, 255, 255, 255, 255, 255))
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(append(wire.AppendMagic(nil, format.V1, format.ET), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 20
		var counts [2]int64
		var ends [2]error
		for i, some := range []int{1 << 20, 1} {
			fr := framesOf(b, some, limit)
			err := fr.greet("")
			var last int64
			for err == nil {
				_, err = fr.next()
				if err == nil {
					last = fr.r.Offset()
					counts[i]++
				}
			}
			if last > int64(len(b)) || fr.size > 2*len(b)+bufSize {
				t.Fatalf("%d bytes of %d were taken, in a buffer of %d", last, len(b), fr.size)
			}
			ends[i] = eof(err)
		}
		if counts[0] != counts[1] || (ends[0] == nil) != (ends[1] == nil) {
			t.Fatalf("whole %d entries: %v; byte by byte %d: %v", counts[0], ends[0], counts[1], ends[1])
		}
		r, err := format.NewReader(bytes.NewReader(b), &format.ReaderOptions{MaxEntrySize: limit})
		if err != nil || r.Format() != format.IETPrefix {
			if counts[0] > 0 {
				t.Fatalf("%d entries of what is no IETPrefix: %v", counts[0], err)
			}
			return
		}
		n := int64(0)
		for {
			_, err = r.Next()
			if err != nil {
				break
			}
			n++
		}
		if n != counts[0] || errors.Is(err, io.EOF) != (ends[0] == nil) {
			t.Fatalf("format reads %d entries: %v; the receiver %d: %v", n, err, counts[0], ends[0])
		}
	})
}

// TestTokenIsNoHintAfterAWhile ends connections without a token. Only the end of a new connection hints at a token.
func TestTokenIsNoHintAfterAWhile(t *testing.T) {
	for age, hints := range map[time.Duration]bool{0: true, steady / 2: false} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			var told error
			c := &sendLoop{Sender: &Sender{o: SenderOptions{OnError: func(err error) { told = err }}, ctx: t.Context()}, link: newLink(here)}
			time.Sleep(age)
			must(t, there.Close())
			c.onGone()
			if !errors.Is(told, errGone) || errors.Is(told, errNoToken) != hints {
				t.Errorf("after %v, OnError gets %v", age, told)
			}
		})
	}
}

// FuzzToken passes random input to a receiver that requires a token.
func FuzzToken(f *testing.F) {
	const token = "0123456789abcdef"
	whole := wire.AppendMagic(appendPreface(nil, token), format.V1, format.IETPrefix)
	f.Add(whole)
	f.Add(whole[:20])
	f.Add(whole[len(whole)-wire.MagicSize:])
	f.Fuzz(func(t *testing.T, b []byte) {
		err := framesOf(b, 7, 1<<20).greet(token)
		if err == nil && !bytes.HasPrefix(b, whole[:len(whole)-2]) {
			t.Fatalf("%q is taken", b)
		}
	})
}

// TestNodes checks that a span that gets a child from time to time is remembered, however many other entries there
// are. The memory must be bounded.
func TestNodes(t *testing.T) {
	var n nodes
	span := node{id: 7, ref: format.SpanRef{SpanID: [8]byte{1}}}
	n.put(key{1, 1}, span)
	for id := uint32(2); id < 5*maxSpans; id++ {
		n.put(key{1, id}, node{id: id, ref: format.SpanRef{SpanID: [8]byte{2}}})
		if id%maxSpans == 0 {
			if got, ok := n.get(key{1, 1}); !ok || got != span {
				t.Fatalf("after %d spans: %v, %v", id, got, ok)
			}
		}
	}
	if got, ok := n.get(key{1, 2}); ok {
		t.Errorf("one of long ago is there: %v", got)
	}
	if len(n.young)+len(n.old) > 2*maxSpans {
		t.Errorf("%d and %d spans are remembered", len(n.young), len(n.old))
	}
	n.put(key{1, 9}, node{id: 3})
	if _, ok := n.get(key{2, 9}); ok {
		t.Error("an entry of another file is found")
	}
	if got, ok := n.get(key{1, 9}); !ok || got.id != 3 {
		t.Errorf("an entry that is no span: %v, %v", got, ok)
	}
}

// TestQueue adds and removes entries that are smaller and larger than a chunk.
func TestQueue(t *testing.T) {
	var q queue
	size := 0
	for i := range 100 {
		raw := bytes.Repeat([]byte{byte(i)}, 997*i)
		q.put(&recorder.TeeEntry{ID: uint32(i), Parent: uint32(i / 2), Ref: format.SpanRef{SpanID: [8]byte{byte(i)}}, Resource: i%2 == 0, Raw: raw}, 1, format.V1)
		size += recordHead + len(raw)
	}
	expect.Equal(t, q.size, size, "the size")
	i := 0
	for c := q.take(); c != nil; c = q.take() {
		if len(c.buf) > chunkSize && c.records > 1 {
			t.Errorf("a chunk of %d entries has %d bytes", c.records, len(c.buf))
		}
		for rest := c.buf; len(rest) > 0; i++ {
			var r record
			r, rest = next(rest)
			if int(r.id) != i || int(r.parent) != i/2 || r.resource != (i%2 == 0) || r.ref.SpanID[0] != byte(i) || len(r.raw) != 997*i {
				t.Fatalf("record %d is %+v", i, r)
			}
		}
		q.done(c)
	}
	if i != 100 || q.size != 0 {
		t.Errorf("%d records were taken, %d bytes are left", i, q.size)
	}
}

// TestSilentWhenIdle checks that the end of an idle connection is not an error. The end of a
// connection shortly after entries were sent is an error, because the entries may be lost.
func TestSilentWhenIdle(t *testing.T) {
	was := steady
	defer func() { steady = was }()
	for _, test := range []struct {
		steady time.Duration
		tells  bool
	}{{time.Millisecond, false}, {time.Hour, true}} {
		steady = test.steady
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		var told atomic.Int64
		s, err := NewSender("tcp://"+l.Addr().String(), &SenderOptions{OnError: func(error) { told.Add(1) }})
		must(t, err)
		rec := recorder.Stream(&recorder.Options{Tee: s})
		entry := tracetest.Entry("event")
		want := len(wire.AppendMagic(nil, format.V1, format.IETPrefix)) + prefixSize + len(format.AppendTraceEntry(nil, format.V1, format.Root())) +
			prefixSize + len(format.AppendTraceEntry(nil, format.V1, entry))
		for range 3 {
			must(t, rec.Log(format.SpanRef{}, entry))
			must(t, rec.Flush(context.Background()))
			c, err := l.Accept()
			must(t, err)
			must(t, expect.Err(io.ReadFull(c, make([]byte, want))))
			time.Sleep(20 * time.Millisecond) // much longer or much shorter than steady
			must(t, c.Close())
			for end := time.Now().Add(10 * time.Second); test.tells && told.Load() == 0 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if test.tells {
				break
			}
			time.Sleep(50 * time.Millisecond) // until the sender notices
		}
		if (told.Load() != 0) != test.tells {
			t.Errorf("steady %v: it told of %d errors", test.steady, told.Load())
		}
		must(t, l.Close())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = rec.Close(ctx) // the receiver is gone
	}
}
