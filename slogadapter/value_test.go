package slogadapter_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

type (
	namedInt    int16
	namedUint   uint8
	namedFloat  float32
	namedBool   bool
	namedString string
	namedBytes  []byte
	point       struct{ X, Y int }
	failure     struct {
		Op  string
		Err error
	}
	node struct {
		Name string
		Next *node
	}
)

// Types with some of the methods that determine how a value is stored.
type (
	hasJSON          struct{}
	hasText          struct{}
	hasError         struct{}
	hasJSONText      struct{ hasJSON }
	hasErrorJSONText struct{ hasJSONText }
	namedWithText    int
	namedWithJSON    string
)

func (hasJSON) MarshalJSON() ([]byte, error)       { return []byte(` { "j" : "<&>" } `), nil }
func (hasText) MarshalText() ([]byte, error)       { return []byte("text"), nil }
func (hasError) Error() string                     { return "error" }
func (hasJSONText) MarshalText() ([]byte, error)   { return []byte("text"), nil }
func (hasErrorJSONText) Error() string             { return "error" }
func (namedWithText) MarshalText() ([]byte, error) { return []byte("seven"), nil }
func (namedWithJSON) MarshalJSON() ([]byte, error) { return []byte("7"), nil }

// Types whose methods do not expect a nil receiver.
type (
	nilError struct{ s string }
	nilText  struct{ s string }
	nilJSON  struct{ s string }
)

func (e *nilError) Error() string               { return e.s }
func (e *nilText) MarshalText() ([]byte, error) { return []byte(e.s), nil }
func (e *nilJSON) MarshalJSON() ([]byte, error) { return []byte(e.s), nil }

// Types whose methods fail or panic with the values that they hold.
type (
	failingJSON   struct{ err error }
	failingText   struct{ err error }
	panicsJSON    struct{ with any }
	panicsText    struct{ with any }
	panicsError   struct{ with any }
	stringerPanic struct{}
)

func (f failingJSON) MarshalJSON() ([]byte, error) { return nil, f.err }
func (f failingText) MarshalText() ([]byte, error) { return nil, f.err }
func (p panicsJSON) MarshalJSON() ([]byte, error)  { panic(p.with) }
func (p panicsText) MarshalText() ([]byte, error)  { panic(p.with) }
func (p panicsError) Error() string                { panic(p.with) }
func (stringerPanic) String() string               { return "stringer" }

