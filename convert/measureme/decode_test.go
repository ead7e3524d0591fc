package measureme

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestDecodeTheirs compares the decoded events with the events that measureme's tool analyzeme reads.
func TestDecodeTheirs(t *testing.T) {
	for _, name := range []string{"gold", "py-basic", "py-unmapped_virtual"} {
		t.Run(name, func(t *testing.T) {
			v := mustDecode(t, read(t, filepath.Join("testdata", name+".mm_profdata")))
			diff(t, rows(t, v), theirs(t, filepath.Join("testdata", name+".events.json")))
		})
	}
}

// TestDecodeRustc compares the number of events of each kind with the numbers in measureme's own tests.
func TestDecodeRustc(t *testing.T) {
	for name, want := range map[string]map[string]int{
		"v8.mm_profdata": {"GenericActivity": 6429, "IncrementalResultHashing": 2235, "Query": 2258},
		"v9.mm_profdata": {"GenericActivity": 5125, "IncrementalResultHashing": 1844, "Query": 1877, "ArtifactSize": 24},
	} {
		t.Run(name, func(t *testing.T) {
			b := sample(t, name)
			got := make(map[string]int)
			v := mustDecode(t, b)
			for _, r := range rows(t, v) {
				got[r.Kind]++
			}
			for kind, n := range want {
				expect.Equal(t, got[kind], n, "events of kind %s", kind)
			}
			if ours, theirs := selfTimes(t, v), reverse(t, b); !maps.Equal(ours, theirs) {
				t.Errorf("self times are %v, want %v", ours, theirs)
			}
		})
	}
}

// TestDecodeNested decodes intervals that nest at random on two threads. The self times must be the same as in the
// tools.
func TestDecodeNested(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := parts{meta: plain, data: "a\xffb\xffc\xff"}
		var add func(thread uint32, start, end uint64, depth int)
		add = func(thread uint32, start, end uint64, depth int) {
			for at := start; at < end && depth < 5; {
				from := at + r.Uint64N(end-at+1)
				at = from + r.Uint64N(end-from+1)
				add(thread, from, at, depth+1)
			}
			e := interval(99, id(2*r.IntN(3)), start, end)
			e.thread = thread
			p.events = append(p.events, e)
		}
		for i := range uint64(6) {
			add(uint32(i%2), i*50, i*50+90, 0)
		}
		b := p.file(t)
		if ours, theirs := selfTimes(t, mustDecode(t, b)), reverse(t, b); len(p.events) < 20 || !maps.Equal(ours, theirs) {
			t.Errorf("seed %d: self times of %d events are %v, want %v", seed, len(p.events), ours, theirs)
		}
	}
}

func TestDecodeEntries(t *testing.T) {
	v := mustDecode(t, read(t, "testdata/gold.mm_profdata"))
	var b []byte
	for id := range uint32(v.Len()) {
		e, err := v.Files()[0].Entry(id)
		must(t, err)
		b = append(entryjson.Append(b, int64(id), e), '\n')
	}
	converttest.Golden(t, "gold.entries.json", b)
	if strings.Count(string(b), `"trace_id"`) != 1 {
		t.Error("a trace id is not there once")
	}
}

// TestDecodeTorn decodes a file whose last page is incomplete. The index entry of the metadata is lost, but the
// metadata must be found.
func TestDecodeTorn(t *testing.T) {
	b := read(t, "testdata/py-trunc_page.mm_profdata")
	v, err := decode(t, b)
	if e, ok := errors.AsType[*input.Error](err); !ok || !errors.Is(err, format.ErrTruncated) || e.Offset < 0xa0 || e.Unit != "page 2" {
		t.Errorf("the error is %v", err)
	}
	diff(t, rows(t, v), []row{{Kind: "Span", Label: "p", Args: []string{}, Thread: 1, Start: 1_700_000_000_000_000_000, End: 1_700_000_000_000_000_010}})
}

// TestDecodeMemory checks the documented memory by the sum of all that Decode allocates.
func TestDecodeMemory(t *testing.T) {
	const n, limit = 200_000, 24<<20 + 96*200_000
	p := profile(t, n)
	w, err := format.NewWriter(io.Discard, format.V2, format.IET, nil)
	must(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	must(t, Decode(t.Context(), bytes.NewReader(p), w))
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > limit {
		t.Errorf("%d events allocate %d bytes, want %d at most", n, got, limit)
	}
	must(t, w.Close())
}
