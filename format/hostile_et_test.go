package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestBadPool damages the pool of the tree that fakes(6) returns: 0 has the children 1 and 2, 1 has 3 and 4, and 2
// has 5 and 6.
func TestBadPool(t *testing.T) {
	num := func(n uint64) []byte { return wire.AppendUint(nil, n) }
	kids := func(ids ...uint32) []byte {
		b := wire.AppendUint(nil, uint64(len(ids)))
		for _, id := range ids {
			b = wire.AppendUint(b, uint64(id))
		}
		return b
	}
	cases := []struct {
		name   string
		field  string
		wrong  []byte
		reader bool // whether a Reader also notices the damage; otherwise it reads all entries correctly
	}{
		{"one too few", "pool.len", num(6), true},
		{"one too many", "pool.len", num(8), true},
		{"none", "pool.len", num(0), true},
		{"id out of range", "pool[0][1]", num(7), true},
		{"largest id", "pool[0][1]", num(math.MaxUint32), true},
		{"itself", "pool[2][0]", num(2), true},
		{"its parent: a cycle", "pool[2][0]", num(0), true},
		{"the root below an entry", "pool[1][0]", num(0), true},
		{"an earlier entry", "pool[2][0]", num(1), true},
		{"twice below one", "pool[0][1]", num(1), false},
		{"below two", "pool[2][0]", num(4), false},
		{"not ascending", "pool[0].len", append([]byte{2}, 2, 1, 2, 3, 4, 2, 5, 6, 0, 0, 0, 0), false},
		{"one is missing", "pool[6].len", kids(), false},
	}
	for _, c := range cases {
		for _, v := range hostileVersions {
			t.Run(fmt.Sprintf("%s/v%d", c.name, v), func(t *testing.T) {
				f := fakeFile{Version: v, Format: ET, Entries: fakes(6), Instead: map[string][]byte{c.field: c.wrong}}
				switch c.name {
				case "not ascending": // the wrong bytes include the rest of the pool
					for _, field := range []string{
						"pool[0][0]", "pool[0][1]", "pool[1].len", "pool[1][0]", "pool[1][1]", "pool[2].len", "pool[2][0]", "pool[2][1]",
						"pool[3].len", "pool[4].len", "pool[5].len", "pool[6].len",
					} {
						f.Instead[field] = []byte{}
					}
				case "one is missing":
					f.Instead["pool[2].len"], f.Instead["pool[2][1]"] = num(1), []byte{}
				}
				tr := f.build()
				name := writeFile(t, "x.et", tr.b)
				_, err := Open(name, nil)
				if e, ok := errors.AsType[*CorruptError](err); !ok || !errors.Is(err, errBadPool) ||
					e.Offset <= int64(tr.at["offsets[6]"]) || e.Offset > int64(tr.at["data"]) {
					t.Errorf("Open: %v, want %v in the pool [%d, %d]", err, errBadPool, tr.at["pool.len"], tr.at["data"])
				}
				lf, err := Open(name, &OpenOptions{Lenient: true})
				if err != nil {
					t.Fatalf("Open is not lenient: %v", err)
				}
				defer lf.Close()
				expect.Is(t, lf.Damage(), errBadPool, "Damage")
				raws, err := drain(tr.b)
				if c.reader {
					expect.Is(t, err, errBadPool, "Reader")
				} else if diff := sameStrings(raws, tr.rawStrings()); diff != "" || err != nil || lf.Len() != 7 {
					t.Errorf("Reader: %s, %v; lenient File has %d entries, want 7", diff, err, lf.Len())
				}
				if _, found := problems(t, name); len(found) == 0 || !errors.Is(found[len(found)-1], errBadPool) {
					t.Errorf("Verify finds%s\n\twant %v", lines(found), errBadPool)
				}
			})
		}
	}
}

// TestPoolSaysAnotherParent checks an ET in which the parent in an entry differs from the pool. Both parents are
// valid alone, and Verify reports the difference.
func TestPoolSaysAnotherParent(t *testing.T) {
	for _, v := range hostileVersions {
		es := fakes(6)
		tr := fakeFile{Version: v, Format: ET, Entries: es, Instead: map[string][]byte{}}.build()
		es[4].Instead = map[string][]byte{"parent": {3}}
		raw := es[4].layout(v)
		b := bytes.Clone(tr.b)
		copy(b[tr.bodies[4]:], raw.b)
		name := writeFile(t, "x.et", b)
		if _, found := problems(t, name); len(found) != 1 || !hasProblem(found, 4, errPoolParent) {
			t.Errorf("v%d: Verify finds%s\n\twant %v in entry 4", v, lines(found), errPoolParent)
		}
	}
}

