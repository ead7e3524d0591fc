package viewer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

// BenchmarkPage measures requests of the page. The variable TRACE names the file, for example a large file that
// internal/testkit/bench/generate made.
func BenchmarkPage(b *testing.B) {
	name := os.Getenv("TRACE")
	if name == "" {
		b.Skip("the variable TRACE names no file")
	}
	f, err := format.Open(name, nil)
	must(b, err)
	defer f.Close()
	v, err := view.New(b.Context(), []*format.File{f}, nil)
	must(b, err)
	h := serve(b, v, viewer.Options{})
	asked := func(path string) []byte {
		w := ask(h, http.MethodGet, path)
		expect.Equal(b, w.Code, http.StatusOK, path)
		return w.Body.Bytes()
	}
	v.Tree()
	b.Run("Heat", func(b *testing.B) {
		for b.Loop() {
			h.Rest()
			asked("/api/heat?n=120")
		}
	})
	var heat struct {
		From    int64 `json:"from_unix_nano"`
		Width   int64 `json:"column_nano"`
		Columns int64
		Edges   []int64
	}
	must(b, json.Unmarshal(asked("/api/heat?n=120"), &heat))
	n := heat.From + heat.Width*heat.Columns/2
	box := fmt.Sprintf("/api/heat?box=%d,%d,%d,%d", n, n+heat.Width*5, heat.Edges[len(heat.Edges)/2], heat.Edges[len(heat.Edges)*3/4])
	b.Run("Box", func(b *testing.B) {
		for b.Loop() {
			asked(box)
		}
	})
	var tree struct {
		Rows []struct{ Row int64 }
	}
	must(b, json.Unmarshal(asked("/api/rows?depth=1&n=60"), &tree))
	i := 0
	b.Run("Toggle", func(b *testing.B) {
		for b.Loop() {
			i++
			asked("/api/rows?depth=1&n=60&x=" + strconv.FormatInt(tree.Rows[i%len(tree.Rows)].Row, 36))
		}
	})
}
