package format

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/core/wire"
)

// A damage is a list of fields and their values, such as "level of 3 = 9".
type damage []string

// parseDamages returns every combination of the fields and values in a line of testdata/damage.txt.
func parseDamages(line string) []damage {
	all := []damage{nil}
	for part := range strings.SplitSeq(line, " and ") {
		fields, values, _ := strings.Cut(part, " = ")
		fields, of, inEntry := strings.Cut(fields, " of ")
		var next []damage
		for _, d := range all {
			for field := range strings.SplitSeq(fields, ", ") {
				if inEntry {
					field += " of " + of
				}
				for value := range strings.SplitSeq(values, ", ") {
					next = append(next, append(slices.Clone(d), field+" = "+value))
				}
			}
		}
		all = next
	}
	return all
}

// offset returns the offset of a field, such as "offsets[2]" or "level of 3".
func (t *fakeTrace) offset(field string) (at int, ok bool) {
	name, of, inEntry := strings.Cut(field, " of ")
	if !inEntry {
		at, ok = t.at[field]
		return at, ok
	}
	id := atoi(of)
	if id >= len(t.raws) {
		return 0, false
	}
	at, ok = t.raws[id].at[name]
	return t.bodies[id] + at, ok
}

// number returns the value of a sum of numbers, powers of two, and fields of t. "right" is the field itself, and "size"
// the size of all entries of an ET.
func (t *fakeTrace) number(field, sum string) uint64 {
	if i := strings.LastIndexAny(sum, "+-"); i >= 0 {
		a, b := t.number(field, sum[:i]), t.number(field, sum[i+1:])
		if sum[i] == '-' {
			return a - b
		}
		return a + b
	}
	if power, ok := strings.CutPrefix(sum, "2^"); ok {
		return 1 << atoi(power)
	}
	if n, err := strconv.ParseUint(sum, 10, 64); err == nil {
		return n
	}
	switch sum {
	case "size":
		return uint64(len(t.b) - t.at["data"])
	case "right":
		sum = field
	}
	at, ok := t.offset(sum)
	if !ok {
		panic("no number: " + sum)
	}
	if strings.HasPrefix(sum, "frame") {
		return binary.LittleEndian.Uint64(t.b[at:])
	}
	d := decoder{b: t.b, off: at}
	return d.Uint("", 64)
}

// encode returns the bytes of a value for a field of t.
func (t *fakeTrace) encode(field, value string) (b []byte, n uint64) {
	if text, err := strconv.Unquote(value); err == nil || value == "nothing" {
		return []byte(text), math.MaxUint64
	}
	if bytes, ok := strings.CutPrefix(value, "hex "); ok {
		for part := range strings.FieldsSeq(bytes) {
			digits, times, _ := strings.Cut(part, "*")
			some, err := hex.DecodeString(digits)
			if err != nil {
				panic(err)
			}
			b = append(b, slices.Repeat(some, atoi(cmp.Or(times, "1")))...)
		}
		if len(b) == 1 {
			return b, uint64(b[0])
		}
		return b, math.MaxUint64
	}
	sum, width, wide := strings.Cut(strings.TrimSuffix(value, " bytes"), " in ")
	n = t.number(field, sum)
	b = binary.LittleEndian.AppendUint64(nil, n)
	switch {
	case wide:
		size := atoi(width)
		tag := map[int]byte{2: wire.Tag16, 4: wire.Tag32, 8: wire.Tag64, 16: wire.Tag128}[size]
		return append([]byte{tag}, append(b, make([]byte, 8)...)[:size]...), n
	case strings.HasPrefix(field, "frame"):
		return b, n
	}
	return wire.AppendUint(nil, n), n
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// A damaged is a trace after a damage.
type damaged struct {
	*fakeTrace

	name       string // of the file
	entry      int    // the damaged entry, or -1
	here, next int    // the offsets of the first damaged field, and of the field that follows it
	field      string // its name in errors
	set        uint64 // the number that it has now
}

// apply damages a trace of the root and six entries. It returns nil if a trace of that kind does not have the fields.
func (d damage) apply(v Version, sf StorageFormat) *damaged {
	f := fakeFile{Version: v, Format: sf, Entries: fakes(6), Instead: make(map[string][]byte)}
	for i := range f.Entries {
		f.Entries[i].Instead = make(map[string][]byte)
	}
	good := f.build()
	x := &damaged{entry: -1, here: -1}
	first, size, cut := "", 0, math.MaxInt
	for _, set := range d {
		field, value, _ := strings.Cut(set, " = ")
		switch field {
		case "entries":
			f.Entries = f.Entries[:good.number(field, value)]
			continue
		case "cut":
			cut = int(good.number(field, value))
			continue
		}
		if _, ok := good.offset(field); !ok && field != "tail" {
			return nil
		}
		name, of, inEntry := strings.Cut(field, " of ")
		id, instead := -1, f.Instead
		if inEntry {
			id = atoi(of)
			instead = f.Entries[id].Instead
		}
		b, n := good.encode(field, value)
		instead[name] = b
		if strings.HasPrefix(value, `"`) {
			instead[name+".len"] = wire.AppendUint(nil, uint64(len(b)))
		}
		if first == "" {
			first, size = field, len(b)
			x.entry, x.set, x.field = id, n, nameInErrors(v, name)
		}
	}
	f.Tail = f.Instead["tail"]
	x.fakeTrace = f.build()
	if at, ok := x.offset(first); ok {
		x.here, x.next = at, at+size
	}
	x.b = x.b[:min(cut, len(x.b))]
	return x
}

// nameInErrors returns the name that a field of a layout has in errors.
func nameInErrors(v Version, field string) string {
	list, rest, _ := strings.Cut(field, "[")
	index, part, _ := strings.Cut(rest, "]")
	switch {
	case list == "frame":
		return "length"
	case list != "attr":
		return strings.TrimSuffix(strings.TrimSuffix(list, ".len"), "?")
	case v == V1:
		return "attributes[" + index + "]"
	case strings.HasPrefix(part, ".name"):
		return "attr_names[" + index + "]"
	}
	return "attr_values[" + index + "]"
}
