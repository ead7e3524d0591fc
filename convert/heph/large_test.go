package heph

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestLargeInput decodes an input that is larger than the memory for it, from readers that can seek and from one
// that cannot. A packet crosses the end of the part that is kept in memory.
func TestLargeInput(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	in := foreignPackets(100000)
	text := stringValue(string(bytes.Repeat([]byte("x"), 65000)))
	wide := &event{Description: "wide", Start: 1, End: 2, StreamID: 7}
	for range 10 {
		wide.Attributes = append(wide.Attributes, attribute{Name: "text", Value: text})
	}
	for range 18 {
		in = appendEvent(in, wide)
	}
	name := hosttest.Path(t, "in.htf")
	converttest.Must(t, os.WriteFile(name, append([]byte("before"), in...), 0o600))
	file, err := os.Open(name)
	converttest.Must(t, err)
	defer file.Close()
	_, err = file.Seek(6, io.SeekStart)
	converttest.Must(t, err)
	var want []byte
	for _, r := range []io.Reader{bytes.NewReader(in), file, io.MultiReader(bytes.NewReader(in))} {
		var out bytes.Buffer
		w, err := format.NewWriter(&out, format.V2, format.IET, nil)
		converttest.Must(t, err)
		converttest.Must(t, Decode(t.Context(), r, w))
		converttest.Must(t, w.Close())
		if want == nil {
			want = out.Bytes()
			sameContent(t, in, open(t, want))
		} else if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("from a %T it is another trace", r)
		}
	}
	expect.Len(t, hosttest.Names(t, temp), 0, "temporary files")
}

// TestNoTempDir decodes an input that is too large for memory, without a folder for temporary files. The packets
// that fit into memory must be decoded.
func TestNoTempDir(t *testing.T) {
	t.Setenv("TMPDIR", hosttest.Path(t, "missing"))
	t.Setenv("TMP", hosttest.Path(t, "missing"))
	var out bytes.Buffer
	w, err := format.NewWriter(&out, format.V2, format.IET, nil)
	converttest.Must(t, err)
	err = Decode(t.Context(), io.MultiReader(bytes.NewReader(foreignPackets(180000))), w)
	expect.Is(t, err, fs.ErrNotExist, "Decode")
	converttest.Must(t, w.Close())
	if v := open(t, out.Bytes()); v.Len() < 75000 {
		t.Errorf("%d entries, want those of the first 8 MiB", v.Len())
	}
}

func TestTooManyAttributes(t *testing.T) {
	good := appendEvent(nil, &event{Description: "good"})
	for _, n := range []int{wire.MaxAttributes, 1 << 18} {
		many := appendEvent(nil, &event{Attributes: slices.Repeat([]attribute{{Value: arrayOf(kindU64)}}, n)})
		v, err := decoded(t, slices.Concat(many, good), format.V2)
		if !errors.Is(err, errTooLarge) || v.Len() != 2 {
			t.Errorf("%d: %v and %d entries, want errTooLarge and 2", n, err, v.Len())
		}
	}
	most := appendEvent(nil, &event{Attributes: slices.Repeat([]attribute{{"x", u64Value(1)}}, maxAttributes)})
	v, err := decoded(t, most, format.V2)
	if err != nil || v.Len() != 2 {
		t.Errorf("%v and %d entries of a packet of all attributes that there can be", err, v.Len())
	}
}