func TestBadOffsets(t *testing.T) {
	for _, v := range hostileVersions {
		good := fakeFile{Version: v, Format: ET, Entries: fakes(6)}.build()
		off := func(i int) uint64 { return uint64(good.bodies[i] - good.at["data"]) }
		size := uint64(len(good.b) - good.at["data"])
		cases := []struct {
			name  string
			field string
			wrong uint64
			fits  bool // the wrong number has the same size as the right one, so a Reader gets to the entry
		}{
			{"first is not 0", "offsets[0]", 1, false},
			{"duplicate", "offsets[2]", off(1), false},
			{"descending", "offsets[3]", 5, false},
			{"0 again", "offsets[4]", 0, false},
			{"at the end", "offsets[6]", size, true},
			{"beyond the end", "offsets[6]", size + 1<<14, true},
			{"2^32", "offsets[6]", 1 << 32, true},
			{"2^63-1", "offsets[6]", 1<<63 - 1, true},
			{"2^63", "offsets[6]", 1 << 63, true},
			{"2^64-1", "offsets[6]", math.MaxUint64, true},
			{"2^64-data", "offsets[6]", math.MaxUint64 - uint64(good.at["data"]) + 1, true},
		}
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s/v%d", c.name, v), func(t *testing.T) {
				tr := fakeFile{Version: v, Format: ET, Entries: fakes(6), Instead: map[string][]byte{c.field: wire.AppendUint(nil, c.wrong)}}.build()
				name := writeFile(t, "x.et", tr.b)
				_, err := Open(name, nil)
				if e, ok := errors.AsType[*CorruptError](err); !ok || !errors.Is(err, errBadOffset) || e.Offset > int64(len(tr.b)) {
					t.Errorf("Open: %v, want %v", err, errBadOffset)
				} else if !c.fits && e.Offset != int64(tr.at[c.field]) {
					t.Errorf("Open: %v, want offset %d", err, tr.at[c.field])
				}
				raws, err := drain(tr.b)
				if !errors.Is(err, errBadOffset) {
					t.Errorf("Reader: %v, want %v", err, errBadOffset)
				} else if at, _ := errorOffset(err); !c.fits && at != int64(tr.at[c.field]) {
					t.Errorf("Reader: %v, want offset %d as Open says", err, tr.at[c.field])
				}
				if c.fits {
					expect.Equal(t, sameStrings(raws, tr.rawStrings()[:6]), "", "Reader")
				}
				f, err := Open(name, &OpenOptions{Lenient: true})
				if err != nil {
					t.Fatalf("Open is not lenient: %v", err)
				}
				defer f.Close()
				expect.Is(t, f.Damage(), errBadOffset, "Damage")
				if c.fits && f.Len() != 6 {
					t.Errorf("lenient File has %d entries, want the 6 before", f.Len())
				}
			})
		}
	}
}

func TestEntryEnds(t *testing.T) {
	for _, v := range hostileVersions {
		for _, by := range []int{-2, -1, 1, 2} {
			t.Run(fmt.Sprintf("et/v%d/%+d", v, by), func(t *testing.T) {
				good := fakeFile{Version: v, Format: ET, Entries: fakes(6)}.build()
				wrong := wire.AppendUint(nil, uint64(good.bodies[4]-good.at["data"]+by))
				tr := fakeFile{Version: v, Format: ET, Entries: fakes(6), Instead: map[string][]byte{"offsets[4]": wrong}}.build()
				name := writeFile(t, "x.et", tr.b)
				f, err := Open(name, nil) // succeeds, because the tables alone are valid
				must(t, err)
				defer f.Close()
				for id := range uint32(f.Len()) {
					e, err := f.Entry(id)
					switch {
					case id != 3 && id != 4:
						expect.Is(t, err, nil, "entry %d", id)
					case err == nil:
						t.Errorf("entry %d: %+v without an error", id, e)
					case id == 3 && by > 0:
						wantCorrupt(t, "Entry", err, 3, tr.ends[3], errTrailingBytes)
					}
				}
				raws, err := drain(tr.b)
				if len(raws) > 4 {
					t.Errorf("Reader gives %d entries, want at most 4", len(raws))
				}
				if id := int64(len(raws)); id == 4 {
					wantCorrupt(t, "Reader", err, 4, tr.starts[4], errBadOffset)
				} else {
					wantCorrupt(t, "Reader", err, id, -1, nil)
				}
				if _, found := problems(t, name); len(found) < 2 {
					t.Errorf("Verify finds%s\n\twant something in entries 3 and 4", lines(found))
				}
			})
			t.Run(fmt.Sprintf("ietprefix/v%d/%+d", v, by), func(t *testing.T) {
				es := fakes(6)
				size := uint64(len(es[4].layout(v).b) + by)
				tr := fakeFile{
					Version: v, Format: IETPrefix, Entries: es,
					Instead: map[string][]byte{"frame[4]": binary.LittleEndian.AppendUint64(nil, size)},
				}.build()
				name := writeFile(t, "x.ietprefix", tr.b)
				raws, err := drain(tr.b)
				_, ferr := followAll(t, name)
				_, oerr := Open(name, nil)
				for what, err := range map[string]error{"Reader": err, "Follow": ferr, "Open": oerr} {
					if by > 0 {
						wantCorrupt(t, what, err, 4, tr.ends[4], errTrailingBytes)
					} else {
						wantCorrupt(t, what, err, 4, -1, nil)
					}
				}
				expect.Equal(t, len(raws), 4, "entries that Reader gives")
			})
		}
	}
}

