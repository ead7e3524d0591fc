package record_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

var must = expect.Must

// A rig is a journal, with an Interner and a Builder for its records.
type rig struct {
	j    *journal.Journal
	in   *record.Interner
	b    *record.Builder
	hint journal.Hint
	name string
}

func newRig(t testing.TB) *rig {
	t.Helper()
	name := hosttest.Path(t, "j")
	j, err := journal.New(journal.Options{Medium: journal.Mapped, Name: name, Segments: 64, Extra: 40, MaxWait: time.Second})
	must(t, err)
	r := &rig{j: j, in: record.NewInterner(nil, nil), name: name}
	r.b = &record.Builder{In: r.in}
	must(t, r.in.Attach(j))
	t.Cleanup(func() { _ = j.Close() })
	return r
}

// append appends the record in r.b to the journal.
func (r *rig) append(t testing.TB, kind record.Kind) {
	t.Helper()
	var rec journal.Record
	r.b.Record(&rec)
	rec.Time, rec.Info, rec.Leaf = 1, record.Info(kind, 1, 0, 0, r.b.Entries()), kind == record.KindLog
	_, err := r.j.Append(&rec, &r.hint)
	must(t, err)
}

// dead closes the journal and reads it as recovery does after a kill.
func (r *rig) dead(t testing.TB) (*journal.Merge, *record.Table) {
	t.Helper()
	must(t, r.j.Close())
	f, err := journal.OpenDead(r.name, false)
	must(t, err)
	defer f.Close()
	fi, err := f.Stat()
	must(t, err)
	d, err := journal.ReadDead(f, fi.Size(), func([]byte) func(uint32) uint64 { return func(uint32) uint64 { return 0 } })
	must(t, err)
	return journal.NewMerge(d.Shards()), record.ReadTable(d)
}

// text returns the text of x. If x is a number, this is the text of its definition.
func text(table *record.Table, x record.Text) string {
	if x.Number == 0 {
		return x.Text
	}
	d := table.Get(x.Number)
	if d == nil {
		return fmt.Sprint("#", x.Number)
	}
	return d.Text
}

// show returns the entries of a record, one a line.
func show(t testing.TB, table *record.Table, rec *record.Record) string {
	t.Helper()
	var b strings.Builder
	var h record.Head
	c := rec.Cursor()
	for range rec.Entries {
		if !c.Next(&h) {
			t.Fatal("a record is damaged")
		}
		if h.Place != 0 {
			at := record.CursorAt(table.Get(h.Place))
			var p record.Head
			at.Next(&p)
			h.Name, h.Target = p.Name, p.Target
			if h.PlaceMessage {
				h.Message = p.Message
			}
		}
		fmt.Fprintf(&b, "%d %s [%s] %q", h.Level, text(table, h.Name), text(table, h.Target), h.Message)
		var i record.Item
		for code := c.Item(&i); code != record.CodeEnd; code = c.Item(&i) {
			switch code {
			case record.CodeAttribute:
				fmt.Fprintf(&b, " %s=%s", text(table, i.Name), value(&i))
			case record.CodeGroup:
				fmt.Fprintf(&b, " %s{", text(table, i.Name))
			case record.CodeGroupEnd:
				b.WriteString(" }")
			case record.CodeTruncated:
				b.WriteString(" …")
			case record.CodeTime:
				fmt.Fprintf(&b, " time=%d", i.Lo)
			}
		}
		b.WriteByte('\n')
	}
	if c.Bad() {
		t.Fatal("a record is damaged")
	}
	return b.String()
}

func value(i *record.Item) string {
	switch i.Kind {
	case record.ValueTime:
		return i.Time().Format(time.RFC3339Nano)
	case record.ValueFloat:
		return fmt.Sprint(math.Float64frombits(i.Lo))
	case record.ValueI64, record.ValueDuration:
		return fmt.Sprint(int64(i.Lo))
	case record.ValueBool, record.ValueU64:
		return fmt.Sprint(i.Lo)
	case record.ValueU128, record.ValueI128:
		return fmt.Sprintf("%d:%d", i.Hi, i.Lo)
	}
	return fmt.Sprintf("%q", i.Text)
}

