package heph

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestSamples decodes every sample, and compares the entries with the golden text and with the packets.
func TestSamples(t *testing.T) {
	toOTLP.Samples(t, "real-all.htf", "e_unknown_option.htf")
	// The expected error of damaged samples, and their number of entries.
	damaged := map[string]struct {
		err     error
		packet  string
		offset  int64
		entries int
	}{
		"real-nested.htf":  {errType, "packet 1", 23, 2},
		"real-long.htf":    {errType, "packet 1", 23, 3},
		"e_trunc_tail.htf": {format.ErrTruncated, "packet 2", 66, 3},
	}
	for _, name := range samples(t) {
		in := read(t, name)
		for _, version := range []format.Version{format.V1, format.V2} {
			v, err := decoded(t, in, version)
			if want, ok := damaged[filepath.Base(name)]; ok {
				got, ok := errors.AsType[*input.Error](err)
				if !errors.Is(err, want.err) || !ok || got.Unit != want.packet || got.Offset != want.offset || v.Len() != want.entries {
					t.Errorf("%s: %v and %d entries, want %v, %s at offset %d, %d entries", name, err, v.Len(), want.err, want.packet, want.offset, want.entries)
				}
			} else {
				expect.Is(t, err, nil, "%s", name)
			}
			sameContent(t, in, v)
			if rest, own := strings.CutPrefix(name, "testdata"+string(filepath.Separator)); own && len(in) < 5000 {
				converttest.Golden(t, strings.TrimSuffix(rest, filepath.Ext(rest))+".txt", []byte(text(t, v)))
			}
		}
	}
}
