package retain_test

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestCompare(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }
	files := []retain.File{
		{Path: "tomorrow", Named: at(24), Modified: at(24)},
		{Path: "two hours ago", Named: at(-2), Modified: at(-2)},
		{Path: "named while the clock was ahead", Named: at(24), Modified: at(-1)},
		{Path: "copied just now", Named: at(-3), Modified: at(0)},
		{Path: "ended here", Named: at(-48), Modified: at(-48)},
		{Path: "of a clock that is a little ahead", Named: now.Add(4 * time.Minute), Modified: now.Add(4 * time.Minute)},
		{Path: "now", Named: at(0), Modified: at(0)},
	}
	synctest.Test(t, func(t *testing.T) {
		var l retain.Log
		l.Add("ended here")
		time.Sleep(30 * time.Minute)
		older := l.Compare(now)
		slices.SortStableFunc(files, func(a, b retain.File) int { return older(&a, &b) })
		var got []string
		for _, f := range files {
			got = append(got, f.Path)
		}
		want := []string{"tomorrow", "copied just now", "two hours ago", "named while the clock was ahead", "ended here", "of a clock that is a little ahead", "now"}
		expect.Slice(t, got, want, "from the oldest on")
	})
}

func TestOlder(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		var l retain.Log
		l.Add("ended here")
		for _, test := range []struct {
			path            string
			named, modified time.Duration // relative to now
			want            bool
		}{
			{"both are old", -2 * day, -2 * day, true},
			{"changed today", -2 * day, 0, false},
			{"named today", 0, -2 * day, false},
			{"of tomorrow", day, day, false},
			{"ended here", -2 * day, -2 * day, false},
		} {
			expect.Equal(t, l.Older(&retain.File{Path: test.path, Named: now.Add(test.named), Modified: now.Add(test.modified)}, now, day), test.want, "%s", test.path)
		}
		time.Sleep(day + 1)
		if !l.Older(&retain.File{Path: "ended here", Named: now, Modified: now}, now, day) {
			t.Error("what was ended more than a day ago is not older than a day")
		}
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l retain.Log
		old := retain.File{Path: "gone", Named: time.Unix(0, 0), Modified: time.Unix(0, 0)}
		late := retain.File{Path: "late", Named: time.Unix(0, 0), Modified: time.Unix(0, 0)}
		l.Add(old.Path)
		time.Sleep(2 * time.Minute)
		l.Add(late.Path) // late is just being renamed, so it does not exist for Forget
		l.Forget(func(string) bool { return false })
		if l.Older(&late, time.Now(), time.Hour) || !l.Older(&old, time.Now(), time.Hour) {
			t.Error("what was added later is forgotten, or what is gone is not")
		}
	})
}

// TestBound checks that a Log does not grow without limit and keeps the latest files.
func TestBound(t *testing.T) {
	var l retain.Log
	old := time.Unix(0, 0)
	for i := range 25_000 {
		l.Add(strconv.Itoa(i))
	}
	known := 0
	for i := range 25_000 {
		if !l.Older(&retain.File{Path: strconv.Itoa(i), Named: old, Modified: old}, time.Now(), time.Hour) {
			known++
		}
	}
	if known < 5_000 || known > 10_000 || l.Older(&retain.File{Path: "24999", Named: old, Modified: old}, time.Now(), time.Hour) {
		t.Errorf("%d files are remembered", known)
	}
}

// TestPruneCountsWhatStays checks that a file that is spared or cannot be removed still counts, so that other files
// are removed instead.
func TestPruneCountsWhatStays(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	file := func(hours int, path string) retain.File {
		at := now.Add(-time.Duration(hours) * time.Hour)
		return retain.File{Path: path, Named: at, Modified: at, Size: 10}
	}
	files := func() []retain.File {
		all := []retain.File{file(1, "new"), file(6, "spared"), file(5, "locked"), file(4, "asked for"), file(3, "old"), file(2, "young")}
		all[1].Spare, all[3].Asked = true, true
		return all
	}
	for _, x := range []struct {
		keep retain.Keep
		want []string
	}{
		{retain.Keep{}, nil},
		{retain.Keep{Files: 4}, []string{"old", "young"}},
		{retain.Keep{Bytes: 49}, []string{"old", "young"}},
		{retain.Keep{Files: 1}, []string{"old", "young", "new", "asked for"}},
		{retain.Keep{Files: 5, Age: 150 * time.Minute}, []string{"old", "asked for"}},
	} {
		var l retain.Log
		var got []string
		l.Prune(files(), x.keep, now, func(f *retain.File) bool {
			if f.Path != "locked" {
				got = append(got, f.Path)
			}
			return f.Path != "locked"
		})
		expect.Slice(t, got, x.want, "%+v removes", x.keep)
	}
}