// TestThereAndBack writes random entries with every kind of item, and reads them as recovery does. Names occur
// often enough to get numbers.
func TestThereAndBack(t *testing.T) {
	r := newRig(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "user.name", strings.Repeat("long", 100), "", "ü", "otel.kind"}
	place := r.in.Place(&wire.Head{Name: "event a.go:1", Target: "shop", Message: "said", HasMessage: true})
	said := "said" // a second string with the text of the place's message
	var want strings.Builder
	for n := range 3000 {
		r.b.Reset(0, nil, nil)
		for range 1 + rnd.IntN(3) {
			level := uint8(rnd.IntN(5))
			if n%3 == 0 {
				message := said
				if n%2 == 0 {
					message = "other"
				}
				r.b.Place(place, level, message)
				fmt.Fprintf(&want, "%d event a.go:1 [shop] %q", level, message)
			} else {
				r.b.Head(&wire.Head{Name: "span", Target: "shop", Level: level, HasMessage: true, Message: "m"})
				fmt.Fprintf(&want, "%d span [shop] %q", level, "m")
			}
			open := 0
			for range rnd.IntN(12) {
				name := names[rnd.IntN(len(names))]
				add := func(v string) { fmt.Fprintf(&want, " %s=%s", name, v) }
				x := rnd.Uint64() >> rnd.IntN(64)
				switch rnd.IntN(14) {
				case 0:
					r.b.U64(name, x)
					add(fmt.Sprint(x))
				case 1:
					r.b.I64(name, int64(x))
					add(fmt.Sprint(int64(x)))
				case 2:
					r.b.Duration(name, time.Duration(-int64(x)))
					add(fmt.Sprint(-int64(x)))
				case 3:
					r.b.Bool(name, x&1 > 0)
					add(fmt.Sprint(x & 1))
				case 4:
					r.b.Float(name, math.Float64bits(1.5))
					add("1.5")
				case 5:
					s := strings.Repeat("x", int(x%300))
					r.b.String(name, s)
					add(fmt.Sprintf("%q", s))
				case 6:
					r.b.Bytes(name, "\xff\x00")
					add(`"\xff\x00"`)
				case 7:
					r.b.JSON(name, "[1]")
					add(`"[1]"`)
				case 8:
					r.b.AnyValue(name, "{}")
					add(`"{}"`)
				case 9:
					r.b.Hex(name, []byte("id"))
					add(`"id"`)
				case 10:
					r.b.Wide(name, true, 7, x)
					add(fmt.Sprintf("7:%d", x))
				case 11:
					at := time.Unix(int64(x>>32), 5).In(time.FixedZone("", 3600))
					r.b.Time(name, at)
					add(at.Format(time.RFC3339Nano))
				case 12:
					r.b.Group("g")
					open++
					want.WriteString(" g{")
				case 13:
					if open > 0 {
						r.b.EndGroup()
						open--
						want.WriteString(" }")
					}
				}
			}
			r.b.End()
			want.WriteByte('\n')
		}
		r.append(t, record.KindSpan)
	}
	m, table := r.dead(t)
	var got strings.Builder
	for e := m.Next(); e != nil; e = m.Next() {
		var rec record.Record
		if !rec.Parse(e) {
			t.Fatal("a record is damaged")
		}
		got.WriteString(show(t, table, &rec))
	}
	a, b := strings.Split(got.String(), "\n"), strings.Split(want.String(), "\n")
	for i := range b {
		if i >= len(a) || a[i] != b[i] {
			t.Fatalf("entry %d of %d is\n%s\nwant\n%s", i, len(b), a[min(i, len(a)-1)], b[i])
		}
	}
}

