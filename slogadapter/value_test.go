package slogadapter_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/slogadapter"
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

// values are names and values of attributes.
var values = func() []any {
	cyclicMap := map[string]any{}
	cyclicMap["self"] = cyclicMap
	cyclicSlice := []any{nil}
	cyclicSlice[0] = cyclicSlice
	cyclicStruct := &node{Name: "n"}
	cyclicStruct.Next = cyclicStruct
	berlin := time.FixedZone("", 2*60*60)
	err := errors.New("no route")
	return []any{
		"string", "s",
		"empty string", "",
		"string not UTF-8", "a\xffb",
		"int", -5,
		"int64 min", int64(math.MinInt64),
		"uint64 max", uint64(math.MaxUint64),
		"uintptr", uintptr(6),
		"float", 0.1,
		"NaN", math.NaN(),
		"Inf", math.Inf(1),
		"-Inf", math.Inf(-1),
		"bool", true,
		"duration", 1500 * time.Nanosecond,
		"time", time.Date(2026, 1, 2, 3, 4, 5, 123456789, berlin),
		"zero time",
		time.Time{},
		"year 20000", time.Date(20000, 1, 1, 0, 0, 0, 1, time.UTC),

		"nil", nil,
		"nil pointer", (*point)(nil),
		"[]byte", []byte("\x00\xff"),
		"[]byte that is text", []byte("text"),
		"nil []byte", []byte(nil),
		"named int", namedInt(-5),
		"pointers", new(-5),
		"pointer to a text", new("s"),
		"named uint", namedUint(5),
		"named float", namedFloat(0.5),
		"named NaN", namedFloat(math.NaN()),
		"named bool", namedBool(true),
		"named string", namedString("n"),
		"named string not UTF-8", namedString("\xff"),
		"named bytes", namedBytes("b"),
		"struct",
		point{1, 2},
		"slice",
		[]string{"<a>", "b\xff"},
		"error in a struct",
		failure{"dial", err},

		"error", err,
		"error not UTF-8", errors.New("\xff"),
		"json.Marshaler",
		hasJSON{},
		"json.Marshaler not UTF-8", json.RawMessage("\"a\xff\xfe\""),
		"json.Marshaler of an integer", json.RawMessage("-7"),
		"json.Marshaler of a large integer", json.RawMessage("18446744073709551615"),
		"json.Marshaler of a fraction", json.RawMessage("12.5"),
		"json.Marshaler of a long fraction", json.RawMessage("0.12345678901234567890"),
		"json.Marshaler of a boolean", json.RawMessage("true"),
		"json.Number", json.Number("7"),
		"json.Number without a number", json.Number("Infinity"),
		"TextMarshaler",
		hasText{},
		"TextMarshaler of the library", netip.MustParseAddr("::1"),
		"json.Marshaler before TextMarshaler",
		hasJSONText{},
		"error before json.Marshaler",
		hasErrorJSONText{},
		"error alone",
		hasError{},
		"TextMarshaler before basic kind", namedWithText(7),
		"json.Marshaler before basic kind", namedWithJSON("x"),
		"level", slog.LevelWarn + 1,

		"nil *T error", (*nilError)(nil),
		"nil *T TextMarshaler", (*nilText)(nil),
		"nil *T json.Marshaler", (*nilJSON)(nil),
		"MarshalJSON fails",
		failingJSON{err},
		"MarshalText fails",
		failingText{err},
		"chan", make(chan int),
		"func", func() {},
		"complex", 1i,
		"NaN in a slice",
		[]float64{math.NaN()},
		"cyclic map", cyclicMap,
		"cyclic slice", cyclicSlice,
		"cyclic struct", cyclicStruct,

		"panic in MarshalJSON",
		panicsJSON{"mj"},
		"panic in MarshalJSON further in",
		map[string]any{"a": panicsJSON{"mj"}},
		"panic in MarshalText",
		panicsText{err},
		"panic in Error",
		panicsError{7},
		"panic in the error's error",
		failingText{panicsError{"again"}},
		"panic with a Stringer",
		panicsError{stringerPanic{}},
		"panic with something cyclic",
		panicsError{cyclicMap},
		"panic with an error that panics",
		panicsError{panicsError{7}},
		"panic with nil",
		panicsError{nil},

		"LogValuer", valuer(func() slog.Value { return slog.IntValue(1) }),
		"LogValuer of a LogValuer", valuer(func() slog.Value {
			return slog.AnyValue(valuer(func() slog.Value { return slog.StringValue("deep") }))
		}),
		"LogValuer of an error that panics", valuer(func() slog.Value { return slog.AnyValue(panicsError{"e"}) }),
	}
}()

// A badValue panics in each of its methods.
type badValue struct{}

func (badValue) LogValue() slog.Value { panic("on purpose") }
func (badValue) Error() string        { panic("on purpose") }

// TestPanickingValue checks that a panic of a value loses only this value, and leaves no lock held.
func TestPanickingValue(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	log := slog.New(slogadapter.New(rec, nil))
	log.Info("first", "bad", badValue{}, "good", 1)
	log.Info("second", "bad", error(badValue{}))
	log.Info("third")
	tracetest.Close(t, rec)
	f := tracetest.Open(t, rec.Path())
	expect.Equal(t, f.Len(), 5, "entries")
	a, _, err := f.Attribute(1, "bad")
	if err != nil || !strings.Contains(a.Text(), "LogValue panicked") { // slog writes this text
		t.Errorf("the value is %q, %v", a.Text(), err)
	}
	a, _, err = f.Attribute(2, "bad")
	if err != nil || !strings.HasPrefix(a.Text(), "!PANIC: on purpose") && !strings.Contains(a.Text(), "LogValue panicked") {
		t.Errorf("the error is %q, %v", a.Text(), err)
	}
	if a, _, _ := f.Attribute(1, "good"); !a.Equal(format.I64Value(1)) {
		t.Errorf("the value beside is %s", a.AppendDecimal(nil))
	}
}
