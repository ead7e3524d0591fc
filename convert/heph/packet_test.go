package heph_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/entrace-go/entrace/convert/heph"
	"github.com/entrace-go/entrace/format"
)

// TestDocument makes both examples of the format's document, to the byte.
func TestDocument(t *testing.T) {
	if got, want := heph.AppendEpoch(nil, 1610113734118010000), read(t, "testdata/doc-metadata-23.bin"); !bytes.Equal(got, want) || len(got) != 23 {
		t.Errorf("epoch is % x, want % x", got, want)
	}
	e := &heph.Event{SubstreamID: 1, Start: 100, End: 200, Description: "My event", Attributes: []heph.Attribute{
		{Name: "Test", Value: heph.U64(123)}, {Name: "Test2", Value: heph.F64s([]float64{123.456, 789})},
	}}
	want := read(t, "testdata/doc-event-91.bin")
	got := heph.AppendEvent([]byte("x"), e)[1:]
	if !bytes.Equal(got, want) || len(got) != 91 {
		t.Errorf("event is % x, want % x", got, want)
	}
	p, err := heph.ParsePacket(want)
	must(t, err)
	if p.Metadata || !bytes.Equal(heph.AppendEvent(nil, &p.Event), want) || p.Event.Attributes[1].Value.Type() != heph.TypeF64|heph.TypeArray {
		t.Errorf("the event is read as %+v", p.Event)
	}
	p, err = heph.ParsePacket(read(t, "testdata/doc-metadata-23.bin"))
	must(t, err)
	if nano, ok := p.Option.Epoch(); !ok || nano != 1610113734118010000 {
		t.Errorf("the epoch is read as %d, %v", nano, ok)
	}
}

func TestValues(t *testing.T) {
	e := &heph.Event{Attributes: []heph.Attribute{
		{Name: "u", Value: heph.U64(math.MaxUint64)},
		{Name: "i", Value: heph.I64(math.MinInt64)},
		{Name: "f", Value: heph.F64(math.NaN())},
		{Name: "s", Value: heph.String("\xff")},
		{Name: "u", Value: heph.U64s([]uint64{1, math.MaxUint64})},
		{Name: "", Value: heph.I64s([]int64{-1})},
		{Name: "ss", Value: heph.Strings([]string{"", "é"})},
		{Name: "none", Value: heph.Strings(nil)},
	}}
	b := heph.AppendEvent(nil, e)
	p, err := heph.ParsePacket(b)
	must(t, err)
	c := p.Event.Clone()
	clear(b)
	var got []string
	for _, a := range c.Attributes {
		got = append(got, a.Name+":"+a.Value.Type().String())
	}
	if s := strings.Join(got, " "); s != "u:u64 i:i64 f:f64 s:string u:u64[] :i64[] ss:string[] none:string[]" {
		t.Errorf("attributes are %s", s)
	}
	v := func(i int) heph.Value { return c.Attributes[i].Value }
	if v(0).U64() != math.MaxUint64 || v(1).I64() != math.MinInt64 || !math.IsNaN(v(2).F64()) || v(3).Text() != "\xff" || v(4).Len() != 2 || v(7).Len() != 0 {
		t.Errorf("values are %v", c.Attributes)
	}
	var texts []string
	v(6).Each(func(v heph.Value) bool { texts = append(texts, v.Text()); return true })
	if !slices.Equal(texts, []string{"", "é"}) {
		t.Errorf("texts are %q", texts)
	}
	for _, bad := range []heph.Event{
		{Description: strings.Repeat("x", 65536)},
		{Attributes: []heph.Attribute{{Name: "zero"}}},
		{Attributes: []heph.Attribute{{Name: "n", Value: heph.U64s(make([]uint64, 65536))}}},
		{Attributes: []heph.Attribute{{Name: strings.Repeat("x", 65536), Value: heph.U64(1)}}},
		{Attributes: []heph.Attribute{{Name: "n", Value: heph.String(strings.Repeat("x", 65536))}}},
	} {
		if err := bad.Check(); err == nil {
			t.Error("no error of an event that has no packet")
		}
	}
	widest := heph.Event{Description: strings.Repeat("x", 65535)}
	must(t, widest.Check())
	if _, err := heph.ParsePacket(heph.AppendEvent(nil, &widest)); err != nil {
		t.Error(err)
	}
}

// old is an event packet in the layout of before 2021-03-17.
func old() []byte {
	b := binary.BigEndian.AppendUint32(nil, 0xC1FC1FB7)
	b = binary.BigEndian.AppendUint32(b, 34+4)
	b = append(b, make([]byte, 8+8+8)...)
	return append(b, 0, 4, 'n', 'a', 'm', 'e')
}

