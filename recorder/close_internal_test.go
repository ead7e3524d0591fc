package recorder

import (
	"strings"
	"testing"
)

// TestCloseSaysWhyItIsLate checks the error of Close after a timeout. Only if nothing was written in that
// time, the error says that the disk does not respond.
func TestCloseSaysWhyItIsLate(t *testing.T) {
	for _, test := range []struct {
		before, now Counts
		want        string
	}{
		{Counts{Written: 5, Waiting: 9}, Counts{Written: 5, Waiting: 9}, "disk does not respond"},
		{Counts{Written: 5, Waiting: 9}, Counts{Written: 6, Waiting: 8}, "8 waiting entries"},
	} {
		if got := unfinished(test.before, test.now); !strings.Contains(got, test.want) {
			t.Errorf("from %+v to %+v it says %q, want %q", test.before, test.now, got, test.want)
		}
	}
}
