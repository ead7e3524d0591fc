package measureme

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/entryjson"
)

// TestDecodeTheirs compares the decoded events with those that measureme's tool analyzeme reads.
func TestDecodeTheirs(t *testing.T) {
	for _, name := range []string{"gold", "py-basic", "py-unmapped_virtual"} {
		t.Run(name, func(t *testing.T) {
			v := mustDecode(t, read(t, filepath.Join("testdata", name+".mm_profdata")))
			diff(t, rows(t, v), theirs(t, filepath.Join("testdata", name+".events.json")))
		})
	}
}

// TestDecodeRustc compares the number of events of each kind with those in measureme's own tests.
func TestDecodeRustc(t *testing.T) {
	for name, want := range map[string]map[string]int{
		"v8.mm_profdata": {"GenericActivity": 6429, "IncrementalResultHashing": 2235, "Query": 2258},
		"v9.mm_profdata": {"GenericActivity": 5125, "IncrementalResultHashing": 1844, "Query": 1877, "ArtifactSize": 24},
	} {
		t.Run(name, func(t *testing.T) {
			b := sample(t, name)
			got := make(map[string]int)
			v := mustDecode(t, b)
			all := rows(t, v)
			for _, r := range all {
				got[r.Kind]++
			}
			for kind, n := range want {
				if got[kind] != n {
					t.Errorf("%d events of kind %s, want %d", got[kind], kind, n)
				}
			}
			ours, others := selfTimes(t, v), reverse(t, b)
			if !maps.Equal(ours, others) {
				t.Errorf("self times differ: %v, want %v", ours, others)
			}
			again := converter.Bytes(t, v)
			diff(t, rows(t, mustDecode(t, again)), all)
			if !maps.Equal(reverse(t, again), others) {
				t.Error("self times are others after a round trip")
			}
			t.Logf("%d bytes, %d events, %d bytes when written again", len(b), len(all), len(again))
		})
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