func TestDamage(t *testing.T) {
	good := heph.AppendEvent(nil, &heph.Event{Description: "good", End: 1})
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
		after bool // what comes behind is read
	}{
		{"magic", []byte("XXXXXXXXXXXXXXXXXX"), heph.ErrMagic, false},
		{"zeros", make([]byte, 100), heph.ErrMagic, false},
		{"size 7", resized(good, 7), heph.ErrSize, false},
		{"size 0", resized(good, 0), heph.ErrSize, false},
		{"size 8", resized(good, 8)[:8], heph.ErrLength, true},
		{"size 41", resized(good, 41)[:41], heph.ErrLength, true},
		{"old layout", old(), heph.ErrOldLayout, true},
		{"type 0x80", attribute(0, 0, 0x80, 0, 0), heph.ErrType, true},
		{"type 5", attribute(0, 0, 5, 0, 0), heph.ErrType, true},
		{"no type", attribute(0, 0), heph.ErrLength, true},
		{"half a name", attribute(0, 9, 1), heph.ErrLength, true},
		{"half a number", attribute(0, 0, 1, 0, 0), heph.ErrLength, true},
		{"half a text", attribute(0, 0, 4, 0, 1), heph.ErrLength, true},
		{"array too long", attribute(0, 0, 0x81, 0xff, 0xff), heph.ErrLength, true},
		{"array of texts too long", attribute(0, 0, 0x84, 0, 2, 0, 0), heph.ErrLength, true},
		{"epoch of 7 bytes", heph.AppendOption(nil, &heph.Option{Name: "epoch", Value: make([]byte, 7)}), heph.ErrEpoch, true},
		{"too large", append(resized(good, 130<<20), make([]byte, 130<<20-len(good))...), heph.ErrTooLarge, true},
		{"cut", good[:len(good)-1], format.ErrTruncated, false},
		{"cut in the magic", good[:3], format.ErrTruncated, false},
	} {
		in := append(bytes.Clone(good), x.bytes...)
		want := 2
		if x.after {
			in = append(in, good...)
			want = 3
		}
		v, err := decode(t, in, format.V2)
		e, ok := errors.AsType[*heph.Error](err)
		if !errors.Is(err, x.want) || !ok || e.Offset != int64(len(good)) || e.Packet != 1 || v.Len() != want {
			t.Errorf("%s: %v and %d entries, want %v in packet 1 and %d", x.name, err, v.Len(), x.want, want)
		}
		if _, err := heph.ParsePacket(x.bytes); !errors.Is(err, x.want) && x.name != "too large" {
			t.Errorf("%s alone: %v, want %v", x.name, err, x.want)
		}
	}
	if _, err := heph.ParsePacket(append(bytes.Clone(good), 0)); !errors.Is(err, heph.ErrLeftOver) {
		t.Errorf("a byte too many: %v", err)
	}
	if !errors.Is(&heph.Error{Err: format.ErrTruncated}, io.ErrUnexpectedEOF) {
		t.Error("a truncated input is no unexpected end")
	}
}

// TestReaderPieces reads an input that comes byte by byte, and one that fails.
func TestReaderPieces(t *testing.T) {
	in := read(t, "testdata/e_many_142B.htf")
	r := heph.NewReader(iotest.OneByteReader(bytes.NewReader(in)))
	var out []byte
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if p.Offset != int64(len(out)) {
			t.Fatalf("packet %d is at %d, want %d", p.Number, p.Offset, len(out))
		}
		out = append(out, p.Raw...)
	}
	if !bytes.Equal(out, in) {
		t.Error("the packets are not the input")
	}
	failed := errors.New("failed")
	r = heph.NewReader(io.MultiReader(bytes.NewReader(in[:100]), iotest.ErrReader(failed)))
	for {
		if _, err := r.Next(); err != nil {
			if !errors.Is(err, failed) {
				t.Errorf("the error is %v, want the source's", err)
			}
			break
		}
	}
}

// TestEveryCut cuts a file at every byte: what is whole is there, the rest is named.
func TestEveryCut(t *testing.T) {
	in := read(t, "testdata/real-plain.htf")
	starts := map[int]int{}
	r := heph.NewReader(bytes.NewReader(in))
	for n := 0; ; n++ {
		starts[int(r.Offset())] = n
		if _, err := r.Next(); err != nil {
			break
		}
	}
	whole := 0
	for n := range in {
		v, err := decode(t, in[:n], format.V2)
		if k, ok := starts[n]; ok {
			whole = k
			must(t, err)
		} else if !errors.Is(err, format.ErrTruncated) {
			t.Errorf("cut at %d: %v", n, err)
		}
		if v.Len() != whole+1 {
			t.Errorf("cut at %d: %d entries, want %d", n, v.Len(), whole+1)
		}
	}
}