func TestValue(t *testing.T) {
	cyclicMap := map[string]any{}
	cyclicMap["self"] = cyclicMap
	cyclicSlice := []any{nil}
	cyclicSlice[0] = cyclicSlice
	cyclicStruct := &node{Name: "n"}
	cyclicStruct.Next = cyclicStruct
	berlin := time.FixedZone("", 2*60*60)
	err := errors.New("no route")
	for _, test := range []struct {
		name   string
		value  any
		want   string
		isJSON bool
	}{
		{name: "string", value: "s", want: "String s"},
		{name: "empty string", value: "", want: "String "},
		{name: "string not UTF-8", value: "a\xffb", want: "Bytes a\xffb"},
		{name: "int", value: -5, want: "I64 -5"},
		{name: "int64 min", value: int64(math.MinInt64), want: "I64 -9223372036854775808"},
		{name: "uint64 max", value: uint64(math.MaxUint64), want: "U64 18446744073709551615"},
		{name: "uintptr", value: uintptr(6), want: "U64 6"},
		{name: "float", value: 0.1, want: "Float 0.1"},
		{name: "NaN", value: math.NaN(), want: "Float NaN"},
		{name: "Inf", value: math.Inf(1), want: "Float +Inf"},
		{name: "-Inf", value: math.Inf(-1), want: "Float -Inf"},
		{name: "bool", value: true, want: "Bool true"},
		{name: "duration", value: 1500 * time.Nanosecond, want: "I64 1500"},
		{name: "time", value: time.Date(2026, 1, 2, 3, 4, 5, 123456789, berlin), want: "String 2026-01-02T03:04:05.123456789+02:00"},
		{name: "zero time", value: time.Time{}, want: "String 0001-01-01T00:00:00Z"},
		{name: "year 20000", value: time.Date(20000, 1, 1, 0, 0, 0, 1, time.UTC), want: "String 20000-01-01T00:00:00.000000001Z"},

		{name: "nil", value: nil, want: "String null", isJSON: true},
		{name: "nil pointer", value: (*point)(nil), want: "String null", isJSON: true},
		{name: "[]byte", value: []byte("\x00\xff"), want: "Bytes \x00\xff"},
		{name: "[]byte that is text", value: []byte("text"), want: "Bytes text"},
		{name: "nil []byte", value: []byte(nil), want: "Bytes "},
		{name: "named int", value: namedInt(-5), want: "I64 -5"},
		{name: "pointers", value: new(-5), want: "I64 -5"},
		{name: "pointer to a text", value: new("s"), want: "String s"},
		{name: "named uint", value: namedUint(5), want: "U64 5"},
		{name: "named float", value: namedFloat(0.5), want: "Float 0.5"},
		{name: "named NaN", value: namedFloat(math.NaN()), want: "Float NaN"},
		{name: "named bool", value: namedBool(true), want: "Bool true"},
		{name: "named string", value: namedString("n"), want: "String n"},
		{name: "named string not UTF-8", value: namedString("\xff"), want: "Bytes \xff"},
		{name: "named bytes", value: namedBytes("b"), want: `String "Yg=="`, isJSON: true},
		{name: "struct", value: point{1, 2}, want: `String {"X":1,"Y":2}`, isJSON: true},
		{name: "slice", value: []string{"<a>", "b\xff"}, want: `String ["<a>","b\ufffd"]`, isJSON: true},
		{name: "error in a struct", value: failure{"dial", err}, want: `String {"Op":"dial","Err":{}}`, isJSON: true},

		{name: "error", value: err, want: "String no route"},
		{name: "error not UTF-8", value: errors.New("\xff"), want: "Bytes \xff"},
		{name: "json.Marshaler", value: hasJSON{}, want: `String {"j":"<&>"}`, isJSON: true},
		{name: "json.Marshaler not UTF-8", value: json.RawMessage("\"a\xff\xfe\""), want: "String a\ufffd\ufffd"},
		{name: "json.Marshaler of an integer", value: json.RawMessage("-7"), want: "I64 -7"},
		{name: "json.Marshaler of a large integer", value: json.RawMessage("18446744073709551615"), want: "U64 18446744073709551615"},
		{name: "json.Marshaler of a fraction", value: json.RawMessage("12.5"), want: "Float 12.5"},
		{name: "json.Marshaler of a long fraction", value: json.RawMessage("0.12345678901234567890"), want: "String 0.12345678901234567890", isJSON: true},
		{name: "json.Marshaler of a boolean", value: json.RawMessage("true"), want: "Bool true"},
		{name: "json.Number", value: json.Number("7"), want: "I64 7"},
		{name: "json.Number without a number", value: json.Number("Infinity"), want: "String Infinity"},
		{name: "TextMarshaler", value: hasText{}, want: "String text"},
		{name: "TextMarshaler of the library", value: netip.MustParseAddr("::1"), want: "String ::1"},
		{name: "json.Marshaler before TextMarshaler", value: hasJSONText{}, want: `String {"j":"<&>"}`, isJSON: true},
		{name: "error before json.Marshaler", value: hasErrorJSONText{}, want: "String error"},
		{name: "error alone", value: hasError{}, want: "String error"},
		{name: "TextMarshaler before basic kind", value: namedWithText(7), want: "String seven"},
		{name: "json.Marshaler before basic kind", value: namedWithJSON("x"), want: "I64 7"},
		{name: "level", value: slog.LevelWarn + 1, want: "String WARN+1"},

		{name: "nil *T error", value: (*nilError)(nil), want: "String <nil>"},
		{name: "nil *T TextMarshaler", value: (*nilText)(nil), want: "String <nil>"},
		{name: "nil *T json.Marshaler", value: (*nilJSON)(nil), want: "String null", isJSON: true},
		{name: "MarshalJSON fails", value: failingJSON{err}, want: "String json: error calling MarshalJSON for type slogadapter_test.failingJSON: no route"},
		{name: "MarshalText fails", value: failingText{err}, want: "String no route"},
		{name: "chan", value: make(chan int), want: "String json: unsupported type: chan int"},
		{name: "func", value: func() {}, want: "String json: unsupported type: func()"},
		{name: "complex", value: 1i, want: "String json: unsupported type: complex128"},
		{name: "NaN in a slice", value: []float64{math.NaN()}, want: "String json: unsupported value: NaN"},
		{name: "cyclic map", value: cyclicMap, want: "String json: unsupported value: encountered a cycle via map[string]interface {}"},
		{name: "cyclic slice", value: cyclicSlice, want: "String json: unsupported value: encountered a cycle via []interface {}"},
		{name: "cyclic struct", value: cyclicStruct, want: "String json: unsupported value: encountered a cycle via *slogadapter_test.node"},

		{name: "panic in MarshalJSON", value: panicsJSON{"mj"}, want: "String !PANIC: mj"},
		{name: "panic in MarshalJSON further in", value: map[string]any{"a": panicsJSON{"mj"}}, want: "String !PANIC: mj"},
		{name: "panic in MarshalText", value: panicsText{err}, want: "String !PANIC: no route"},
		{name: "panic in Error", value: panicsError{7}, want: "String !PANIC: 7"},
		{name: "panic in the error's error", value: failingText{panicsError{"again"}}, want: "String !PANIC: again"},
		{name: "panic with a Stringer", value: panicsError{stringerPanic{}}, want: "String !PANIC: stringer"},
		{name: "panic with something cyclic", value: panicsError{cyclicMap}, want: "String !PANIC: map[string]interface {}"},
		{name: "panic with an error that panics", value: panicsError{panicsError{7}}, want: "String !PANIC: %!v(PANIC=Error method: 7)"},
		{name: "panic with nil", value: panicsError{nil}, want: "String !PANIC: " + new(runtime.PanicNilError).Error()},

		{name: "LogValuer", value: valuer(func() slog.Value { return slog.IntValue(1) }), want: "I64 1"},
		{name: "LogValuer of a LogValuer", value: valuer(func() slog.Value {
			return slog.AnyValue(valuer(func() slog.Value { return slog.StringValue("deep") }))
		}), want: "String deep"},
		{name: "LogValuer of an error that panics", value: valuer(func() slog.Value { return slog.AnyValue(panicsError{"e"}) }), want: "String !PANIC: e"},
	} {
		for _, with := range []bool{false, true} {
			name := test.name
			if with {
				name += " of With"
			}
			t.Run(name, func(t *testing.T) {
				all := record(t, nil, func(l *slog.Logger) {
					if with {
						l.With("v", test.value).Info("message")
						return
					}
					l.Info("message", "v", test.value)
				})
				v, ok := all[0].Attribute("v")
				if got := kindAndText(v); !ok || got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
				names, _ := all[0].Attribute(mapping.AttrJSON)
				want := ""
				if test.isJSON {
					want = `["v"]`
				}
				expect.Equal(t, names.Text(), want, "otel.json")
			})
		}
	}
}