// TestTableIsFull uses more names than there are numbers. The names without a number are written as texts, and the
// other names keep their numbers.
func TestTableIsFull(t *testing.T) {
	r := newRig(t)
	old := "the first one"
	for range 3 {
		r.b.Reset(0, nil, nil)
		r.b.Head(&wire.Head{Name: old})
		r.b.End()
	}
	first := r.b.Size()
	for i := range record.MaxNumber + 1000 {
		name := fmt.Sprint("name ", i)
		for range 2 { // a name gets a number when it is used for the second time
			r.b.Reset(0, nil, nil)
			r.b.Head(&wire.Head{Name: "x"})
			r.b.U64(name, 1)
			r.b.End()
		}
	}
	r.b.Reset(0, nil, nil)
	r.b.Head(&wire.Head{Name: old})
	r.b.End()
	expect.Equal(t, r.b.Size(), first, "the size of the record")
	last := fmt.Sprint("name ", record.MaxNumber+999)
	r.b.Reset(0, nil, nil)
	r.b.Head(&wire.Head{Name: old})
	r.b.U64(last, 7)
	r.b.End()
	r.append(t, record.KindLog)
	m, table := r.dead(t)
	var rec record.Record
	if e := m.Next(); e == nil || !rec.Parse(e) {
		t.Fatal("no record")
	}
	expect.Equal(t, show(t, table, &rec), fmt.Sprintf("0 %s [] \"\" %s=7\n", old, last), "show")
}

// TestNamesThatComeOnce checks that names that are used only once use up no numbers.
func TestNamesThatComeOnce(t *testing.T) {
	r := newRig(t)
	for i := range 3 * record.MaxNumber {
		r.b.Reset(0, nil, nil)
		r.b.Head(&wire.Head{Name: fmt.Sprint("only once ", i)})
		r.b.End()
	}
	sizes := make(map[int]bool)
	for range 5 {
		r.b.Reset(0, nil, nil)
		r.b.Head(&wire.Head{Name: "comes again and again"})
		r.b.End()
		sizes[r.b.Size()] = true
	}
	if len(sizes) != 2 { // with the name as a text, then with its number
		t.Errorf("the sizes are %v", sizes)
	}
}

// TestRenumber builds items whose names have no numbers, and calls Renumber until most names have one. The items
// must then be smaller and have the same content.
func TestRenumber(t *testing.T) {
	r := newRig(t)
	plain := &record.Builder{}
	plain.Reset(0, nil, nil)
	plain.Head(&wire.Head{})
	plain.String("own", "0")
	plain.User()
	from := plain.Mark()
	plain.String("text", "1")
	plain.Group("group")
	plain.U64("number", 1<<40)
	plain.Group("inner")
	plain.Time("time", time.Unix(1, 2).UTC())
	plain.EndGroup()
	plain.Wide("wide", false, 1, 2)
	plain.Truncated()
	plain.EndGroup()
	plain.Hex(strings.Repeat("too long for a number", 20), []byte("id"))
	plain.Bool("bool", true)
	plain.JSON("json", "[]")
	items := plain.Items(from)
	if r.in.Renumber(items) != nil { // each name was used for the first time
		t.Error("names that came once have numbers")
	}
	numbered, tries := items, 0
	for again := items; again != nil || len(numbered) == len(items); again = r.in.Renumber(numbered) {
		tries++
		if tries > 9 { // if hashes of names collide, the names get their numbers one after the other
			t.Fatalf("what has numbers got others: %q", again)
		}
		if again != nil {
			numbered = again
		}
	}
	if len(numbered) >= len(items)-20 {
		t.Errorf("%d bytes became %d", len(items), len(numbered))
	}
	for cut := range items { // Renumber must not panic on damaged items
		_ = r.in.Renumber(items[:cut])
	}
	for _, list := range [][]byte{items, numbered} {
		r.b.Reset(0, nil, nil)
		r.b.Head(&wire.Head{Name: "x"})
		r.b.RecordTime()
		r.b.User()
		r.b.Append(list)
		r.b.End()
		r.append(t, record.KindLog)
	}
	m, table := r.dead(t)
	var shown []string
	for e := m.Next(); e != nil; e = m.Next() {
		var rec record.Record
		if !rec.Parse(e) {
			t.Fatal("a record is damaged")
		}
		shown = append(shown, show(t, table, &rec))
	}
	if journal.CoarseClock && len(shown) == 2 { // Append has changed the second time
		shown[1] = strings.Replace(shown[1], "time=2 ", "time=1 ", 1)
	}
	if len(shown) != 2 || shown[0] != shown[1] || !strings.Contains(shown[0], "time=1 ") || strings.Count(shown[0], "=") != 8 {
		t.Errorf("there are %q", shown)
	}
}

