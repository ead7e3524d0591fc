package measureme

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

// plain is metadata that the tools of measureme accept.
const plain = `{ "start_time": 1000, "process_id": 7, "cmd": "x " }`

// A parts is the content of a file before it is divided into pages.
type parts struct {
	events []event
	data   string // the strings after the metadata
	meta   string
	index  []uint64
}

func header(magic string) []byte {
	return binary.LittleEndian.AppendUint32([]byte(magic), version)
}

func page(tag byte, payload []byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{tag}, uint32(len(payload))), payload...)
}

func (p *parts) streams(t testing.TB) (events, data, index []byte) {
	t.Helper()
	events, err := binary.Append(header(magicEvents), binary.LittleEndian, p.events)
	must(t, err)
	data = append(header(magicStrings), p.meta+"\xff"+p.data...)
	index, err = binary.Append(header(magicIndex), binary.LittleEndian, append([]uint64{metadataID, metadataOffset}, p.index...))
	must(t, err)
	return events, data, index
}

func (p *parts) file(t testing.TB) []byte {
	t.Helper()
	events, data, index := p.streams(t)
	return slices.Concat(header(magicFile), page(tagStrings, data), page(tagEvents, events), page(tagIndex, index))
}

// id returns the id of the string at an offset in parts.data, if the metadata is plain.
func id(offset int) uint64 { return uint64(firstRegular + headerSize + len(plain) + 1 + offset) }

func ref(id uint64) string {
	return string(binary.LittleEndian.AppendUint64([]byte{reference}, id))
}

func interval(kind, id, start, end uint64) event {
	return event{kind, id, 1, uint32(start), uint32(end), uint32(start>>32)<<16 | uint32(end>>32)}
}

// labels returns the events of v in the order of their entries, separated by spaces.
func labels(t *testing.T, v *view.View) string {
	t.Helper()
	var s []string
	for _, r := range rows(t, v) {
		s = append(s, r.Kind+":"+r.Label+strings.Join(append([]string{""}, r.Args...), "|"))
	}
	return strings.Join(s, " ")
}

func TestDecodeStrings(t *testing.T) {
	for _, test := range []struct {
		name string
		data string
		id   uint64
		want string
		err  error
	}{
		{"literal", "abc\xff", id(0), "abc", nil},
		{"empty", "\xff", id(0), "", nil},
		{"reference", "abc\xffx" + ref(id(0)) + "y\xff", id(4), "xabcy", nil},
		{"arguments", "abc\xff" + ref(id(0)) + "\x1ea b\x1e\x1ec\xff", id(4), "abc|a b||c", nil},
		{"suffix of another", "abc\xff", id(1), "bc", nil},
		{"not UTF-8", "a\x80\xc3b\xff", id(0), "a\uFFFDb", nil},
		{"virtual", "abc\xff", 5, "abc", nil},
		{"last of two", "abc\xffdef\xff", 6, "def", nil},
		{"unmapped", "", 99, unknown, nil},
		{"invalid id", "", 100_000_002, unknown, nil},
		{"reference to unmapped", "a" + ref(99) + "\xff", id(0), "a" + unknown, nil},
		{"beyond the end", "", id(100), damaged, errString},
		{"far beyond the end", "", 1<<64 - 1, damaged, errString},
		{"in the header", "", firstRegular + 2, damaged, errString},
		{"no end", "abc", id(0), damaged, errString},
		{"half a reference", "abc" + ref(id(0))[:5], id(0), damaged, errString},
		{"cycle", "a" + ref(id(0)) + "\xff", id(0), damaged, errCycle},
		{"index beyond the end", "", 7, damaged, errString},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := parts{meta: plain, data: test.data, events: []event{interval(metadataID, test.id, 1, 2), interval(99, 99, 1, 1)}}
			p.index = []uint64{5, id(0) - firstRegular, 6, id(0) - firstRegular, 6, id(4) - firstRegular, 7, 1 << 63, 1 << 40, 8}
			v, err := decode(t, p.file(t))
			expect.Is(t, err, test.err, "the error")
			want := plain + ":" + test.want + " <unknown>:<unknown>"
			expect.Equal(t, labels(t, v), want, "labels")
			if e, ok := errors.AsType[*input.Error](err); ok && (e.Unit != "event 0" || e.Offset != int64(8+5+8+len(plain)+1+len(test.data)+5+8)) {
				t.Errorf("the place is wrong: %v", e)
			}
		})
	}
}

