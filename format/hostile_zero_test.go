package format

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func zeroTails() []int {
	var out []int
	for n := 1; n <= 70; n++ {
		out = append(out, n)
	}
	return append(out, 4096, 65535, 65536, 65536+7)
}

// streams runs f for the formats of growing files.
func streams(t *testing.T, f func(t *testing.T, v Version, sf StorageFormat)) {
	t.Helper()
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		if sf != ET {
			f(t, v, sf)
		}
	})
}

// wantZeroTail fails the test unless err says that n whole entries end at offset end, and
// that only zeros follow.
func wantZeroTail(t *testing.T, what string, err error, n, end int) {
	t.Helper()
	e, ok := errors.AsType[*TruncatedError](err)
	switch {
	case !ok:
		t.Errorf("%s: %v (%T), want a *TruncatedError", what, err, err)
	case !e.ZeroTail:
		t.Errorf("%s: %v: ZeroTail is not set, but there are only zeros", what, err)
	case e.Entry != int64(n) || e.Offset != int64(end):
		t.Errorf("%s: %v, want entry %d at offset %d", what, err, n, end)
	}
}

func TestZeroTail(t *testing.T) {
	for _, entries := range []int{0, 1, 9} { // 0: only the magic
		for _, zeros := range zeroTails() {
			t.Run(fmt.Sprintf("%d entries/%d zeros", entries, zeros), func(t *testing.T) {
				streams(t, func(t *testing.T, v Version, sf StorageFormat) {
					es := small(9)[:entries]
					tr := fakeFile{Version: v, Format: sf, Entries: es, Tail: make([]byte, zeros)}.build()
					end := len(tr.b) - zeros
					raws, err := drain(tr.b)
					wantZeroTail(t, "Reader", err, entries, end)
					expect.Equal(t, sameStrings(raws, tr.rawStrings()), "", "Reader")
					if zeros < 100 {
						_, err = drainReader(iotest.OneByteReader(bytes.NewReader(tr.b)), nil)
						wantZeroTail(t, "byte by byte", err, entries, end)
					}
					name := writeFile(t, "x.iet", tr.b)
					f, err := Open(name, nil)
					must(t, err)
					wantZeroTail(t, "Damage", f.Damage(), entries, end)
					must(t, f.Close()) // Windows cannot truncate a mapped file
					r, err := Inspect(name)
					must(t, err)
					if r.Entries != entries || r.GoodBytes != int64(end) || r.Reason != mapping.CutZeroTail {
						t.Errorf("Inspect: %d entries, %d bytes, %s; want %d, %d, %s", r.Entries, r.GoodBytes, r.Reason, entries, end, mapping.CutZeroTail)
					}
					if zeros == 11 || zeros == 65536 {
						if n, err := followAll(t, name); n != entries || err == nil {
							t.Errorf("Follow: %d entries, %v, want %d and no end", n, err, entries)
						}
						wantRecovered(t, name, filepath.Join(t.TempDir(), "out.iet"), tr.rawStrings())
						wantRecovered(t, name, "", tr.rawStrings())
					}
				})
			})
		}
	}
}

// plain decodes entries one after the other, as a decoder does that has no special case for zeros.
func plain(t *testing.T, b []byte, v Version) []string {
	t.Helper()
	var raws []string
	for len(b) > 0 {
		n, err := DecodeTraceEntry(b, v, new(TraceEntry))
		if err != nil {
			return raws
		}
		raws = append(raws, string(b[:n]))
		b = b[n:]
	}
	return raws
}

