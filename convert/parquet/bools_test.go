package parquet

import (
	"bytes"
	"testing"

	meta "github.com/parquet-go/parquet-go/format"
)

// TestBooleansInRuns decodes runs as the format's specification has them: a run of three, one of two, and eight packed
// values, of which the column has four.
func TestBooleansInRuns(t *testing.T) {
	runs := []byte{6, 0, 0, 0, 3 << 1, 1, 2 << 1, 0, 1<<1 | 1, 0b1010}
	want := []byte{1, 1, 1, 0, 0, 0, 1, 0, 1}
	got, err := decodeBools(meta.RLE, runs, len(want))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := decodeBools(meta.RLE, runs, 14); err == nil {
		t.Errorf("14 values of 13: %v", got)
	}
}