func TestTrailingGarbage(t *testing.T) {
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		garbage := bytes.Repeat([]byte{0xff}, 40)
		tr := fakeFile{Version: v, Format: sf, Entries: fakes(6), Tail: garbage}.build()
		end := len(tr.b) - len(garbage)
		name := writeFile(t, "x."+sf.String(), tr.b)
		raws, err := drain(tr.b)
		expect.Equal(t, sameStrings(raws, tr.rawStrings()), "", "Reader")
		if at, ok := errorOffset(err); !ok || at != int64(end) {
			t.Errorf("Reader: %v, want an error at offset %d", err, end)
		}
		r, err := Inspect(name)
		expect.MustIs(t, err, nil, "Inspect")
		if r.Entries < 6 || r.Reason != mapping.CutCorrupt {
			t.Errorf("Inspect: %+v, want 6 entries or more, and corrupt", r)
		}
		if _, found := problems(t, name); len(found) == 0 {
			t.Error("Verify finds nothing")
		}
	})
}

// TestDamagedETKeepsPrefix recovers an ET with valid tables and a damaged entry. All earlier entries must be
// saved.
func TestDamagedETKeepsPrefix(t *testing.T) {
	for _, v := range hostileVersions {
		for _, bad := range []int{1, 3, 6} {
			t.Run(fmt.Sprintf("v%d/entry %d", v, bad), func(t *testing.T) {
				es := fakes(6)
				es[bad].Instead = map[string][]byte{"level": {9}}
				tr := fakeFile{Version: v, Format: ET, Entries: es}.build()
				name := writeFile(t, "x.et", tr.b)
				r, err := Inspect(name)
				if err != nil {
					t.Errorf("Inspect: %v, want a report", err)
				} else if r.Reason != mapping.CutCorrupt || r.Entries != bad {
					t.Errorf("Inspect: %d entries, %s; want %d, %s", r.Entries, r.Reason, bad, mapping.CutCorrupt)
				}
				if r, found := problems(t, name); r != nil && (!hasProblem(found, int64(bad), errBadLevel) || r.Reason == mapping.CutClean) {
					t.Errorf("Verify: %s%s", r.Reason, lines(found))
				}
				out := filepath.Join(t.TempDir(), "out.et")
				wantRecovered(t, name, out, tr.rawStrings()[:bad])
				if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, tr.b) {
					t.Errorf("Recover into another file changed the source: %v", err)
				}
				wantRecovered(t, name, "", tr.rawStrings()[:bad])
			})
		}
	}
}

// wantRecovered recovers the file name, checks the result, and checks that a second Recover changes nothing. For a
// damaged ET or a corrupt file, the result must have one more entry, which reports the damage.
func wantRecovered(t *testing.T, name, out string, want []string) {
	t.Helper()
	where := out
	if out == "" {
		where = name
	}
	was, err := Inspect(name)
	if err != nil {
		t.Errorf("Inspect: %v", err)
		return
	}
	r, err := Recover(name, out)
	if err != nil {
		t.Errorf("Recover(%q): %v", filepath.Base(out), err)
		return
	}
	b, err := os.ReadFile(where)
	if err != nil {
		t.Errorf("Recover(%q): %v", filepath.Base(out), err)
		return
	}
	raws, err := drain(b)
	all := len(raws)
	if (was.Format == ET && was.Damage != nil || was.Reason == mapping.CutCorrupt) && len(want) > 0 {
		all--
		if !strings.Contains(raws[all], mapping.NameRecovered) || !strings.Contains(raws[all], was.Reason) {
			t.Errorf("Recover(%q): the last entry is %q", filepath.Base(out), raws[all])
		}
		raws = raws[:all]
		all++
	}
	if diff := sameStrings(raws, want); diff != "" || err != nil || r.Entries != len(want) {
		t.Errorf("Recover(%q): %s, %v; report %+v, want %d entries", filepath.Base(out), diff, err, r, len(want))
	}
	if _, found := problems(t, where); len(want) > 0 && len(found) > 0 {
		t.Errorf("Verify of what Recover(%q) made finds%s", filepath.Base(out), lines(found))
	}
	again, err := Recover(where, "")
	if err != nil || again.Reason != mapping.CutClean || again.Entries != all {
		t.Errorf("Recover again: %+v, %v, want %d entries, clean", again, err, all)
	}
	if now, err := os.ReadFile(where); err != nil || !bytes.Equal(now, b) {
		t.Errorf("Recover again changed the file: %v", err)
	}
}
