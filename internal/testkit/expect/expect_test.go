package expect

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

// recorder keeps what a test reports.
type recorder struct {
	testing.TB
	said  string
	fatal bool
}

func (r *recorder) Helper() {}

func (r *recorder) Error(args ...any) { r.said += fmt.Sprint(args...) }

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }

func (r *recorder) Fatal(args ...any) { r.Error(args...); r.fatal = true }

func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); r.fatal = true }

func TestFailuresSayWhatDiffers(t *testing.T) {
	far := fmt.Errorf("far: %w", io.EOF)
	for _, test := range []struct {
		name  string
		check func(t testing.TB, good bool)
		says  string
		fatal bool
	}{
		{"Equal", func(t testing.TB, good bool) { Equal(t, 3, pick(good, 3, 4), "rows of %s", "a") }, "rows of a: got 3, want 4", false},
		{"Equal of texts", func(t testing.TB, good bool) { Equal(t, "a", pick(good, "a", ""), "name") }, `name: got "a", want ""`, false},
		{"Equal of Stringers", func(t testing.TB, good bool) { Equal(t, time.Second, pick(good, time.Second, 0), "time") }, "time: got 1s, want 0s", false},
		{"Equal of lines", func(t testing.TB, good bool) {
			Equal(t, "a\nb\nc\nd\n", pick(good, "a\nb\nc\nd\n", "a\nB\nc\nd\n"), "text")
		}, "text: got\na\nb\nc\nd\n\nwant\na\nB\nc\nd\n\nthey differ at line 2\n\tgot  \"b\\n\"\n\twant \"B\\n\"", false},
		{"MustEqual", func(t testing.TB, good bool) { MustEqual(t, true, good, "done") }, "done: got true, want false", true},
		{"Slice", func(t testing.TB, good bool) { Slice(t, nil, pick(good, []string{}, []string{"x"}), "names") }, `names: got [], want ["x"]`, false},
		{"Slice of many", func(t testing.TB, good bool) {
			Slice(t, []int{1, 2, 3, 4}, pick(good, []int{1, 2, 3, 4}, []int{1, 3, 4}), "ids")
		}, "ids: got [1 2 3 4], want [1 3 4]\nthey differ at element 1\n\tgot  2", false},
		{"Slice of bytes", func(t testing.TB, good bool) { Slice(t, []byte("a\x00"), pick(good, []byte("a\x00"), nil), "file") }, `file: got "a\x00", want ""`, false},
		{"DeepEqual", func(t testing.TB, good bool) {
			DeepEqual(t, map[int]int{1: 2}, map[int]int{1: pick(good, 2, 3)}, "map")
		}, "map: got map[1:2], want map[1:3]", false},
		{"Len", func(t testing.TB, good bool) { Len(t, []int{7}, pick(good, 1, 2), "list") }, "list: got 1, [7], want 2", false},
		{"MustLen", func(t testing.TB, good bool) { MustLen(t, []int{7}, pick(good, 1, 2), "list") }, "list: got 1, [7], want 2", true},
		{"Has", func(t testing.TB, good bool) { Has(t, "abc", pick(good, "b", "x"), "text") }, `text: got "abc", want "x" in it`, false},
		{"Is", func(t testing.TB, good bool) { Is(t, far, pick(good, io.EOF, nil), "Read") }, "Read: got error far: EOF, want <nil>", false},
		{"MustIs", func(t testing.TB, good bool) { MustIs(t, pick(good, far, nil), io.EOF, "Read") }, "Read: got error <nil>, want EOF", true},
		{"Says", func(t testing.TB, good bool) { Says(t, far, pick(good, "far", "near"), "Read") }, `Read: got error far: EOF, want one that says "near"`, false},
		{"Says without an error", func(t testing.TB, good bool) { Says(t, pick(good, far, nil), "far", "Read") }, `Read: got error <nil>, want one that says "far"`, false},
		{"OK", func(t testing.TB, good bool) { OK(t, pick(good, nil, far)) }, "far: EOF", false},
		{"Must", func(t testing.TB, good bool) { Must(t, Err(0, pick(good, nil, errors.New("gone")))) }, "gone", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var good, bad recorder
			test.check(&good, true)
			test.check(&bad, false)
			if good.said != "" || good.fatal {
				t.Errorf("what is equal fails: %s", good.said)
			}
			if bad.said != test.says || bad.fatal != test.fatal {
				t.Errorf("it says\n%s\nwant\n%s; fatal %t, want %t", bad.said, test.says, bad.fatal, test.fatal)
			}
		})
	}
}

func pick[T any](good bool, yes, no T) T {
	if good {
		return yes
	}
	return no
}
