package heph

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

// FuzzDecode decodes random bytes. Each packet that can be read must become an entry with the same content.
func FuzzDecode(f *testing.F) {
	for _, name := range samples(f) {
		if in := read(f, name); len(in) < 1000 {
			f.Add(in)
		}
	}
	f.Add(old())
	packets := foreignPackets(5)
	f.Add(packets)
	f.Add(packets[:len(packets)/2])
	f.Add(packets[23:])
	f.Fuzz(func(t *testing.T, in []byte) {
		version := format.V1
		if len(in)%2 == 0 {
			version = format.V2
		}
		v, _ := decoded(t, in, version)
		sameContent(t, in, v)
	})
}

// everything returns packets with attributes of all types, with names that entries use, and with times and texts that
// entries cannot hold.
func everything() []byte {
	values := []value{
		u64Value(math.MaxUint64), i64Value(math.MinInt64), f64Value(math.Inf(-1)), f64Value(math.NaN()), stringValue("text"), stringValue(""), stringValue("\xff"),
		arrayOf(kindU64), arrayOf(kindU64, u64Value(math.MaxUint64), u64Value(1)), arrayOf(kindI64, i64Value(-1)), arrayOf(kindF64, f64Value(1), f64Value(1e300)),
		arrayOf(kindF64, f64Value(math.NaN())), arrayOf(kindString, stringValue("a\"b"), stringValue("é")), arrayOf(kindString, stringValue("\xff")),
	}
	var attributes []attribute
	for i, v := range values {
		attributes = append(attributes, attribute{fmt.Sprintf("a%02d", len(values)-i), v})
	}
	for _, name := range []string{
		"trace_id", "span_id", "parent_span_id", "time_unix_nano", "duration_nano", "otel.json", "otel.anyvalue", "otel.made_ids", "otel.clock_skew_nano",
		"entrace.id", "heph.packet", "heph.attr.x", "heph.start", "quo\"te", "\xff", "twice", "twice", "level",
	} {
		attributes = append(attributes, attribute{name, u64Value(7)})
	}
	list := []*event{
		{StreamID: 1, Start: 5, End: 25, Description: "all", Attributes: attributes},
		{StreamID: 1, Counter: 1, Start: 45, End: 44, Description: "ends before it begins"},
		{StreamID: 1, Counter: 2, Start: math.MaxUint64, End: 0, Description: "\xffnot UTF-8", Attributes: attributes[:3]},
		{StreamID: 2, SubstreamID: math.MaxUint64, Start: math.MaxUint64 - 5, End: math.MaxUint64, Description: "late"},
	}
	for i := range 8 { // these events overlap in part
		list = append(list, &event{StreamID: 3, Counter: uint32(i), Start: 10 + 20*uint64(i), End: 60 + 20*uint64(i), Attributes: []attribute{
			{format.AttrTraceID, stringValue(strings.Repeat("0a", 16))}, {format.AttrSpanID, stringValue(fmt.Sprintf("%016x", i+1))},
		}})
	}
	var b []byte
	for i, e := range list {
		if i%3 == 1 {
			b = appendEpoch(b, uint64(i)*100)
		}
		b = appendEvent(b, e)
	}
	return appendOption(b, &option{Name: "\xff", Value: []byte("value")})
}

// TestEverything decodes packets with all possible content.
func TestEverything(t *testing.T) {
	for _, version := range []format.Version{format.V1, format.V2} {
		v, err := decoded(t, everything(), version)
		converttest.Must(t, err)
		sameContent(t, everything(), v)
	}
}

// TestAlteredFiles changes packets in many ways. Packets that can still be read must have the same content.
func TestAlteredFiles(t *testing.T) {
	var packets [][]byte
	for r := (&reader{b: everything()}); r.more(); {
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
		v, _ := decoded(t, in, format.V2) // a changed byte may be damage
		sameContent(t, in, v)
	}
}

// TestNestedEvents decodes events that nest at random on several lanes. Each event must be below the event in which
// it was made, for any order of the packets.
func TestNestedEvents(t *testing.T) {
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var list []*event
		want := map[string]string{}
		var add func(lane, start, end uint64, up string)
		add = func(lane, start, end uint64, up string) {
			for at := start; at+2 < end; {
				from := at + 1 + rnd.Uint64N(end-at-1)
				at = from + rnd.Uint64N(end-from)
				name := fmt.Sprint(lane, " ", len(list))
				want[name] = up
				list = append(list, &event{StreamID: uint32(lane % 2), SubstreamID: lane, Start: from, End: at, Description: name})
				if at > from {
					add(lane, from, at, name)
				}
				at++
			}
		}
		for lane := range uint64(4) {
			add(lane, 0, 60, "root")
		}
		rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		in := appendEpoch(nil, 1<<60)
		for i, e := range list {
			e.Counter = uint32(i)
			in = appendEvent(in, e)
		}
		v, err := decoded(t, in, format.Version(1+seed%2))
		converttest.Must(t, err)
		expect.Equal(t, v.Len(), len(list)+2, "seed %d: rows", seed) // with the root and the epoch
		got := parents(t, v)
		for name, up := range want {
			expect.Equal(t, got[name], up, "seed %d: the parent of %s", seed, name)
		}
	}
}

// parents returns the name of each entry's parent.
func parents(t *testing.T, v *view.View) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for id := range uint32(v.Len()) {
		e, err := v.Files()[0].Entry(id)
		converttest.Must(t, err)
		up, err := v.Files()[0].Entry(e.Parent)
		converttest.Must(t, err)
		all[e.Metadata.Name] = up.Metadata.Name
	}
	return all
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
	sameContent(t, b, v)
}
