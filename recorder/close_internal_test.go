package recorder

import (
	"syscall"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
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
		expect.Has(t, unfinished(test.before, test.now), test.want, "from %+v to %+v it says", test.before, test.now)
	}
}

// TestEndSaysWhenEntriesWereLost checks that the last entry has the time in which entries were lost, if the disk was the
// cause.
func TestEndSaysWhenEntriesWereLost(t *testing.T) {
	for _, test := range []struct {
		err  error
		said bool
	}{{syscall.ENOSPC, true}, {ErrOverflow, true}, {format.ErrTooLarge, false}} {
		path := hosttest.Path(t, "app.et")
		r, err := Create(path, nil)
		must(t, err)
		before := time.Now()
		for range 2 {
			r.target.Drop(test.err, 3, 0)
		}
		expect.OK(t, r.Close(t.Context()))
		f, err := format.Open(path, nil)
		must(t, err)
		defer f.Close()
		end, err := f.Entry(uint32(f.Len() - 1))
		must(t, err)
		last, said := before, true
		for _, name := range []string{"dropped.from", "dropped.to"} {
			v, _ := end.Attribute(name)
			at, err := time.Parse(time.RFC3339, v.Text())
			said = said && err == nil && !at.Before(last)
			last = at
		}
		if said != test.said {
			t.Errorf("%v: the last entry is %v", test.err, end.Attributes)
		}
	}
}
