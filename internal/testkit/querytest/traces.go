package querytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// View returns the view of a file with the given entries.
func View(t testing.TB, entries []*format.TraceEntry) *view.View {
	return tracetest.New(t, format.V1, format.IET, entries...).View()
}

// Run runs a query on all rows of a view. The text of the query must be valid.
func Run(t testing.TB, v *view.View, text string) (*query.Result, error) {
	t.Helper()
	q, err := query.Parse(text)
	expect.Must(t, err)
	return q.Run(t.Context(), v, nil)
}

// Result runs a query, which must succeed, on all rows of a view.
func Result(t testing.TB, v *view.View, text string) *query.Result {
	t.Helper()
	r, err := Run(t, v, text)
	expect.MustIs(t, err, nil, "%s", text)
	return r
}

// Everything returns the rows that the empty query selects.
func Everything(t testing.TB, v *view.View) view.Set[view.Row] {
	t.Helper()
	return Result(t, v, "").Rows
}

// HasException reports whether the row is a span of unset status that has an exception.
func HasException(v *view.View, r view.Row) bool {
	return v.Role(r) == view.RoleSpan && v.Flags(r).Status() == "unset" && slices.ContainsFunc(v.Children(r), func(kid view.Row) bool {
		return v.Role(kid) == view.RoleEvent && v.Name(kid) == "exception"
	})
}

// Span returns the entry of a span with a duration. If took is -1, the span has not ended.
func Span(parent uint32, id, name string, start, took int64) *format.TraceEntry {
	e := &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name, Level: format.LevelInfo}, Attributes: tracetest.Attributes(
		format.AttrSpanID, fmt.Sprintf("%016s", id),
		format.AttrTraceID, "00000000000000000000000000000001",
		format.AttrTime, uint64(start),
	)}
	if took >= 0 {
		e.Add(format.AttrDuration, format.U64Value(uint64(took)))
	}
	return e
}

// Shop returns a random trace of a few services.
func Shop(r *rand.Rand, n int) []*format.TraceEntry {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	all := []*format.TraceEntry{format.Root()}
	for _, s := range []string{"shop", "stock"} {
		all = append(all, tracetest.Resource(s, "service.name", s, "env", "prod"))
	}
	spans := []uint32{}
	for len(all) < n {
		e := &format.TraceEntry{Parent: uint32(1 + r.IntN(2)), Metadata: format.Metadata{Name: pick("GET /cart", "SELECT price", "render"), Target: pick("http", "db"), Level: format.LevelInfo}}
		add := func(name string, v format.Value) {
			e.Add(name, v)
		}
		if len(spans) > 0 && r.IntN(4) > 0 {
			e.Parent = spans[r.IntN(len(spans))]
		}
		add(format.AttrTime, format.U64Value(uint64(1000+r.IntN(1000))))
		if r.IntN(3) > 0 {
			add("user", format.StringValue(pick("ada", "bob", "Eve")))
		}
		if r.IntN(3) > 0 {
			add("n", format.I64Value(int64(r.IntN(5))))
		}
		if r.IntN(5) == 0 {
			add("ratio", format.FloatValue(float64(r.IntN(5))/2))
		}
		if r.IntN(5) == 0 {
			add("ok", format.BoolValue(r.IntN(2) == 0))
		}
		switch r.IntN(5) {
		case 0, 1:
			e.Metadata.Name, e.Message = "event", format.Some(pick("payment failed", "cart shown", "retry 7"))
			e.Metadata.Level = format.Level(r.IntN(5))
		case 2:
			e.Add(mapping.AttrEvent, format.BoolValue(true))
			e.Metadata.Name = pick("exception", "retry")
		default:
			spans = append(spans, uint32(len(all)))
			add(format.AttrSpanID, format.StringValue(fmt.Sprintf("%016x", len(all))))
			if e.Parent < 3 && r.IntN(5) > 0 {
				add(format.AttrTraceID, format.StringValue(fmt.Sprintf("%032x", 1+r.IntN(6))))
			}
			if r.IntN(4) > 0 {
				add(format.AttrDuration, format.U64Value(uint64(r.IntN(1000))))
			}
			if r.IntN(3) == 0 {
				add(mapping.AttrStatusCode, format.StringValue(pick("OK", "ERROR")))
			}
			if r.IntN(3) == 0 {
				add(mapping.AttrKind, format.StringValue(pick("server", "client")))
			}
		}
		all = append(all, e)
	}
	return all
}

// Fixed returns a small trace that never changes. Rows 2, 3 and 5 are spans, row 4 is a log record, and row 6 is
// an event.
func Fixed() []*format.TraceEntry {
	entry := func(parent uint32, name string, at int, attrs ...format.Attribute) *format.TraceEntry {
		return &format.TraceEntry{
			Parent: parent, Metadata: format.Metadata{Name: name, Level: format.LevelInfo},
			Attributes: append(tracetest.Attributes(format.AttrTime, uint64(at)), attrs...),
		}
	}
	span := func(parent uint32, name string, id, at, took int, attrs ...format.Attribute) *format.TraceEntry {
		return entry(parent, name, at, append(tracetest.Attributes(
			format.AttrSpanID, fmt.Sprintf("%016x", id),
			format.AttrDuration, uint64(took),
		), attrs...)...)
	}
	attr := func(name string, v format.Value) format.Attribute { return format.Attribute{Name: name, Value: v} }
	log := entry(2, "event", 102, attr("user", format.StringValue("ada")))
	log.Message = format.Some("hello world")
	return []*format.TraceEntry{
		format.Root(),
		tracetest.Resource("shop"),
		span(1, "a", 2, 100, 30, attr(format.AttrTraceID, format.StringValue(strings.Repeat("1", 32))), attr("user", format.StringValue("ada")), attr("n", format.I64Value(1))),
		span(2, "b", 3, 110, 40, attr("n", format.U64Value(2))),
		log,
		span(1, "a", 5, 120, 10, attr(format.AttrTraceID, format.StringValue(strings.Repeat("1", 32))), attr("user", format.StringValue("bob")), attr("n", format.FloatValue(3))),
		entry(5, "retry", 125, attr(mapping.AttrEvent, format.BoolValue(true))),
	}
}
