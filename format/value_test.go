package format_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestOnDiskNumbers checks that the numbers in the file format do not change.
func TestOnDiskNumbers(t *testing.T) {
	for _, x := range []struct {
		name      string
		got, want int
	}{
		{"ET", int(format.ET), 0},
		{"IET", int(format.IET), 1},
		{"IETPrefix", int(format.IETPrefix), 2},
		{"LevelTrace", int(format.LevelTrace), 0},
		{"LevelDebug", int(format.LevelDebug), 1},
		{"LevelInfo", int(format.LevelInfo), 2},
		{"LevelWarn", int(format.LevelWarn), 3},
		{"LevelError", int(format.LevelError), 4},
		{"KindString", int(format.KindString), 0},
		{"KindBytes", int(format.KindBytes), 1},
		{"KindBool", int(format.KindBool), 2},
		{"KindFloat", int(format.KindFloat), 3},
		{"KindU64", int(format.KindU64), 4},
		{"KindI64", int(format.KindI64), 5},
		{"KindU128", int(format.KindU128), 6},
		{"KindI128", int(format.KindI128), 7},
	} {
		expect.Equal(t, x.got, x.want, "%s", x.name)
	}
	expect.Equal(t, string(wire.AppendMagic(nil, format.V2, format.IET)), "\x00ENTRACE\x02\x01", "the magic")
	for _, x := range []struct {
		v    format.Version
		want string
	}{
		{format.V1, "\x00\x00\x04root\x00\x00\x00\x00\x00\x00"},
		{format.V2, "\x00\x00\x04root\x00\x00\x00\x00\x00\x00\x00"},
	} {
		expect.Equal(t, string(format.AppendTraceEntry(nil, x.v, format.Root())), x.want, "the root of version %d", x.v)
	}
}

// TestEncodeNumbers compares encodings of numbers with encodings that were made by hand from bincode's rules.
func TestEncodeNumbers(t *testing.T) {
	for _, x := range []struct {
		v    format.Value
		want string
	}{
		{format.U64Value(0), "\x04\x00"},
		{format.U64Value(250), "\x04\xfa"},
		{format.U64Value(251), "\x04\xfb\xfb\x00"},
		{format.U64Value(65535), "\x04\xfb\xff\xff"},
		{format.U64Value(65536), "\x04\xfc\x00\x00\x01\x00"},
		{format.U64Value(1 << 32), "\x04\xfd\x00\x00\x00\x00\x01\x00\x00\x00"},
		{format.I64Value(-1), "\x05\x01"},
		{format.I64Value(1), "\x05\x02"},
		{format.I64Value(-126), "\x05\xfb\xfb\x00"},
		{format.I64Value(math.MinInt64), "\x05\xfd\xff\xff\xff\xff\xff\xff\xff\xff"},
		{format.U128Value(0, 250), "\x06\xfa"},
		{format.U128Value(1, 0), "\x06\xfe\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"},
		{format.I128Value(-1, math.MaxUint64), "\x07\x01"},
		{format.I128Value(math.MinInt64, 0), "\x07\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"},
		{format.FloatValue(1), "\x03\x00\x00\x00\x00\x00\x00\xf0\x3f"},
		{format.BoolValue(true), "\x02\x01"},
		{format.StringValue("ü"), "\x00\x02ü"},
		{format.BytesValue([]byte{0, 255}), "\x01\x02\x00\xff"},
	} {
		e := &format.TraceEntry{Attributes: tracetest.Attributes("", x.v)}
		b := format.AppendTraceEntry(nil, format.V1, e)
		if got, want := string(b), "\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00"+x.want; got != want {
			t.Errorf("%s %s encodes as %x, want %x", x.v.Kind(), x.v.AppendDecimal(nil), got, want)
		}
		var d format.TraceEntry
		n, err := format.DecodeTraceEntry(b, format.V1, &d)
		if err != nil || n != len(b) || !d.Attributes[0].Value.Equal(x.v) {
			t.Errorf("%x decodes as %v, %d bytes, %v", b, d.Attributes, n, err)
		}
	}
}