// TestDecodeExponential decodes strings that consist of references to each other. Expanding them would never end.
// Some have characters, others only references.
func TestDecodeExponential(t *testing.T) {
	for _, text := range []string{"", "x"} {
		data, at := text+"\xff", 0
		for range 60 {
			next := len(data)
			data += ref(id(at)) + ref(id(at)) + "\xff"
			at = next
		}
		p := parts{meta: plain, data: data}
		for i := range uint64(1000) {
			p.events = append(p.events, interval(99, id(at), i, i))
			at -= int(i % 2)
		}
		expect.Is(t, expect.Err(decode(t, p.file(t))), errTooLarge, "the error")
	}
}

func TestDecodeDamage(t *testing.T) {
	p := parts{meta: plain, data: "k\xffa\xff", events: []event{
		interval(id(0), id(2), 1, 2), interval(id(0), id(2), 5, 4), {}, interval(id(0), id(2), 0, 9),
	}}
	whole := p.file(t)
	p.events = append(p.events[:1], p.events[3])
	events, data, index := p.streams(t)
	start := header(magicFile)
	with := func(pages ...[]byte) []byte { return bytes.Join(append([][]byte{start}, pages...), nil) }
	es, ds, is := page(tagEvents, events), page(tagStrings, data), page(tagIndex, index)
	change := func(b []byte, at int, c byte) []byte {
		b = bytes.Clone(b)
		b[at] = c
		return b
	}
	all := "k:a k:a"
	for _, test := range []struct {
		name   string
		file   []byte
		want   string
		err    error
		offset int
	}{
		{"whole", with(es, ds, is), all, nil, 0},
		{"other order", with(is, ds, es), all, nil, 0},
		{"two kinds of damage", whole, all, errTime, 8 + len(ds) + 5 + 8 + 32},
		{"empty", nil, "", format.ErrTruncated, 0},
		{"half a header", start[:5], "", format.ErrTruncated, 5},
		{"header only", start, "", format.ErrTruncated, 8},
		{"no strings", with(es, is), "<invalid>:<invalid> <invalid>:<invalid>", format.ErrTruncated, 8 + len(es) + len(is)},
		{"no index", with(es, ds), all, format.ErrTruncated, 8 + len(es) + len(ds)},
		{"half an event", with(ds, is, page(tagEvents, events[:len(events)-3])), "k:a", format.ErrTruncated, 8 + len(ds) + len(is) + 5 + 8 + 32},
		{"torn page header", with(es, ds, is, []byte{1, 5}), all, format.ErrTruncated, 8 + len(es) + len(ds) + len(is) + 2},
		{"torn page", with(is, ds, es[:len(es)-40]), "", format.ErrTruncated, 8 + len(is) + len(ds) + 5},
		{"stream magic", with(change(es, 6, 'x'), ds, is), "", errMagic, 8 + 5},
		{"tag", with(es, ds, is, []byte{3, 1, 0, 0, 0, 0}), all, errTag, 8 + len(es) + len(ds) + len(is)},
		{"size", with(es, ds, is, []byte{1, 0, 0, 0, 0}), all, errPageSize, 8 + len(es) + len(ds) + len(is)},
		{"zeros to the end", with(es, ds, is, make([]byte, 100)), all, format.ErrTruncated, 8 + len(es) + len(ds) + len(is)},
		{"hole", with(ds, is, make([]byte, 2*fullPageSize), es), all, errHole, 8 + len(is) + len(ds)},
		{"hole at the end", with(ds, is, es, make([]byte, fullPageSize)), all, errHole, 8 + len(is) + len(ds) + len(es)},
		{"hole of another size", with(is, make([]byte, fullPageSize-1), ds, es), "", errPageSize, 8 + len(is)},
		{"hole that was cut", with(ds, is, es, make([]byte, fullPageSize+10)), all, errHole, 8 + len(is) + len(ds) + len(es)},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, err := decode(t, test.file)
			expect.MustIs(t, err, test.err, "the error")
			expect.Equal(t, labels(t, v), test.want, "labels")
			if e, ok := errors.AsType[*input.Error](err); test.err != nil && (!ok || e.Offset != int64(test.offset)) {
				t.Errorf("the place is %v, want %d", err, test.offset)
			}
		})
	}
}

