package heph

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// FuzzDecode decodes random bytes and encodes the result. Without an error, this must give the same bytes. In any
// case, the encoded bytes must be decodable to the same packets.
func FuzzDecode(f *testing.F) {
	for _, name := range samples(f) {
		if in := read(f, name); len(in) < 1000 {
			f.Add(in)
		}
	}
	f.Add(old())
	packets := converter.Bytes(f, spans(f, 5))
	f.Add(packets)
	f.Add(packets[:len(packets)/2])
	f.Add(packets[23:])
	f.Fuzz(func(t *testing.T, in []byte) {
		version := format.V1
		if len(in)%2 == 0 {
			version = format.V2
		}
		v, err := decoded(t, in, version)
		out := converter.Bytes(t, v)
		if err == nil && !bytes.Equal(out, in) {
			t.Fatalf("encoded again it is\n%x, was\n%x\n%s", out, in, text(t, v))
		}
		again, err := decoded(t, out, version)
		expect.MustIs(t, err, nil, "decoded again")
		if !bytes.Equal(converter.Bytes(t, again), out) {
			t.Fatal("encoded again it is another file")
		}
	})
}

// TestAlteredFiles changes encoded packets in many ways. If the result can be decoded, encoding must give the same
// bytes.
func TestAlteredFiles(t *testing.T) {
	whole := converter.Bytes(t, everything(t, format.V2))
	var packets [][]byte
	r := &reader{b: whole}
	for r.more() {
		p, err := r.next()
		converttest.Must(t, err)
		packets = append(packets, bytes.Clone(p.Raw))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		list := append([][]byte{}, packets...)
		switch i % 6 {
		case 0:
			list = list[:rnd.IntN(len(list))]
		case 1:
			list = list[rnd.IntN(len(list)):]
		case 2:
			rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		case 3:
			list = append(list, packets...)
		case 4:
			n := rnd.IntN(len(list))
			list = append(list[:n:n], list[n+1:]...)
		case 5:
			n := rnd.IntN(len(list))
			b := bytes.Clone(list[n])
			b[8+rnd.IntN(len(b)-8)] ^= 1 << rnd.IntN(8)
			list[n] = b
		}
		in := bytes.Join(list, nil)
		v, err := decoded(t, in, format.V2)
		if err != nil {
			continue // a changed byte may be damage
		}
		if got := converter.Bytes(t, v); !bytes.Equal(got, in) {
			t.Errorf("altered file %d is another one when it is encoded again", i)
		}
	}
}

// TestRandomTraces encodes random traces. Each row must become a packet, and each span must stay below its parent.
func TestRandomTraces(t *testing.T) {
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var out bytes.Buffer
		w, err := format.NewWriter(&out, format.V2, format.IET, nil)
		converttest.Must(t, err)
		_, err = w.Write(format.Root())
		converttest.Must(t, err)
		n := rnd.IntN(60) + 1
		for i := range n {
			e := tracetest.Below(uint32(rnd.IntN(i+1)), tracetest.Entry(fmt.Sprint("n", rnd.IntN(9))))
			if rnd.IntN(8) == 0 {
				e.Parent, e.Metadata.Name = 0, "resource"
			}
			add := func(name string, v format.Value) { e.Add(name, v) }
			switch rnd.IntN(5) {
			case 0:
				add("otel.event", format.BoolValue(true))
			case 1:
				e.Message, e.Metadata.Name = format.Some("m"), "event"
				if rnd.IntN(2) == 0 {
					add("span_id", format.StringValue(spanID(rnd.IntN(n))))
				}
			case 2:
			default:
				add("span_id", format.StringValue(spanID(i)))
				if rnd.IntN(3) == 0 {
					add("parent_span_id", format.StringValue(spanID(rnd.IntN(i+1)-1)))
				}
			}
			if rnd.IntN(3) == 0 {
				add("trace_id", format.StringValue(fmt.Sprintf("%032x", rnd.IntN(3)+1)))
			}
			if rnd.IntN(5) > 0 {
				add("time_unix_nano", format.U64Value(uint64(rnd.IntN(30))))
			}
			if rnd.IntN(5) > 1 {
				add("duration_nano", format.U64Value(uint64(rnd.IntN(20))))
			}
			format.SortAttributes(e.Attributes)
			_, err = w.Write(e)
			converttest.Must(t, err)
		}
		converttest.Must(t, w.Close())
		v := open(t, out.Bytes())
		back, _ := there(t, v, format.Version(1+seed%2))
		rows := 0
		for range v.Rows() {
			rows++
		}
		if rows > 1 && back.Len() != rows+1 { // one row more, for the epoch
			t.Errorf("seed %d: %d rows, want %d and the epoch", seed, back.Len(), rows)
		}
		sameParents(t, v, back)
	}
}

