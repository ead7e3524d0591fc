package parquet_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/format"
)

// A repeatedRow has a text that a dictionary says once for all rows.
type repeatedRow struct {
	ID      int64  `parquet:"id,delta"`
	Parent  int64  `parquet:"parent,dict"`
	Name    string `parquet:"name,dict"`
	Message string `parquet:"message,dict"`
}

// A counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// TestTextsBudget: a text in a dictionary does not make an output of any size of a
// small input.
func TestTextsBudget(t *testing.T) {
	rows := make([]repeatedRow, 15000)
	message := strings.Repeat("a", 64<<10)
	for i := range rows {
		rows[i] = repeatedRow{ID: int64(i + 1), Name: "n", Message: message}
	}
	table := compressed(t, &pq.Zstd, rows...)
	var c counter
	w, err := format.NewWriter(&c, format.V1, format.IET, nil)
	must(t, err)
	if err := parquet.Decode(t.Context(), bytes.NewReader(table), w, nil); !errors.Is(err, format.ErrTooLarge) {
		t.Errorf("Decode: %v", err)
	}
	if err := w.Close(); err != nil || c.n > 700<<20 || w.Len() < 10 {
		t.Errorf("%d bytes and %d entries of %d bytes, %v", c.n, w.Len(), len(table), err)
	}
}
