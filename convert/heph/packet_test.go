package heph

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestDocument builds the two examples in the document of the format. The bytes must be equal.
func TestDocument(t *testing.T) {
	if got, want := appendEpoch(nil, 1610113734118010000), read(t, "testdata/doc-metadata-23.bin"); !bytes.Equal(got, want) || len(got) != 23 {
		t.Errorf("epoch is % x, want % x", got, want)
	}
	e := &event{SubstreamID: 1, Start: 100, End: 200, Description: "My event", Attributes: []attribute{
		{Name: "Test", Value: u64Value(123)}, {Name: "Test2", Value: arrayOf(kindF64, f64Value(123.456), f64Value(789))},
	}}
	want := read(t, "testdata/doc-event-91.bin")
	got := appendEvent([]byte("x"), e)[1:]
	if !bytes.Equal(got, want) || len(got) != 91 {
		t.Errorf("event is % x, want % x", got, want)
	}
	p, err := parsePacket(want)
	converttest.Must(t, err)
	if p.Metadata || !bytes.Equal(appendEvent(nil, &p.Event), want) || p.Event.Attributes[1].Value.typ != kindF64|kindArray {
		t.Errorf("the event is read as %+v", p.Event)
	}
	p, err = parsePacket(read(t, "testdata/doc-metadata-23.bin"))
	converttest.Must(t, err)
	if nano, ok := p.Option.Epoch(); !ok || nano != 1610113734118010000 {
		t.Errorf("the epoch is read as %d, %v", nano, ok)
	}
}

func parsePacket(b []byte) (*packet, error) { return (&reader{b: b}).next() }

func TestValues(t *testing.T) {
	e := &event{Attributes: []attribute{
		{Name: "u", Value: u64Value(math.MaxUint64)},
		{Name: "i", Value: i64Value(math.MinInt64)},
		{Name: "f", Value: f64Value(math.NaN())},
		{Name: "s", Value: stringValue("\xff")},
		{Name: "u", Value: arrayOf(kindU64, u64Value(1), u64Value(math.MaxUint64))},
		{Name: "", Value: arrayOf(kindI64, i64Value(-1))},
		{Name: "ss", Value: arrayOf(kindString, stringValue(""), stringValue("é"))},
		{Name: "none", Value: arrayOf(kindString)},
	}}
	b := appendEvent(nil, e)
	p, err := parsePacket(b)
	converttest.Must(t, err)
	c := &p.Event
	var got []string
	for _, a := range c.Attributes {
		got = append(got, fmt.Sprintf("%s:%x", a.Name, a.Value.typ))
	}
	expect.Equal(t, strings.Join(got, " "), "u:1 i:2 f:3 s:4 u:81 :82 ss:84 none:84", "attributes")
	v := func(i int) value { return c.Attributes[i].Value }
	if v(0).num != math.MaxUint64 || v(1).I64() != math.MinInt64 || !math.IsNaN(v(2).F64()) || v(3).Text() != "\xff" || v(4).Len() != 2 || v(7).Len() != 0 {
		t.Errorf("values are %v", c.Attributes)
	}
	var texts []string
	v(6).Each(func(v value) bool { texts = append(texts, v.Text()); return true })
	expect.Slice(t, texts, []string{"", "é"}, "texts")
	widest := event{Description: strings.Repeat("x", 65535)}
	expect.OK(t, expect.Err(parsePacket(appendEvent(nil, &widest))))
}

// old returns an event packet in the layout of before 2021-03-17.
func old() []byte {
	b := binary.BigEndian.AppendUint32(nil, 0xC1FC1FB7)
	b = binary.BigEndian.AppendUint32(b, 34+4)
	b = append(b, make([]byte, 8+8+8)...)
	return append(b, 0, 4, 'n', 'a', 'm', 'e')
}

