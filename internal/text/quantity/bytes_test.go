package quantity_test

import (
	"errors"
	"testing"

	"github.com/entrace-go/entrace/internal/text/quantity"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		text string
		want int64
		err  error
	}{
		{"0", 0, nil},
		{"1000", 1000, nil},
		{"12B", 12, nil},
		{"10KB", 10_000, nil},
		{"10kB", 10_000, nil},
		{"64 MiB", 64 << 20, nil},
		{"2GiB", 2 << 30, nil},
		{"3TB", 3e12, nil},
		{"9223372036854775807", 1<<63 - 1, nil},
		{"007", 7, nil},
		{"", 0, quantity.ErrSyntax},
		{"-1", 0, quantity.ErrSyntax},
		{"1.5GiB", 0, quantity.ErrSyntax},
		{"GiB", 0, quantity.ErrSyntax},
		{"1  KB", 0, quantity.ErrSyntax},
		{"1gib", 0, quantity.ErrSyntax},
		{"1KB ", 0, quantity.ErrSyntax},
		{"9223372036854775808", 0, quantity.ErrRange},
		{"99999999999999999999", 0, quantity.ErrRange},
		{"8388608TiB", 0, quantity.ErrRange},
	} {
		if got, err := quantity.ParseBytes(test.text); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("Parse(%q) = %d, %v, want %d, %v", test.text, got, err, test.want, test.err)
		}
	}
}

// TestValue checks that Set accepts the results of String.
func TestValue(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "1000": "1000", "1024": "1KiB", "10GiB": "10GiB", "1536MiB": "1536MiB", "1KB": "1000", "2048GiB": "2TiB"} {
		var v, again quantity.Bytes
		if err := v.Set(text); err != nil || v.String() != want {
			t.Errorf("%q is %v, %v, want %s", text, &v, err, want)
		}
		if err := again.Set(v.String()); err != nil || again != v {
			t.Errorf("%q came back as %d: %v", text, again, err)
		}
	}
	v := quantity.Bytes(7)
	if err := v.Set("x"); !errors.Is(err, quantity.ErrSyntax) || v != 7 {
		t.Errorf("Set(x): %v, and the value is %v", err, &v)
	}
}
