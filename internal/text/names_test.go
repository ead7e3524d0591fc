package text

import (
	"slices"
	"strconv"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestNamesDiffer adds equal names, when Names has few names and when it has many, and names that equal a name
// with a suffix.
func TestNamesDiffer(t *testing.T) {
	var n Names
	for range 2 {
		n.Reset()
		var got []string
		for _, name := range []string{"a", "a", "a#3", "a", "", ""} {
			got = append(got, n.Add(name))
		}
		if want := []string{"a", "a#2", "a#3", "a#4", "", "#2"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for i := range 1000 {
			want := "b"
			if i > 0 {
				want += "#" + strconv.Itoa(i+1)
			}
			expect.MustEqual(t, n.Add("b"), want, "number %d of a name", i+1)
		}
		expect.Slice(t, []string{n.Add("a"), n.Add("b#7"), n.Add("c")}, []string{"a#5", "b#7#2", "c"}, "behind them")
	}
}