func TestDamage(t *testing.T) {
	good := appendEvent(nil, &event{Description: "good", End: 1})
	resized := func(b []byte, size uint32) []byte {
		b = bytes.Clone(b)
		binary.BigEndian.PutUint32(b[4:], size)
		return b
	}
	attribute := func(b ...byte) []byte { return resized(append(bytes.Clone(good), b...), uint32(len(good)+len(b))) }
	for _, x := range []struct {
		name  string
		bytes []byte
		want  error
		after bool // the packets after it are read
	}{
		{"magic", []byte("XXXXXXXXXXXXXXXXXX"), errMagic, false},
		{"zeros", make([]byte, 100), errMagic, false},
		{"size 7", resized(good, 7), errSize, false},
		{"size 0", resized(good, 0), errSize, false},
		{"size 8", resized(good, 8)[:8], errLength, true},
		{"size 41", resized(good, 41)[:41], errLength, true},
		{"old layout", old(), errOldLayout, true},
		{"type 0x80", attribute(0, 0, 0x80, 0, 0), errType, true},
		{"type 5", attribute(0, 0, 5, 0, 0), errType, true},
		{"no type", attribute(0, 0), errLength, true},
		{"half a name", attribute(0, 9, 1), errLength, true},
		{"half a number", attribute(0, 0, 1, 0, 0), errLength, true},
		{"half a text", attribute(0, 0, 4, 0, 1), errLength, true},
		{"array too long", attribute(0, 0, 0x81, 0xff, 0xff), errLength, true},
		{"array of texts too long", attribute(0, 0, 0x84, 0, 2, 0, 0), errLength, true},
		{"epoch of 7 bytes", appendOption(nil, &option{Name: "epoch", Value: make([]byte, 7)}), errEpoch, true},
		{"too large", append(resized(good, 130<<20), make([]byte, 130<<20-len(good))...), errTooLarge, true},
		{"cut", good[:len(good)-1], format.ErrTruncated, false},
		{"cut in the magic", good[:3], format.ErrTruncated, false},
	} {
		in := append(bytes.Clone(good), x.bytes...)
		want := 2
		if x.after {
			in = append(in, good...)
			want = 3
		}
		v, err := decoded(t, in, format.V2)
		e, ok := errors.AsType[*input.Error](err)
		if !errors.Is(err, x.want) || !ok || e.Offset != int64(len(good)) || e.Unit != "packet 1" || v.Len() != want {
			t.Errorf("%s: %v and %d entries, want %v in packet 1 and %d", x.name, err, v.Len(), x.want, want)
		}
		if _, err := parsePacket(x.bytes); !errors.Is(err, x.want) && x.name != "too large" {
			t.Errorf("%s alone: %v, want %v", x.name, err, x.want)
		}
	}
}

// TestPieces decodes an input that arrives byte by byte, and an input whose read fails.
func TestPieces(t *testing.T) {
	in := read(t, "testdata/e_many_142B.htf")
	whole, err := decoded(t, in, format.V2)
	converttest.Must(t, err)
	failed := errors.New("failed")
	for _, x := range []struct {
		r    io.Reader
		want error
	}{
		{iotest.OneByteReader(bytes.NewReader(in)), nil},
		{io.MultiReader(bytes.NewReader(in), iotest.ErrReader(failed)), failed},
	} {
		var out bytes.Buffer
		w, err := format.NewWriter(&out, format.V2, format.IET, nil)
		converttest.Must(t, err)
		expect.Is(t, Decode(t.Context(), x.r, w), x.want, "the error")
		converttest.Must(t, w.Close())
		expect.Equal(t, text(t, open(t, out.Bytes())), text(t, whole), "entries")
	}
}

// TestUDP sends packets over UDP, each in a datagram, and decodes the packets that arrive.
func TestUDP(t *testing.T) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	converttest.Must(t, err)
	defer conn.Close()
	c, err := net.Dial("udp", conn.LocalAddr().String())
	converttest.Must(t, err)
	defer c.Close()
	packets := foreignPackets(20)
	for r := (&reader{b: packets}); r.more(); {
		p, err := r.next()
		converttest.Must(t, err)
		_, err = c.Write(p.Raw)
		converttest.Must(t, err)
	}
	var out bytes.Buffer
	w, err := format.NewWriter(&out, format.V2, format.IET, nil)
	converttest.Must(t, err)
	converttest.Must(t, Decode(t.Context(), io.LimitReader(conn, int64(len(packets))), w))
	converttest.Must(t, w.Close())
	sameContent(t, packets, open(t, out.Bytes()))
}

// TestEveryCut cuts a file after every byte. The complete packets must be decoded, and the error must name the packet
// that was cut.
func TestEveryCut(t *testing.T) {
	in := read(t, "testdata/real-plain.htf")
	starts := map[int]int{}
	r := &reader{b: in}
	for n := 0; r.more(); n++ {
		starts[r.off] = n
		_, err := r.next()
		converttest.Must(t, err)
	}
	whole := 0
	for n := range in {
		v, err := decoded(t, in[:n], format.V2)
		if k, ok := starts[n]; ok {
			whole = k
			converttest.Must(t, err)
		} else if !errors.Is(err, format.ErrTruncated) {
			t.Errorf("cut at %d: %v", n, err)
		}
		expect.Equal(t, v.Len(), whole+1, "cut at %d: entries", n)
	}
}