func TestDecodeOthers(t *testing.T) {
	for name, file := range map[string][]byte{
		"another format": []byte("\x00ENTRACE\x02\x01 and more"),
		"a text":         []byte("MMx"),
		"version 7":      []byte("MMPD\x07\x00\x00\x00"),
	} {
		v, err := decode(t, file)
		if e, ok := errors.AsType[*input.Error](err); !ok || v.Len() != 0 {
			t.Errorf("%s: %d entries and the error %v %v", name, v.Len(), e, err)
		}
	}
	_, err := decode(t, []byte("MMPD\x07\x00\x00\x00"))
	if want := "at offset 4: unsupported version 7, expected 8 or 9"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	p := parts{meta: plain}
	b := p.file(t)
	b[8+5+4] = 8
	_, err = decode(t, b)
	if want := "page 0 at offset 13: the stream has version 8, but the file has version 9"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	broken := errors.New("broken")
	_, err = decodeFrom(t, io.MultiReader(bytes.NewReader(b[:20]), iotest.ErrReader(broken)))
	expect.Is(t, err, broken, "the error")
}

// TestDecodeCut cuts a file after every byte. Everything before the cut must be decoded.
func TestDecodeCut(t *testing.T) {
	whole := read(t, "testdata/gold.mm_profdata")
	before := 0
	for n := range whole {
		v, err := decode(t, whole[:n])
		expect.MustIs(t, err, format.ErrTruncated, "cut at %d: the error", n)
		if _, ok := errors.AsType[*input.Error](err); !ok {
			t.Fatalf("cut at %d: the error has no place: %v", n, err)
		}
		got := len(rows(t, v))
		if got < before {
			t.Errorf("cut at %d: %d events, %d of less", n, got, before)
		}
		before = got
	}
	// Here the strings come after the events, and the index is last. If the end of the index is missing, only names
	// are lost.
	v, _ := decode(t, whole[:len(whole)-1])
	expect.Equal(t, labels(t, v), "GenericActivity:label GenericActivity:label|arg0 GenericActivity:late GenericActivity:label|arg0|label", "labels")
}

func TestDecodeMetadata(t *testing.T) {
	for _, test := range []struct {
		name, meta, command string
		start               int64
		err                 error
	}{
		{"plain", plain, "x ", 1000, nil},
		{"escaped as in Rust", `{ "start_time": 5, "process_id": 7, "cmd": "it\'s \u{e9}\u{1F600} \"q\" \\ " }`, `it's é😀 "q" \ `, 5, nil},
		{"other types", `{"start_time": "x", "process_id": -1, "cmd": 5, "counter": 1}`, "", 0, nil},
		{"too late", `{"start_time": 18446744073709551615, "cmd": "x"}`, "x", maxStart, nil},
		{"no object", `null`, "", 0, errMetadata},
		{"no JSON", `{"start_time": `, "", 0, errMetadata},
		{"bad escapes", `{"cmd": "\u{110000}\u{d800}\u{`, "", 0, errMetadata},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := parts{meta: test.meta, events: []event{interval(99, 99, 0, 1)}}
			v, err := decode(t, p.file(t))
			expect.MustIs(t, err, test.err, "the error")
			e, err := v.Entry(1)
			must(t, err)
			if c, _ := e.Attribute(attrCommand); c.Text() != test.command {
				t.Errorf("the command is %q, want %q", c.Text(), test.command)
			}
			if at, _ := v.Time(2); at.UnixNano() != max(test.start, 1) {
				t.Errorf("the start is %d, want %d", at.UnixNano(), test.start)
			}
		})
	}
}