func TestValueDecimal(t *testing.T) {
	for _, x := range []struct {
		v    format.Value
		want string
	}{
		{format.U64Value(math.MaxUint64), "18446744073709551615"},
		{format.I64Value(math.MinInt64), "-9223372036854775808"},
		{format.U128Value(math.MaxUint64, math.MaxUint64), "340282366920938463463374607431768211455"},
		{format.I128Value(math.MinInt64, 0), "-170141183460469231731687303715884105728"},
		{format.I128Value(math.MaxInt64, math.MaxUint64), "170141183460469231731687303715884105727"},
		{format.I128Value(-1, math.MaxUint64), "-1"},
		{format.I128Value(-1, 1<<63-1), "-9223372036854775809"},
		{format.I128Value(0, 1<<63), "9223372036854775808"},
		{format.StringValue("x"), ""},
	} {
		expect.Equal(t, string(x.v.AppendDecimal(nil)), x.want, "%v", x.v.Kind())
	}
}

func TestValueIntegers(t *testing.T) {
	for _, x := range []struct {
		name  string
		v     format.Value
		i     int64
		iFits bool
		u     uint64
		uFits bool
	}{
		{"U64 max", format.U64Value(math.MaxUint64), -1, false, math.MaxUint64, true},
		{"I64 -1", format.I64Value(-1), -1, true, math.MaxUint64, false},
		{"U128 7", format.U128Value(0, 7), 7, true, 7, true},
		{"U128 1<<64", format.U128Value(1, 0), 0, false, 0, false},
		{"I128 -1", format.I128Value(-1, math.MaxUint64), -1, true, math.MaxUint64, false},
		{"I128 -1<<64", format.I128Value(-1, 0), 0, false, 0, false},
		{"Bool", format.BoolValue(true), 0, false, 0, false},
	} {
		if i, fits := x.v.I64(); fits != x.iFits || fits && i != x.i {
			t.Errorf("%s: I64 is %d, %t, want %d, %t", x.name, i, fits, x.i, x.iFits)
		}
		if u, fits := x.v.U64(); fits != x.uFits || fits && u != x.u {
			t.Errorf("%s: U64 is %d, %t, want %d, %t", x.name, u, fits, x.u, x.uFits)
		}
	}
}

func TestValueWords(t *testing.T) {
	for _, x := range []struct {
		v      format.Value
		hi, lo uint64
	}{
		{format.U64Value(math.MaxUint64), 0, math.MaxUint64},
		{format.I64Value(-2), math.MaxUint64, math.MaxUint64 - 1},
		{format.I64Value(2), 0, 2},
		{format.U128Value(3, 4), 3, 4},
		{format.I128Value(-3, 4), math.MaxUint64 - 2, 4},
	} {
		if hi, lo := x.v.Words(); hi != x.hi || lo != x.lo {
			t.Errorf("the words of %v %s are %d, %d, want %d, %d", x.v.Kind(), x.v.AppendDecimal(nil), hi, lo, x.hi, x.lo)
		}
	}
}

// TestValueForPeople checks the text of a value, and the Go value that Any returns for it.
func TestValueForPeople(t *testing.T) {
	huge, _ := new(big.Int).SetString("18446744073709551617", 10)
	for _, tt := range []struct {
		v    format.Value
		want string
		any  any
	}{
		{format.StringValue("a b"), "a b", "a b"},
		{format.BytesValue([]byte{1, 255}), "0x01ff", []byte{1, 255}},
		{format.BoolValue(true), "true", true},
		{format.FloatValue(0.5), "0.5", 0.5},
		{format.U64Value(7), "7", uint64(7)},
		{format.I64Value(-7), "-7", int64(-7)},
		{format.U128Value(1, 1), huge.String(), huge},
		{format.I128Value(-1, math.MaxUint64), "-1", big.NewInt(-1)},
	} {
		expect.Equal(t, fmt.Sprint(tt.v), tt.want, "%v", tt.v.Kind())
		expect.DeepEqual(t, tt.v.Any(), tt.any, "Any of %v", tt.v.Kind())
	}
}

func TestUserAttributes(t *testing.T) {
	e := format.TraceEntry{Attributes: tracetest.Attributes(format.AttrSpanID, "01", "took", 5, "otel.attr.span_id", "mine", mapping.AttrDurations, `["took"]`)}
	if got := fmt.Sprint(e.UserAttributes()); got != "[{took 5} {span_id mine}]" {
		t.Errorf("they are %s", got)
	}
}
