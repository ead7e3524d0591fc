package text

import (
	"slices"
	"strconv"
	"testing"
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
			if got := n.Add("b"); got != want {
				t.Fatalf("number %d of a name is %q, want %q", i+1, got, want)
			}
		}
		if got := []string{n.Add("a"), n.Add("b#7"), n.Add("c")}; !slices.Equal(got, []string{"a#5", "b#7#2", "c"}) {
			t.Errorf("behind them there are %q", got)
		}
	}
}