func TestPanicInLogValue(t *testing.T) {
	e := recordOne(t, nil,
		slog.Any("v", valuer(func() slog.Value { panic("lv") })),
		slog.Group("g", slog.Any("v", valuer(func() slog.Value { panic("lv") }))),
		slog.Int("after", 1))
	for _, name := range []string{"v", "g.v"} {
		v, _ := e.Attribute(name)
		if got := kindAndText(v); !strings.HasPrefix(got, "String LogValue panicked") {
			t.Errorf("%s is %q, want what slog says of a panic", name, got)
		}
	}
	if v, _ := e.Attribute("after"); plain(v) != "1" {
		t.Errorf("after is %q, want 1", plain(v))
	}
}

// TestJSONNames checks that otel.json has the names that are stored in the
// file.
func TestJSONNames(t *testing.T) {
	all := record(t, nil, func(l *slog.Logger) {
		l.With("a", nil).WithGroup(`g"`).With("b", point{}).Info("m", "b", []int{}, "otel.x", nil, "n", 1)
	})
	checkList(t, all[0], `a=null g".b={"X":0,"Y":0} g".b#2=[] g".otel.x=null g".n=1 `+
		`otel.json=["a","g\".b","g\".b#2","g\".otel.x"]`)
	checkList(t, recordOne(t, nil, slog.Any("otel.x", nil)), `otel.attr.otel.x=null otel.json=["otel.attr.otel.x"]`)
}