// TestSharedItems checks that every record has the shared items, and that the segment stores them only once.
func TestSharedItems(t *testing.T) {
	r := newRig(t)
	r.b.Reset(0, nil, nil)
	r.b.Head(&wire.Head{})
	mark := r.b.Mark()
	r.b.String("service", strings.Repeat("s", 1000))
	r.b.Group("g")
	shared := journal.NewShared(r.b.Items(mark))
	const n = 20
	for i := range n {
		r.b.Reset(0, nil, nil)
		r.b.Head(&wire.Head{Name: "e"})
		r.b.Share(shared)
		r.b.U64("i", uint64(i))
		r.b.End()
		r.append(t, record.KindLog)
	}
	m, table := r.dead(t)
	size := 0
	for i := range n {
		var rec record.Record
		e := m.Next()
		if e == nil || !rec.Parse(e) {
			t.Fatal("no record")
		}
		size += len(e.Data)
		expect.MustEqual(t, show(t, table, &rec), fmt.Sprintf("0 e [] \"\" service=%q g{ i=%d\n", strings.Repeat("s", 1000), i), "record %d", i)
	}
	if size > 3000 {
		t.Errorf("%d records take %d bytes", n, size)
	}
}

// TestTextsAreCut checks that texts are cut between two runes, and that the entry is marked as truncated.
func TestTextsAreCut(t *testing.T) {
	r := newRig(t)
	r.b.MaxText = 10
	r.b.Reset(0, nil, nil)
	r.b.Head(&wire.Head{Name: "e", Message: "äääääääää", HasMessage: true})
	r.b.String("s", "0123456789a")
	r.b.JSON("j", `"0123456789"`)
	r.b.Bytes("b", "0123456789a")
	r.b.End()
	r.append(t, record.KindLog)
	m, table := r.dead(t)
	var rec record.Record
	rec.Parse(m.Next())
	want := `0 e [] "äää…" … s="0123456…" … j="\"012345…" … b="0123456789" …` + "\n"
	expect.Equal(t, show(t, table, &rec), want, "show")
}

// TestUndo drops an entry that has not ended.
func TestUndo(t *testing.T) {
	b := new(record.Builder)
	b.Reset(0, nil, nil)
	b.Head(&wire.Head{Name: "kept"})
	b.End()
	size := b.Size()
	b.Head(&wire.Head{Name: "dropped"})
	b.U64("x", 1)
	b.Drop()
	if b.Size() != size || b.Entries() != 1 {
		t.Errorf("%d bytes and %d entries, want %d and 1", b.Size(), b.Entries(), size)
	}
}

// FuzzCursor reads random bytes as a record. The Cursor must come to an end, and not read beyond the bytes.
func FuzzCursor(f *testing.F) {
	b := new(record.Builder)
	b.Reset(0, nil, nil)
	b.Head(&wire.Head{Name: "n", Target: "t", File: "f", HasFile: true, Line: 7, HasLine: true})
	b.String("s", "text")
	b.Group("g")
	b.Time("t", time.Unix(1, 2))
	b.Wide("w", true, 1, 2)
	b.EndGroup()
	b.End()
	f.Add(bytes.Clone(b.Data()), uint16(record.KindLog))
	f.Fuzz(func(t *testing.T, data []byte, info uint16) {
		e := &journal.Entry{Data: bytes.Clone(data), Info: journal.NewInfo(1, 0, uint32(info)), Segment: data}
		var rec record.Record
		if !rec.Parse(e) {
			return
		}
		c := rec.Cursor()
		var h record.Head
		var i record.Item
		for n := 0; c.Next(&h); n++ {
			for code := c.Item(&i); code != record.CodeEnd; code = c.Item(&i) {
				n++
				if n > 100_000 {
					t.Fatal("it does not end")
				}
			}
			if n > len(data) {
				t.Fatalf("%d entries and items in %d bytes", n, len(data))
			}
		}
	})
}

