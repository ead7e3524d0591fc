package jsontext

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestAppendFloat(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", math.Copysign(0, -1): "-0.0", 2: "2.0", -0.5: "-0.5", 1e20: "100000000000000000000.0", 1e21: "1e+21", 1e-6: "0.000001", 1e-7: "1e-07",
		math.MaxFloat64: "1.7976931348623157e+308", 5e-324: "5e-324", 0.1: "0.1",
	} {
		got, ok := AppendFloat(nil, f)
		var back float64
		if err := json.Unmarshal(got, &back); err != nil || math.Float64bits(back) != math.Float64bits(f) {
			t.Errorf("%s reads back as %v, %v", got, back, err)
		}
		if !ok || string(got) != want {
			t.Errorf("%v is %s, want %s", f, got, want)
		}
	}
	for f, want := range map[float64]string{math.Inf(1): "Infinity", math.Inf(-1): "-Infinity"} {
		if got, ok := AppendFloat(nil, f); ok || len(got) > 0 || FloatName(f) != want {
			t.Errorf("%v is %s, %t, named %s", f, got, ok, FloatName(f))
		}
	}
	expect.Equal(t, FloatName(math.NaN()), "NaN", "NaN is named")
}

func FuzzAppendString(f *testing.F) {
	for r := range rune(0x2100) {
		if Acts(r) {
			f.Add(string(r))
		}
	}
	f.Add("plain ü \" \\ \xff\xfe \u2066")
	f.Fuzz(func(t *testing.T, s string) {
		want := strings.Map(func(r rune) rune { return r }, s) // replaces invalid bytes by U+FFFD
		for _, b := range [][]byte{AppendString(nil, s), AppendSafeString(nil, s)} {
			var back string
			if err := json.Unmarshal(b, &back); err != nil || back != want {
				t.Errorf("%q becomes %s, which reads back as %q, %v", s, b, back, err)
			}
			if !utf8.Valid(b) {
				t.Errorf("%q becomes %q, which is not UTF-8", s, b)
			}
		}
		for _, r := range string(AppendSafeString(nil, s)) {
			if unicode.IsControl(r) || Acts(r) {
				t.Errorf("%q keeps %U", s, r)
			}
		}
	})
}