// TestZerosInTheMiddle checks that zeros between entries are read as by a plain decoder: as entries, and as the
// beginning of the next entry.
func TestZerosInTheMiddle(t *testing.T) {
	for _, v := range hostileVersions {
		for _, zeros := range zeroTails() {
			es := small(12)
			head := fakeFile{Version: v, Format: IET, Entries: es[:5]}.build().b
			for what, tail := range map[string][]byte{
				"an entry":      es[6].layout(v).b,
				"two entries":   append(es[1].layout(v).b, es[2].layout(v).b...),
				"a text":        []byte("\x04name and more of it"),
				"a single byte": {3},
			} {
				b := append(append(bytes.Clone(head), make([]byte, zeros)...), tail...)
				want := plain(t, b[wire.MagicSize:], v)
				// If the zeros precede bytes that are not an entry, all of them may also count as damage.
				least := want
				for len(least) > 0 && wire.IsZero([]byte(least[len(least)-1])) {
					least = least[:len(least)-1]
				}
				for how, drainIt := range map[string]func() ([]string, error){
					"at once": func() ([]string, error) { return drain(b) },
					"by half": func() ([]string, error) { return drainReader(iotest.HalfReader(bytes.NewReader(b)), nil) },
				} {
					got, err := drainIt()
					if diff := sameStrings(got, want); diff != "" && sameStrings(got, least) != "" {
						t.Errorf("v%d: %d zeros, then %s, %s: %s, %v", v, zeros, what, how, diff, err)
					}
				}
				if zeros > 5000 {
					continue
				}
				f, err := Open(writeFile(t, "x.iet", b), &OpenOptions{Lenient: true})
				must(t, err)
				if f.Len() != len(want) && f.Len() != len(least) {
					t.Errorf("v%d: %d zeros, then %s: File has %d entries, want %d", v, zeros, what, f.Len(), len(want))
				}
				must(t, f.Close())
			}
		}
	}
}

// TestAllZero checks two files. One has only zeros, so it does not even begin with a magic. The other has only
// zeros after the magic, so it has no entries.
func TestAllZero(t *testing.T) {
	streams(t, func(t *testing.T, v Version, sf StorageFormat) {
		tr := fakeFile{Version: v, Format: sf, Tail: make([]byte, 1<<20)}.build()
		name := writeFile(t, "x.iet", tr.b)
		r, found := problems(t, name)
		if r == nil {
			return
		}
		if r.Entries != 0 || r.GoodBytes != wire.MagicSize || r.Reason != mapping.CutZeroTail || len(found) != 1 {
			t.Errorf("Report %+v, found%s", r, lines(found))
		}
		wantZeroTail(t, "Verify", r.Damage, 0, wire.MagicSize)
	})
	name := writeFile(t, "x.iet", make([]byte, 4096))
	expect.Is(t, expect.Err(Open(name, &OpenOptions{Lenient: true})), ErrNotEntrace, "Open of zeros")
}

// TestFollowLongZeros checks that Follow reads many zeros in linear time, and stops when its context is done.
func TestFollowLongZeros(t *testing.T) {
	for _, tail := range []string{"", "an entry"} {
		t.Run("then "+tail, func(t *testing.T) {
			const zeros = 1 << 20
			f := fakeFile{Version: V2, Format: IET, Entries: small(3), Tail: make([]byte, zeros)}
			if tail != "" {
				e := rich(0, "n")
				f.Tail = AppendTraceEntry(f.Tail, V2, &e)
			}
			tr := f.build()
			name := writeFile(t, "x.iet", tr.b)
			fl, err := Follow(name, &FollowOptions{Poll: time.Millisecond})
			must(t, err)
			defer fl.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			done := make(chan uint64, 1)
			ids := 0
			go func() {
				done <- allocated(func() {
					for {
						if _, _, err := fl.Next(ctx); err != nil {
							return
						}
						ids++
					}
				})
			}()
			select {
			case got := <-done:
				if limit := uint64(8*len(tr.b) + 1<<20); got > limit {
					t.Errorf("Follow allocates %d bytes for a file of %d, want at most %d", got, len(tr.b), limit)
				}
				want := 4
				if tail != "" {
					want = len(plain(t, tr.b[wire.MagicSize:], V2))
				}
				if ids != want {
					t.Errorf("Follow gives %d entries in two seconds, want %d", ids, want)
				}
			case <-time.After(7 * time.Second):
				t.Fatal("Next does not return five seconds after its context is done")
			}
		})
	}
}

// TestEmptyFrame checks that an IETPrefix frame of length 0 is not an entry.
func TestEmptyFrame(t *testing.T) {
	for _, v := range hostileVersions {
		tail := append(make([]byte, prefixSize), binary.LittleEndian.AppendUint64(nil, 10)...)
		tr := fakeFile{Version: v, Format: IETPrefix, Entries: small(3), Tail: tail}.build()
		raws, err := drain(tr.b)
		wantCorrupt(t, "Reader", err, 4, tr.ends[3], nil)
		expect.Equal(t, sameStrings(raws, tr.rawStrings()), "", "Reader")
	}
}