// TestNamesGetNumbers checks that all 100 names of a record get numbers within a few records, whatever their
// hashes.
func TestNamesGetNumbers(t *testing.T) {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("attribute.number.%d", i+100)
	}
	var sizes []int
	of := hosttest.InCI(150, 500)
	for range of {
		j, err := journal.New(journal.Options{Medium: journal.Mapped, Name: hosttest.Path(t, "j"), Segments: 4, MaxWait: time.Second})
		must(t, err)
		in := record.NewInterner(nil, nil)
		must(t, in.Attach(j))
		b := &record.Builder{In: in}
		size := 0
		for range 20 {
			b.Reset(0, nil, nil)
			b.Head(&wire.Head{Name: "x"})
			for _, name := range names {
				b.U64(name, 1)
			}
			b.End()
			size = b.Size()
		}
		sizes = append(sizes, size)
		in.Detach(j)
		must(t, j.Remove())
	}
	least, late := slices.Min(sizes), 0
	for _, size := range sizes {
		if size > least+len(names)/10 { // some names are still texts; a number has one or two bytes
			late++
		}
	}
	if late > 1+of/500 {
		t.Errorf("in %d of %d recorders, names have no numbers", late, of)
	}
}

// TestFailedDefinitionsTakeNoNumbers uses a name again and again while the journal has no room for definitions. The
// failed attempts must not use up numbers: a later journal with room needs them.
func TestFailedDefinitionsTakeNoNumbers(t *testing.T) {
	j, err := journal.New(journal.Options{Medium: journal.Written, Name: hosttest.Path(t, "j"), Segments: 1, MaxWait: time.Second})
	must(t, err)
	in := record.NewInterner(nil, nil)
	must(t, in.Attach(j))
	var hint journal.Hint
	full := &record.Builder{}
	for err == nil { // until no segment is free
		var rec journal.Record
		full.Reset(0, nil, nil)
		full.Head(&wire.Head{Name: strings.Repeat("x", 1000)})
		full.End()
		full.Record(&rec)
		rec.Info = record.Info(record.KindLog, 0, 0, 0, 1)
		rec.Leaf = true
		_, err = j.Append(&rec, &hint)
	}
	b := &record.Builder{In: in}
	say := func(name string) int {
		b.Reset(0, nil, nil)
		b.Head(&wire.Head{Name: name})
		b.End()
		return b.Size()
	}
	long := strings.Repeat("again ", 20)
	for range 2 * record.MaxNumber {
		say(long)
	}
	in.Detach(j)
	must(t, j.Remove())
	time.Sleep(1100 * time.Millisecond) // until definitions are written again
	for range 3 {
		say(long)
	}
	if n := say(long); n > len(long) {
		t.Errorf("a name of %d bytes still takes %d", len(long), n)
	}
}

// TestSimilarNamesAreToldApart records names of up to 24 bytes that differ in one byte. The place expects a
// different one of these names each time.
func TestSimilarNamesAreToldApart(t *testing.T) {
	r := newRig(t)
	place := r.in.Place(&wire.Head{Name: "event", HasMessage: true, Message: "m"})
	var names []string
	for n := 1; n <= 24; n++ {
		for at := range n {
			name := bytes.Repeat([]byte("a"), n)
			name[at] = 'b'
			names = append(names, string(name))
		}
	}
	for range 3 { // a name gets a number when it is used for the second time
		for _, name := range names {
			r.b.Reset(0, nil, nil)
			r.b.Place(place, 2, "m")
			r.b.User()
			r.b.Bool(name, true)
			r.b.End()
			r.append(t, record.KindLog)
		}
	}
	m, table := r.dead(t)
	var rec record.Record
	for i := range 3 * len(names) {
		if e := m.Next(); e == nil || !rec.Parse(e) {
			t.Fatal("a record is missing")
		}
		if got, want := show(t, table, &rec), " "+names[i%len(names)]+"=1"; !strings.Contains(got, want) {
			t.Fatalf("record %d is %s, want %s", i, got, want)
		}
	}
}
