package format

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

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
			ids, want := 0, 4
			if tail != "" {
				want = len(plain(t, tr.b[wire.MagicSize:], V2))
			}
			go func() {
				done <- allocated(func() {
					for {
						if _, _, err := fl.Next(ctx); err != nil {
							return
						}
						ids++
						if ids == want { // no other entry may come
							time.AfterFunc(200*time.Millisecond, cancel)
						}
					}
				})
			}()
			select {
			case got := <-done:
				if limit := uint64(8*len(tr.b) + 1<<20); got > limit {
					t.Errorf("Follow allocates %d bytes for a file of %d, want at most %d", got, len(tr.b), limit)
				}
				expect.Equal(t, ids, want, "entries that Follow gives")
			case <-time.After(7 * time.Second):
				t.Fatal("Next does not return five seconds after its context is done")
			}
		})
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