// spanID returns an id that Decode never generates.
func spanID(i int) string { return fmt.Sprintf("5%015x", i+1) }

// sameParents checks that each span of v with a parent span in the same trace has this parent in back.
func sameParents(t *testing.T, v, back *view.View) {
	t.Helper()
	for r := range v.Rows() {
		up := v.Parent(r)
		if v.Role(r) != view.RoleSpan || v.Role(up) != view.RoleSpan || v.TraceID(up) != v.TraceID(r) || v.TraceID(r) == [16]byte{} {
			continue
		}
		if first, _ := v.Span(v.Ref(r)); first != r {
			continue // another span has the same ids
		}
		b, ok := back.Span(v.Ref(r))
		if !ok || back.Ref(back.Parent(b)) != v.Ref(up) {
			t.Errorf("span %v is below %v, was below %v", v.Ref(r), back.Ref(back.Parent(b)), v.Ref(up))
		}
	}
}

// TestParents checks that the parent of an event is the event that it names, or else the smallest one that contains
// it.
func TestParents(t *testing.T) {
	newEvent := func(name string, stream uint32, counter uint32, start, end uint64, attrs ...attribute) *event {
		return &event{Description: name, StreamID: stream, Counter: counter, Start: start, End: end, Attributes: attrs}
	}
	text := func(name, s string) attribute { return attribute{Name: name, Value: stringValue(s)} }
	id := func(n int) string { return fmt.Sprintf("%016x", n) }
	trace := text("trace_id", fmt.Sprintf("%032x", 5))
	var b []byte
	for _, e := range []*event{
		newEvent("A", 1, 2, 5, 25), newEvent("B", 1, 1, 10, 20), newEvent("C", 1, 0, 12, 30), // A contains B; C overlaps both
		newEvent("D", 1, 3, 40, 50), newEvent("E", 1, 4, 40, 50), // equal: the later one contains the other
		newEvent("F", 2, 0, 10, 20), // another stream
		newEvent("G", 1, 5, 45, 44), // ends before it begins
		newEvent("H", 3, 0, 0, 1, trace, text("span_id", id(1)), text("parent_span_id", id(2))),
		newEvent("I", 3, 1, 100, 101, trace, text("span_id", id(2)), text("parent_span_id", id(3))),
		newEvent("J", 3, 2, 7, 8, trace, text("span_id", id(4)), text("parent_span_id", id(5))), // each other's parent
		newEvent("K", 3, 3, 7, 8, trace, text("span_id", id(5)), text("parent_span_id", id(4))),
		newEvent("L", 9, 0, 5, 6), newEvent("M", 9, 1, math.MaxUint64, math.MaxUint64),
	} {
		b = appendEvent(b, e)
	}
	b = appendEpoch(b, 10)
	v, err := decoded(t, b, format.V2)
	converttest.Must(t, err)
	var got strings.Builder
	for id := range uint32(v.Len()) {
		e, err := v.Files()[0].Entry(id)
		converttest.Must(t, err)
		up, err := v.Files()[0].Entry(e.Parent)
		converttest.Must(t, err)
		if len(e.Metadata.Name) == 1 {
			got.WriteString(e.Metadata.Name + "<" + up.Metadata.Name + " ")
		}
	}
	expect.Equal(t, got.String(), "A<root B<A C<root E<root D<E F<root G<D I<root H<I K<root J<K L<root M<root ", "parents")
	if !bytes.Equal(converter.Bytes(t, v), b) {
		t.Error("it is another file when it is encoded again")
	}
}