// TestZerosBeforeDamage checks that zeros before damage count as a result of the crash, like zeros at the end. The
// output of Recover must not end with them: otherwise a second Recover would find a zero tail.
func TestZerosBeforeDamage(t *testing.T) {
	for _, v := range hostileVersions {
		for what, tail := range map[string][]byte{
			"a part of an entry": {5},
			"garbage":            bytes.Repeat([]byte{0xff}, 30),
		} {
			for _, zeros := range []int{10, 25, 4096} {
				t.Run(fmt.Sprintf("v%d/%d zeros and %s", v, zeros, what), func(t *testing.T) {
					tr := fakeFile{Version: v, Format: IET, Entries: small(4), Tail: append(make([]byte, zeros), tail...)}.build()
					dir := t.TempDir()
					for _, out := range []string{filepath.Join(dir, "out.iet"), filepath.Join(dir, "out.et"), ""} {
						name := writeFile(t, filepath.Join(dir, "x.iet"), tr.b)
						wantRecovered(t, name, out, tr.rawStrings())
					}
				})
			}
		}
	}
}

// TestZeroEntryAtEnd checks that an ET can end with entries of only zeros, and that an IET cannot.
func TestZeroEntryAtEnd(t *testing.T) {
	for _, v := range hostileVersions {
		var b bytes.Buffer
		w, err := NewWriter(&b, v, ET, nil)
		must(t, err)
		for _, name := range []string{"", "a", "", ""} {
			_, err := w.Write(&TraceEntry{Metadata: Metadata{Name: name}})
			must(t, err)
		}
		must(t, w.Close())
		dir := t.TempDir()
		name := writeFile(t, filepath.Join(dir, "x.et"), b.Bytes())
		for base, want := range map[string]int{"out.et": 4, "out.iet": 2} {
			r, err := Recover(name, filepath.Join(dir, base))
			must(t, err)
			made, err := os.ReadFile(filepath.Join(dir, base))
			must(t, err)
			if got, err := drain(made); err != nil || len(got) != want || r.Entries != want {
				t.Errorf("v%d: %s has %d entries, %v, the report %d, want %d", v, base, len(got), err, r.Entries, want)
			}
		}
	}
}

// TestOffsetBeforeZeroTail checks that zeros after a crash do not count as whole entries.
func TestOffsetBeforeZeroTail(t *testing.T) {
	for _, f := range []StorageFormat{IET, IETPrefix} {
		tr := fakeFile{Version: V1, Format: f, Entries: small(3), Tail: make([]byte, 100)}.build()
		r, err := NewReader(bytes.NewReader(tr.b), nil)
		must(t, err)
		for err == nil {
			_, err = r.Next()
		}
		if want := int64(len(tr.b) - 100); !errors.Is(err, ErrTruncated) || r.Offset() != want {
			t.Errorf("%v: %v at offset %d, want %d", f, err, r.Offset(), want)
		}
	}
}

// TestFollowEntryInPlaceOfZeros follows a file with zeros at its end. They are not damage, because a writer may
// allocate space before it writes. Follow must find an entry that replaces zeros, although the size of the file
// does not change.
func TestFollowEntryInPlaceOfZeros(t *testing.T) {
	streams(t, func(t *testing.T, v Version, sf StorageFormat) {
		es := small(5)
		whole := fakeFile{Version: v, Format: sf, Entries: es}.build()
		start := whole.starts[4]
		b := append(bytes.Clone(whole.b[:start]), make([]byte, 1<<20)...)
		name := writeFile(t, "x.iet", b)
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		fl, err := Follow(name, &FollowOptions{Poll: time.Millisecond})
		must(t, err)
		defer fl.Close()
		for want := range uint32(4) {
			if id, _, err := fl.Next(t.Context()); id != want || err != nil {
				t.Fatalf("entry %d, %v, want %d", id, err, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, _, err := fl.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("before the zeros: %v", err)
		}
		_, err = f.WriteAt(whole.b[start:whole.ends[4]], int64(start))
		must(t, err)
		if id, e, err := fl.Next(t.Context()); id != 4 || err != nil || !sameEntry(e, &es[4].TraceEntry) {
			t.Errorf("entry %d, %v", id, err)
		}
	})
}
