package otel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var must = expect.Must

// randomAny returns a random value of any kind. Lists and maps nest at most depth levels deep.
func randomAny(r *rand.Rand, depth int) otel.Any {
	texts := []string{"", "a", "grüße", `"quoted\`, "\x00\x1b", "\xff not UTF-8", "a.b"}
	n := 9
	if depth == 0 {
		n = 7
	}
	switch r.IntN(n) {
	case 0:
		return otel.Any{}
	case 1:
		return otel.Any{Kind: otel.Bool, Bool: r.IntN(2) == 0}
	case 2:
		return otel.Any{Kind: otel.Int, Int: int64(r.Uint64()) >> r.IntN(64)}
	case 3:
		return otel.Any{Kind: otel.Float, Float: []float64{0, 1, -1.5, 1e300, math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324}[r.IntN(8)]}
	case 4:
		return otel.Any{Kind: otel.Bytes, Text: texts[r.IntN(len(texts))]}
	case 5, 6:
		return otel.Any{Kind: otel.String, Text: texts[r.IntN(5)]}
	case 7:
		v := otel.Any{Kind: otel.List}
		for range r.IntN(4) {
			v.List = append(v.List, randomAny(r, depth-1))
		}
		return v
	}
	v := otel.Any{Kind: otel.Map}
	for range r.IntN(4) {
		v.Map = append(v.Map, otel.KeyValue{Key: texts[r.IntN(5)], Value: randomAny(r, depth-1)})
	}
	return v
}

var names = []string{"a", "http.route", "trace_id", "otel.attr.x", "otel.json", "entrace.x", "severity_number", "log.level", "grüße"}

func randomAttributes(r *rand.Rand) (attrs []otel.Attribute) {
	for _, i := range r.Perm(len(names))[:r.IntN(5)] {
		v := randomAny(r, 3)
		attrs = append(attrs, otel.NewAttribute(names[i], &v))
	}
	return attrs
}

func TestAnyIsKept(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		want := randomAny(r, 4)
		a := otel.NewAttribute("x", &want)
		if got := a.Any(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v became %+v, stored as %v %q", want, got, a.Encoding, a.Value.Text())
		}
	}
}

func TestAnyOfNaN(t *testing.T) {
	for _, v := range []otel.Any{
		{Kind: otel.Float, Float: math.NaN()},
		{Kind: otel.List, List: []otel.Any{{Kind: otel.Float, Float: math.NaN()}}},
	} {
		a := otel.NewAttribute("x", &v)
		got := a.Any()
		if got.Kind == otel.List {
			got = got.List[0]
		}
		if got.Kind != otel.Float || !math.IsNaN(got.Float) {
			t.Errorf("NaN became %+v", got)
		}
	}
}

// TestDeepValues checks that a value that nests too deep becomes a text and does not crash the program.
func TestDeepValues(t *testing.T) {
	deep := make([]byte, 0, 2<<20)
	for range 1 << 20 {
		deep = append(deep, '[')
	}
	for _, encoding := range []otel.Encoding{otel.JSON, otel.AnyValue} {
		a := otel.Attribute{Name: "x", Value: format.StringValue(string(deep)), Encoding: encoding}
		if v := a.Any(); v.Kind != otel.String {
			t.Errorf("encoding %d: a %v", encoding, v.Kind)
		}
	}
}

func randomSpan(r *rand.Rand, id byte) *otel.Span {
	s := &otel.Span{
		Name: []string{"", "GET /", "x"}[r.IntN(3)], TraceID: [16]byte{1, id}, SpanID: [8]byte{2, id},
		Flags: []uint32{0, 1, mapping.DefaultTraceFlags, math.MaxUint32}[r.IntN(4)], Kind: otel.SpanKind(r.IntN(6)),
		Start: []int64{0, 5, -5, 1 << 60}[r.IntN(4)], Status: otel.Status(r.IntN(3)),
		Description: []string{"", "no"}[r.IntN(2)], TraceState: []string{"", "a=b"}[r.IntN(2)],
		Scope:             otel.Scope{Name: "scope", Version: []string{"", "1"}[r.IntN(2)], SchemaURL: []string{"", "u"}[r.IntN(2)], Attributes: randomAttributes(r), Dropped: uint32(r.IntN(2))},
		Attributes:        randomAttributes(r),
		DroppedAttributes: uint32(r.IntN(3)), DroppedEvents: uint32(r.IntN(3)), DroppedLinks: uint32(r.IntN(3)), MadeIDs: r.IntN(4) == 0,
	}
	if r.IntN(2) == 0 {
		s.Parent = [8]byte{3, id}
	}
	if r.IntN(2) == 0 {
		s.Ended, s.Duration = true, int64(r.IntN(1000)-500)
	}
	for range r.IntN(3) {
		s.Links = append(s.Links, otel.Link{TraceID: [16]byte{9, id}, SpanID: [8]byte{8}, Flags: uint32(r.IntN(1024)), TraceState: s.TraceState, Attributes: randomAttributes(r), Dropped: uint32(r.IntN(2))})
	}
	for range r.IntN(3) {
		s.Events = append(s.Events, otel.Event{Name: []string{"", "exception", "event x"}[r.IntN(3)], Time: 7, HasTime: true, Attributes: randomAttributes(r), Dropped: uint32(r.IntN(2))})
	}
	return s
}

func randomLog(r *rand.Rand) *otel.Log {
	l := &otel.Log{
		Body: randomAny(r, 2), Time: 11, HasTime: r.IntN(2) == 0, Observed: []int64{0, 11, 12}[r.IntN(3)],
		Severity: uint32(r.IntN(30)), SeverityText: []string{"", "INFO", "ERROR", "odd"}[r.IntN(4)], EventName: []string{"", "e"}[r.IntN(2)],
		Flags: uint32(r.IntN(2)), Scope: otel.Scope{Name: "scope", Attributes: randomAttributes(r)}, Attributes: randomAttributes(r), Dropped: uint32(r.IntN(2)),
	}
	if r.IntN(2) == 0 {
		l.TraceID, l.SpanID = [16]byte{1, 200}, [8]byte{2, 200}
	}
	return l
}

// TestSource writes random spans and log records, and reads them back.
func TestSource(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 50 {
		version := format.V1 + format.Version(round%2)
		x := tracetest.New(t, version, format.ET, format.Root())
		write := x.AddBelow
		res := &otel.Resource{Attributes: randomAttributes(r), SchemaURL: "s", Dropped: 3}
		resource := write(res.Entry(), 0)
		spans, logs := make(map[uint32]*otel.Span), make(map[uint32]*otel.Log)
		for i := range 20 {
			s := randomSpan(r, byte(i+1))
			id := write(tracetest.Of(s, otel.Where{}), resource)
			spans[id] = s
			for i := range s.Links {
				write(tracetest.Of(&s.Links[i], "scope"), id)
			}
			for i := range s.Events {
				s.Events[i].ID = write(tracetest.Of(&s.Events[i], "scope"), id)
			}
			l := randomLog(r)
			logs[write(tracetest.Of(l, otel.Where{}), resource)] = l
		}
		v := x.View()
		source := tracetest.NewSource(v)
		for id, want := range spans {
			got, err := source.Span(view.Row(id))
			must(t, err)
			want.ID = id
			got.Metadata = want.Metadata
			if version == format.V2 {
				sortAll(got)
				sortAll(want)
			}
			expect.MustEqual(t, text(got), text(want), "version %d: the span", version)
			expect.Equal(t, v.Resource(view.Row(id)), view.Row(resource), "the resource of span %d", id)
		}
		for id, want := range logs {
			got, err := source.Log(view.Row(id))
			must(t, err)
			want.ID, want.Message = id, got.Message
			got.Metadata = want.Metadata
			if !want.HasTime {
				want.Time = 0
			}
			if version == format.V2 {
				sortAttributes(got.Attributes, got.Scope.Attributes, want.Attributes, want.Scope.Attributes)
			}
			expect.MustEqual(t, text(got), text(want), "version %d: the log record", version)
		}
		got, err := source.Resource(view.Row(resource))
		must(t, err)
		if version == format.V2 {
			sortAttributes(got.Attributes, res.Attributes)
		}
		expect.MustEqual(t, text(got), text(res), "the resource")
	}
}

func sortAll(s *otel.Span) {
	sortAttributes(s.Attributes, s.Scope.Attributes)
	for i := range s.Links {
		sortAttributes(s.Links[i].Attributes)
	}
	for i := range s.Events {
		sortAttributes(s.Events[i].Attributes)
	}
}

// sortAttributes sorts attributes in the order in which version 2 of the format stores them.
func sortAttributes(lists ...[]otel.Attribute) {
	for _, attrs := range lists {
		slices.SortStableFunc(attrs, func(a, b otel.Attribute) int {
			return strings.Compare(mapping.EscapeName(a.Name), mapping.EscapeName(b.Name))
		})
	}
}

// text returns v as a text for comparisons. Values of attributes are equal in it if they mean the same, however
// they are stored.
func text(v any) string {
	var out strings.Builder
	var show func(v reflect.Value)
	show = func(v reflect.Value) {
		switch {
		case v.Type() == reflect.TypeFor[otel.Attribute]():
			a := v.Interface().(otel.Attribute)
			value := a.Any()
			fmt.Fprintf(&out, "%s %d %+v;", a.Name, a.Encoding, value)
		case v.Kind() == reflect.Pointer:
			show(v.Elem())
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				fmt.Fprintf(&out, "%s:", v.Type().Field(i).Name)
				show(v.Field(i))
			}
		case v.Kind() == reflect.Slice:
			fmt.Fprintf(&out, "[%d]", v.Len())
			for i := range v.Len() {
				show(v.Index(i))
			}
		default:
			fmt.Fprintf(&out, "%v,", v)
		}
	}
	show(reflect.ValueOf(v))
	return out.String()
}
